"""safetensors: a JSON table of names, kinds, shapes and byte ranges, then the bytes.

The table is held against the file before the bytes are read. Source: the format's specification,
https://github.com/huggingface/safetensors#format.
"""

import json
import math
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any

from transformer.checkpoint.safe.allowed import ITEM_BYTES
from transformer.checkpoint.safe.contents import Shape
from transformer.checkpoint.safe.declared import is_count
from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.refusal import SAVE_WEIGHTS, refusal

_LENGTH_BYTES = 8
_KINDS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


@dataclass(frozen=True)
class Header:
    """What a safetensors file says of itself: the tensors it holds by name, and its free-text notes."""

    shapes: dict[str, Shape]
    notes: dict[str, str]


def looks_like_safetensors(start: bytes) -> bool:
    """Whether a file that starts so is safetensors: a length, then an opening brace."""
    return start[_LENGTH_BYTES : _LENGTH_BYTES + 1] == b"{"


def check_header(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Header:
    """Read the table and hold it against the file.

    Raises:
        CheckpointError: the table is damaged, or claims what the file does not hold.
    """
    handle.seek(0)
    length = int.from_bytes(handle.read(_LENGTH_BYTES), "little")
    if length > limits.header_bytes:
        raise refusal(source, f"its header claims {length:,} bytes, at most {limits.header_bytes:,} are read")
    if _LENGTH_BYTES + length > size:
        raise refusal(source, f"its header claims {length:,} bytes, the file has {size:,}: it is cut off or lies")
    table = _parse(handle.read(length), source)
    notes = table.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise refusal(source, "its metadata is no table of texts")
    if not table:
        raise refusal(source, "it holds no tensors by name", "save a state_dict with safetensors.torch.save_file")
    if len(table) > limits.tensors:
        raise refusal(source, f"it holds {len(table):,} tensors, at most {limits.tensors:,} are read", SAVE_WEIGHTS)
    ranges = sorted(_byte_range(name, entry, source, limits) for name, entry in table.items())
    end = 0
    for start, stop, name in ranges:
        if start != end:
            raise refusal(source, f"the bytes of {name!r:.80} overlap others or leave a gap")
        end = stop
    if _LENGTH_BYTES + length + end != size:
        reason = f"its header describes {_LENGTH_BYTES + length + end:,} bytes, the file has {size:,}"
        raise refusal(source, reason)
    return Header({name: tuple(entry["shape"]) for name, entry in table.items()}, notes)


def _parse(text: bytes, source: str) -> dict[str, Any]:
    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise refusal(source, "its header names something twice")
        return found

    try:
        table = json.loads(text, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise refusal(source, f"its header is no JSON ({type(error).__name__})") from error
    if not isinstance(table, dict):
        raise refusal(source, "its header is no table of names")
    return table


def _byte_range(name: str, entry: Any, source: str, limits: ReadLimits) -> tuple[int, int, str]:
    """Where the bytes of one tensor start and stop, if its description holds together."""
    what = f"the tensor {name!r:.80}"
    try:
        kind, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise refusal(source, f"{what} is not described as safetensors does") from error
    if len(name) > limits.name_characters:
        raise refusal(source, f"it names a tensor with {len(name):,} characters")
    if kind not in _KINDS:
        raise refusal(source, f"{what} is of kind {kind!r:.40}, which no known layout uses", "save it as float32")
    if not isinstance(shape, list) or len(shape) > limits.dimensions or not all(map(is_count, (*shape, start, stop))):
        raise refusal(source, f"{what} has no sensible shape or place")
    claimed = math.prod(shape) * ITEM_BYTES[_KINDS[kind]]
    if claimed != stop - start:
        raise refusal(
            source, f"{what} claims {math.prod(shape):,} numbers ({claimed:,} bytes) in {stop - start:,} bytes"
        )
    return start, stop, name
