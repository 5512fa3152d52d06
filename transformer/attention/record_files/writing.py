"""Writing a record file: the table of a record, and the tensors that the table names."""

import errno
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...messages import Message, packed_message
from ...nn.masks import Mask
from ...plots.axes import Axis
from ...safe.limits import DEFAULT_LIMITS, refused
from ...safe.reading import KINDS, LENGTH_BYTES, check_header
from ...sites import Site
from ..interventions.value import Donor, Intervention, written
from ..record import Record
from ..softmax_inputs import SoftmaxInputs, Weights
from ..tables import Bias, MaskTable, RelativeBias, WindowMask
from .fields import KEY, VERSION, kind_name
from .reading import record_of


def blocks(record: Record) -> Iterator[bytes | memoryview]:
    """The bytes of the file of a record, its header first, then tensor by tensor.

    Raises:
        CheckpointError: the file could not be read again: it holds NaN, or is too large.
    """
    writer, name = Writer(), record.model[:80] or Message("noun_record")
    table = writer.table(record)
    record_of(table, writer.tensors, name)
    tensors = dict(sorted(writer.tensors.items(), key=lambda one: -one[1].element_size()))  # aligned, as others expect
    checks = {key: zlib.crc32(_bytes(tensor)) for key, tensor in tensors.items()}
    header: dict[str, Any] = {"__metadata__": {KEY: _json({**table, "checksums": checks})}}
    names, end = {kind: name for name, kind in KINDS.items()}, 0
    for key, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        shape = list(tensor.shape)
        header[key] = {"dtype": names[kind_name(tensor.dtype)], "shape": shape, "data_offsets": [start, end]}
    data = _json(header).encode()
    data += b" " * (-len(data) % 8)
    data = len(data).to_bytes(LENGTH_BYTES, "little") + data
    size, most = len(data) + end, DEFAULT_LIMITS.file_bytes
    if size > most:
        raise refused("file_large", name, Message("remedy_record_less"), found=size, most=most)
    if tensors:
        check_header(io.BytesIO(data), size, name, DEFAULT_LIMITS)  # what would be refused for its size is not written
    yield data
    for tensor in tensors.values():
        yield _bytes(tensor)


def save(record: Record, path: Path) -> None:
    """Write the file of a record beside `path`, and put it there once it is whole.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as handle:
            handle.writelines(blocks(record))
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor, from whatever device, in the order in which they are written."""
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data.cast("B")


def _json(table: Any) -> str:
    return json.dumps(table, ensure_ascii=False, separators=(",", ":"))


def _given(**fields: Any) -> dict[str, Any]:
    """What is there: fields without a value, and empty lists, are left out of a file."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def _text(text: str) -> Any:
    """A text as JSON; a message keeps its code and fields, so that it is said in the reader's language."""
    return {**packed_message(text), "text": str(text)} if isinstance(text, Message) else str(text)


def _axis(axis: Axis) -> dict[str, Any]:
    """An axis as JSON. Words are left out where each position is one, special positions where there are none."""
    return _given(
        name=_text(axis.name),
        texts=[*map(_text, axis.texts)],
        words=None if axis.words == tuple(range(len(axis))) else list(axis.words),
        special=[i for i, special in enumerate(axis.special) if special],
        grid=None if axis.grid is None else list(axis.grid),
    )


def _sentence(tensor: Tensor, batch: int) -> Tensor:
    """The row of one sentence; one row may stand for all of them."""
    row = min(batch, len(tensor) - 1)
    return tensor[row : row + 1]


def _memory_order(tensor: Tensor) -> list[int]:
    """The axes of a tensor from the largest step in memory to the smallest; as they are, where that leaves gaps."""
    axes = list(range(tensor.dim()))
    steps = [step if size > 1 else math.inf for step, size in zip(tensor.stride(), tensor.shape, strict=True)]
    order = sorted(axes, key=lambda axis: -steps[axis])
    return axes if tensor.is_contiguous() or not tensor.permute(order).is_contiguous() else order


