"""safetensors: a JSON table of names, kinds, shapes and byte ranges, then the bytes.

The table is held against the file before the bytes are read. Source: the format's specification,
https://github.com/huggingface/safetensors#format.
"""

import json
import math
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any

from transformer.messages import Message
from transformer.safe.allowed import ITEM_BYTES
from transformer.safe.blocks import Place
from transformer.safe.contents import Shape
from transformer.safe.declared import StorageInfo, TensorInfo, check_shape, is_count
from transformer.safe.limits import ReadLimits
from transformer.safe.names import check_names
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown

LENGTH_BYTES = 8
KINDS = {
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
"""Kinds of numbers by their names in the format."""


@dataclass(frozen=True)
class Header:
    """What a safetensors file says of itself: the tensors it holds by name, and where the bytes of each lie.

    A shared matrix is stored once, and its other names are noted (`save_model` does so): they are names here like any
    other, of the same block of numbers. A block's key is the name that it is stored under. `notes` are the file's
    `__metadata__`: texts by name.
    """

    tensors: dict[str, TensorInfo]
    places: dict[str, Place]
    notes: dict[str, str]

    @property
    def shapes(self) -> dict[str, Shape]:
        """The tensors that are stored, by name; without the other names of shared ones."""
        return {name: self.tensors[name].shape for name in self.places}


def looks_like_safetensors(start: bytes) -> bool:
    """Whether a file that starts so is safetensors: a length, then an opening brace."""
    return start[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{"


def check_header(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Header:
    """Read the table and hold it against the file.

    Raises:
        CheckpointError: the table is damaged, or claims what the file does not hold.
    """
    handle.seek(0)
    length = int.from_bytes(handle.read(LENGTH_BYTES), "little")
    if length > limits.header_bytes:
        raise refused("header_large", source, found=length, most=limits.header_bytes)
    if LENGTH_BYTES + length > size:
        raise refused("header_past_file", source, found=length, size=size)
    table = parsed_table(handle.read(length), source, limits)
    notes = table.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise refused("metadata_no_texts", source)
    if not table:
        raise refused("holds_no_tensors", source, Message("remedy_save_safetensors"))
    copies = {copy: name for copy, name in notes.items() if name in table and copy not in table}
    check_names([*table, *copies], source, limits)
    start = LENGTH_BYTES + length
    tensors: dict[str, TensorInfo] = {}
    places: dict[str, Place] = {}
    for name, entry in table.items():
        tensors[name], places[name] = _described(name, entry, start, source, limits)
    end = start
    for name, place in sorted(places.items(), key=lambda one: (one[1].start, one[1].n_bytes)):
        if place.start != end:
            raise refused("bytes_overlap", source, name=shown(name))
        end += place.n_bytes
    if end != size:
        raise refused("header_of_other_size", source, described=end, size=size)
    return Header(tensors | {copy: tensors[name] for copy, name in copies.items()}, places, notes)


def parsed_table(text: bytes, source: str, limits: ReadLimits) -> dict[str, Any]:
    """The JSON table of a header: of bounded size, and no name in it twice.

    Raises:
        CheckpointError: it is none.
    """
    if text.count(b"{") + text.count(b"[") > limits.header_brackets:
        raise refused("header_nested", source, SAVE_WEIGHTS, most=limits.header_brackets)

    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise refused("header_names_twice", source)
        return found

    try:
        table = json.loads(text.decode(), object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise refused("header_no_json", source, error=type(error).__name__) from error
    if not isinstance(table, dict):
        raise refused("header_no_table", source)
    return table


def _described(name: str, entry: Any, start: int, source: str, limits: ReadLimits) -> tuple[TensorInfo, Place]:
    """One tensor and the place of its bytes, counted from the start of the file, if its description holds together.

    The values are JSON of any kind, nested as deep as it may be: none is shown or compared before its type is known.
    """
    if not isinstance(entry, dict):
        raise refused("tensor_not_described", source, tensor=shown(name))
    kind, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or not isinstance(offsets, list) or len(offsets) != 2:
        raise refused("tensor_not_described", source, tensor=shown(name))
    if kind not in KINDS:
        remedy = Message("remedy_save_float32")
        raise refused("tensor_kind", source, remedy, tensor=shown(name), kind=shown(kind))
    first, last = offsets
    if not isinstance(shape, list) or len(shape) > limits.dimensions or not all(map(is_count, (*shape, first, last))):
        raise refused("tensor_not_sensible", source, tensor=shown(name))
    sizes, numel = tuple(shape), math.prod(shape)
    try:
        check_shape(sizes)
    except ValueError as error:
        raise refused("tensor_not_sensible", source, tensor=shown(name)) from error
    declared = numel * ITEM_BYTES[KINDS[kind]]
    if declared != last - first:
        held = last - first
        raise refused("tensor_bytes", source, tensor=shown(name), numbers=numel, declared=declared, held=held)
    strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    info = TensorInfo(sizes, StorageInfo(name, KINDS[kind], numel), 0, strides)
    return info, Place(start + first, declared)
