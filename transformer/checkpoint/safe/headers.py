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
from transformer.checkpoint.safe.blocks import Place
from transformer.checkpoint.safe.contents import Shape
from transformer.checkpoint.safe.declared import StorageInfo, TensorInfo, check_shape, is_count
from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.names import check_names
from transformer.checkpoint.safe.refusal import SAVE_WEIGHTS, refusal, shown

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
    """What a safetensors file says of itself: the tensors it holds by name, and where the bytes of each lie.

    A shared matrix is stored once, and its other names are noted (`save_model` does so): they are names here like any
    other, of the same block of numbers. A block's key is the name that it is stored under.
    """

    tensors: dict[str, TensorInfo]
    places: dict[str, Place]

    @property
    def shapes(self) -> dict[str, Shape]:
        """The tensors that are stored, by name; without the other names of shared ones."""
        return {name: self.tensors[name].shape for name in self.places}


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
    table = _parse(handle.read(length), source, limits)
    notes = table.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise refusal(source, "its metadata is no table of texts")
    if not table:
        raise refusal(source, "it holds no tensors by name", "save a state_dict with safetensors.torch.save_file")
    copies = {copy: name for copy, name in notes.items() if name in table and copy not in table}
    check_names([*table, *copies], source, limits)
    start = _LENGTH_BYTES + length
    tensors: dict[str, TensorInfo] = {}
    places: dict[str, Place] = {}
    for name, entry in table.items():
        tensors[name], places[name] = _described(name, entry, start, source, limits)
    end = start
    for name, place in sorted(places.items(), key=lambda one: (one[1].start, one[1].n_bytes)):
        if place.start != end:
            raise refusal(source, f"the bytes of {shown(name)} overlap others or leave a gap")
        end += place.n_bytes
    if end != size:
        raise refusal(source, f"its header describes {end:,} bytes, the file has {size:,}")
    return Header(tensors | {copy: tensors[name] for copy, name in copies.items()}, places)


def _parse(text: bytes, source: str, limits: ReadLimits) -> dict[str, Any]:
    if text.count(b"{") + text.count(b"[") > limits.header_brackets:
        raise refusal(source, f"its header holds more than {limits.header_brackets:,} tables and lists", SAVE_WEIGHTS)

    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise refusal(source, "its header names something twice")
        return found

    try:
        table = json.loads(text.decode(), object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise refusal(source, f"its header is no JSON ({type(error).__name__})") from error
    if not isinstance(table, dict):
        raise refusal(source, "its header is no table of names")
    return table


def _described(name: str, entry: Any, start: int, source: str, limits: ReadLimits) -> tuple[TensorInfo, Place]:
    """One tensor and the place of its bytes, counted from the start of the file, if its description holds together.

    The values are JSON of any kind, nested as deep as it may be: none is shown or compared before its type is known.
    """
    what = f"the tensor {shown(name)}"
    if not isinstance(entry, dict):
        raise refusal(source, f"{what} is not described as safetensors does")
    kind, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or not isinstance(offsets, list) or len(offsets) != 2:
        raise refusal(source, f"{what} is not described as safetensors does")
    if kind not in _KINDS:
        raise refusal(source, f"{what} is of kind {shown(kind)}, which no known layout uses", "save it as float32")
    first, last = offsets
    if not isinstance(shape, list) or len(shape) > limits.dimensions or not all(map(is_count, (*shape, first, last))):
        raise refusal(source, f"{what} has no sensible shape or place")
    sizes, numel = tuple(shape), math.prod(shape)
    try:
        check_shape(sizes)
    except ValueError as error:
        raise refusal(source, f"{what} has no sensible shape or place") from error
    claimed = numel * ITEM_BYTES[_KINDS[kind]]
    if claimed != last - first:
        raise refusal(source, f"{what} claims {numel:,} numbers ({claimed:,} bytes) in {last - first:,} bytes")
    strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    info = TensorInfo(sizes, StorageInfo(name, _KINDS[kind], numel), 0, strides)
    return info, Place(start + first, claimed)