class Writer:
    """What a file will hold: tensors by name, and what the table names by number. What is used twice is stored once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._known: dict[Any, tuple[str, Tensor]] = {}
        self._axes: dict[str, int] = {}
        self._changes: dict[Intervention, int] = {}
        self._donors: dict[Donor, dict[str, Any]] = {}

    def table(self, record: Record) -> dict[str, Any]:
        """The JSON table of a record. A donor is named by its number in the texts of interventions."""
        sites = [
            _given(
                site=str(one.site),
                queries=self._axis(one.queries),
                keys=self._axis(one.keys),
                source=self._source(one.source, one.batch, str(one.site)),
                interventions=self._numbers(one.interventions),
                notes=[*map(_text, one.notes)],
            )
            for one in record.values()
        ]
        texts = []
        for one in self._changes:
            value = one.value
            if isinstance(value, Donor):
                value = replace(value, name=str(self._donor_number(value)))
            texts.append(written(replace(one, value=value)))
        donors = [{"name": donor.name, "weights": weights} for donor, weights in self._donors.items()]
        return {
            "version": VERSION,
            "model": _text(record.model),
            "text": _text(record.text),
            "axes": [*map(json.loads, self._axes)],
            "sites": sites,
            "changes": {"interventions": texts, "donors": donors},
        }

    def _axis(self, axis: Axis) -> int:
        return self._axes.setdefault(_json(_axis(axis)), len(self._axes))

    def _numbers(self, interventions: Iterable[Intervention]) -> list[int]:
        return [self._changes.setdefault(one, len(self._changes)) for one in interventions]

    def _donor_number(self, donor: Donor) -> int:
        self._donors.setdefault(donor, {})
        return list(self._donors).index(donor)

    def _tensor(self, name: str, tensor: Tensor | None) -> Any:
        """What stands in the table for a tensor; it is stored in the order in which its numbers lie in memory.

        A sum over numbers that lie in another order may be rounded in another way.
        """
        if tensor is None:
            return None
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        order = _memory_order(tensor)
        if key not in self._known:
            while name in self.tensors:
                name += "+"
            self._known[key] = (name, tensor)  # which keeps its memory, so that no other tensor has its place
            self.tensors[name] = tensor.detach().permute(order)
        name = self._known[key][0]
        return name if order == sorted(order) else {"tensor": name, "order": order}

    def _source(self, source: SoftmaxInputs, batch: int, name: str) -> dict[str, Any]:
        """What is kept of one attention; `name` begins the names of its tensors."""
        if isinstance(source, Weights):
            return _given(
                kind="weights",
                values=self._tensor(f"{name}.weights", source.values[batch : batch + 1]),
                mask=None if source.mask is None else self._mask(source.mask, batch, name),
                notes=[*map(_text, source.notes)],
            )
        k = source.k[batch : batch + 1]
        base = _given(
            kind="inputs",
            q=self._tensor(f"{name}.q", source.q[batch : batch + 1]),
            k=self._tensor(f"{name}.k", k[:, :1] if k.stride(1) == 0 else k),  # one key head, expanded: written once
            scale=float(source.scale),
            mask=self._mask(source.mask, batch, name),
            bias=self._bias(source.bias, batch, name),
            known=self._tensor(f"{name}.known", None if source.known is None else source.known[batch : batch + 1]),
        )
        if not source.interventions:
            return base
        for one in source.interventions:
            weights = one.value.weights.get(Site(one.site)) if one.action == "patch_weights" else None
            if weights is not None:
                number, mine = self._donor_number(one.value), _sentence(weights, batch)
                self._donors[one.value][one.site] = self._tensor(f"donors.{number}.{one.site}.weights", mine)
        changes = self._numbers(source.interventions)
        return {"kind": "changed", "base": base, "interventions": changes, **_given(first_row=source.first_row)}

    def _mask(self, mask: Mask, batch: int, name: str) -> dict[str, Any]:
        visible = mask.visible if isinstance(mask, MaskTable) else None
        width = mask.width if isinstance(mask, WindowMask) else None
        return _given(
            kind="table" if visible is not None else "window" if width is not None else "keys",
            keys=self._tensor(f"{name}.mask.keys", None if mask.keys is None else _sentence(mask.keys, batch)),
            causal=mask.causal or None,
            spreads=mask.uniform_if_masked or None,
            width=width,
            visible=self._tensor(f"{name}.mask.visible", None if visible is None else _sentence(visible, batch)),
        )

    def _bias(self, bias: Bias | None, batch: int, name: str) -> dict[str, Any] | None:
        if bias is None:
            return None
        if isinstance(bias, RelativeBias):
            return {"diagonals": self._tensor(f"{name}.bias", bias.diagonals), "n_queries": bias.n_queries}
        values = _sentence(bias.values, batch)
        for axis in (1, 2):  # a row that was expanded is written once
            values = values.narrow(axis, 0, 1) if values.stride(axis) == 0 else values
        return {"values": self._tensor(f"{name}.bias", values)}
