"""From a record to the bytes of its file."""

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.attention.record import Record
from transformer.attention.record_files.axes import written_axis, written_text
from transformer.attention.record_files.changes import WrittenChanges
from transformer.attention.record_files.contents import KEY, VERSION
from transformer.attention.record_files.reading import read_table
from transformer.attention.record_files.tensors import Stored
from transformer.messages import Message
from transformer.safe.headers import KINDS, LENGTH_BYTES, parsed_table
from transformer.safe.limits import DEFAULT_LIMITS
from transformer.safe.names import check_names
from transformer.safe.refusal import refused

_ALIGNMENT = 8
_SHOWN = 80
_NAMES = {name: kind for kind, name in KINDS.items()}


def blocks(record: Record) -> Iterator[bytes | memoryview]:
    """The bytes of the file of a record, its header first, then tensor by tensor.

    Raises:
        CheckpointError: the file could not be read again: it holds NaN, or is too large.
    """
    stored = Stored()
    table = _table(record, stored)
    name = record.model[:_SHOWN] or Message("noun_record")
    read_table(table, stored.tensors, name)
    tensors = dict(sorted(stored.tensors.items(), key=lambda one: -one[1].element_size()))  # aligned, as others expect
    checks = {key: zlib.crc32(_bytes(tensor)) for key, tensor in tensors.items()}
    header: dict[str, Any] = {"__metadata__": {KEY: _json({**table, "checksums": checks})}}
    end = 0
    for key, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        kind = _NAMES[str(tensor.dtype).removeprefix("torch.")]
        header[key] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    data = _json(header).encode()
    data += b" " * (-len(data) % _ALIGNMENT)
    _check_sizes(data, tensors, end, name)
    yield len(data).to_bytes(LENGTH_BYTES, "little") + data
    for tensor in tensors.values():
        yield _bytes(tensor)


def save(content: Iterable[bytes | memoryview], path: Path) -> None:
    """Write the bytes of a file beside `path`, and put it there once it is whole.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as handle:
            handle.writelines(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _table(record: Record, stored: Stored) -> dict[str, Any]:
    """The JSON table of a record; its tensors are put into `stored`."""
    axes: dict[str, int] = {}
    changes = WrittenChanges(stored)
    sites = []
    for one in record.values():
        site = {
            "site": str(one.site),
            "queries": axes.setdefault(_json(written_axis(one.queries)), len(axes)),
            "keys": axes.setdefault(_json(written_axis(one.keys)), len(axes)),
            "source": changes.source(one.source, one.batch, str(one.site)),
            "interventions": changes.places(one.interventions),
            "notes": [written_text(note) for note in one.notes],
        }
        sites.append({name: value for name, value in site.items() if value != []})
    return {
        "version": VERSION,
        "model": written_text(record.model),
        "text": written_text(record.text),
        "axes": list(map(json.loads, axes)),
        "sites": sites,
        "changes": changes.table(),
    }


def _check_sizes(header: bytes, tensors: dict[str, Tensor], n_bytes: int, name: str) -> None:
    """Refuse to write what `read` would refuse for its size."""
    check_names(tensors, name, DEFAULT_LIMITS)
    remedy, size = Message("remedy_record_less"), LENGTH_BYTES + len(header) + n_bytes
    if len(header) > DEFAULT_LIMITS.header_bytes:
        raise refused("header_large", name, remedy, found=len(header), most=DEFAULT_LIMITS.header_bytes)
    if size > DEFAULT_LIMITS.file_bytes:
        raise refused("file_large", name, remedy, found=size, most=DEFAULT_LIMITS.file_bytes)
    parsed_table(header, name, DEFAULT_LIMITS)


def _bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor, from whatever device, in the order in which they are written."""
    flat = tensor.cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data.cast("B")


def _json(table: Any) -> str:
    return json.dumps(table, ensure_ascii=False, separators=(",", ":"))
