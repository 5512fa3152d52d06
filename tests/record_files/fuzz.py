"""Read mutated record files, each in a process with little memory and time: `python -m tests.record_files.fuzz`.

Changed are bytes, the header of the safetensors file, and values of the record's own table. Each file must be refused
in a sentence that names it and says why, or be a record: everything that it shows can be shown, and is the same after
it was written and read again.
"""

import json
import struct
import sys
import zlib
from functools import cache
from random import Random
from typing import Any

import numpy as np
import torch

from heedmap.attention.record import Record
from heedmap.errors import CheckpointError
from heedmap.messages import LANGUAGES
from tests.fuzzing import count_ends, damaged, header_of, other_header, other_json, tried
from tests.record_files.samples import Samples, everything, same
from tests.safe.hostile import safetensors

NAME = "mutated.heedmap"
REFUSED, READ = GOOD = "refused", "read"

Parts = tuple[dict[str, Any], Any, bytearray]
"""The header without its metadata, the record's table, and the bytes of the tensors."""

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 10**9, 2**31, 2**40, 2**63, 10**400, 0.5, -0.0, 1e299,
    1e308, float("nan"), float("inf"),
    "", "x", "\ud800", "\x1b[2J", "x" * 5_000, "encoder.0.self", "encoder.0.self.q", "1",
    "weights", "inputs", "changed", "window", "table",
    "F16", "F64", "BOOL", "I64", "Q8",
    [], [0], [0, 1], [1, 0, 2, 3], [-1], [10**9], [[]], ["a"], [None], {}, {"tensor": "encoder.0.self.q"},
    {"tensor": "encoder.0.self.k", "order": [3, 2, 1, 0]}, {"tensor": "encoder.0.self.q", "order": [0, 0, 0, 0]},
    {"code": "mean_of_heads", "fields": {"count": 10**300}, "text": "t"}, {"code": "no", "fields": {}, "text": "t"},
    {"code": "no", "fields": {}},
    {"code": "lines", "fields": {"above": ["a"] * 3_000, "line": "b"}, "text": "t"},
    {"kind": "keys", "causal": True}, {"kind": "window", "width": 10**12},
    {"kind": "weights", "values": "pooling.weights"},
)  # fmt: skip
"""Values that stand in no record, or in other places of one."""


def parts_of(data: bytes) -> Parts:
    """A file apart."""
    header, numbers = header_of(data)
    return header, json.loads(header.pop("__metadata__")["heedmap"]), bytearray(numbers)


def whole(parts: Parts) -> bytes:
    """A file of its parts, whatever they are."""
    header, table, data = parts
    return safetensors({"__metadata__": {"heedmap": json.dumps(table)}, **header}, bytes(data))


@cache
def _files() -> list[bytes]:
    """A few records of all kinds of sources."""
    records = [Samples(number).record() for number in range(6)]
    few = [
        Record({site: one for i, (site, one) in enumerate(record.items()) if i % 5 == n % 5})
        for n, record in enumerate(records)
    ]
    return [record.to_bytes() for record in (*records[:2], *few)]


def outcome(number: int) -> tuple[str, str]:
    """What was done to the file of this number, and what became of it: a good end, or a sentence about a bad one."""
    draw = Random(number)
    change = draw.choice((damaged, damaged, _header, *[_table] * 7, _numbers, _nested))
    data = change(draw, draw.choice(_files()))
    return change.__name__.strip("_"), tried(lambda: examined(data))


def _header(draw: Random, data: bytes) -> bytes:
    return other_header(draw, data, HOSTILE)


def _table(draw: Random, data: bytes) -> bytes:
    header, table, numbers = parts_of(data)
    return whole((header, other_json(draw, table, HOSTILE), numbers))


def _numbers(draw: Random, data: bytes) -> bytes:
    """Numbers that a softmax cannot have, under a checksum that fits them, or none."""
    header, table, numbers = parts_of(data)
    name = draw.choice([name for name, one in header.items() if one["dtype"][0] in "FBI"])
    start, stop = header[name]["data_offsets"]
    size, kind = {"F64": (8, "<d"), "F32": (4, "<f"), "F16": (2, "<e")}.get(header[name]["dtype"], (1, "B"))
    place = start + size * draw.randrange((stop - start) // size)
    strange = draw.choice((float("nan"), float("inf"), -float("inf"), 6e4, 0.0))
    value = draw.randrange(256) if kind == "B" else strange
    numbers[place : place + size] = struct.pack(kind, value)
    table["checksums"][name] = draw.choice((0, zlib.crc32(numbers[start:stop])))
    return whole((header, table, numbers))


def _nested(draw: Random, data: bytes) -> bytes:
    """A table nested deeply, or with many brackets that the outer one does not show."""
    header, table, numbers = parts_of(data)
    depth = draw.choice((50, 900, 5_000, 200_000, 300_000))
    more = draw.choice(("[" * depth + "]" * depth, "[" + "[]," * depth + "1]"))
    inner = f'{json.dumps(table)[:-1]}, "more": {more}}}'
    if draw.random() < 0.5:
        inner = inner.replace("[]", "\\u005b\\u005d")
    return safetensors({"__metadata__": {"heedmap": inner}, **header}, bytes(numbers))


def examined(data: bytes) -> str:
    """A good end.

    Raises:
        AssertionError: it is refused without saying why, or shows what cannot be.
    """
    try:
        record = Record.of_bytes(data, NAME)
    except CheckpointError as error:
        for language in LANGUAGES:
            sentence = error.message.in_language(language)
            assert NAME in sentence, sentence
            assert len(sentence) < 800, sentence
            assert "\n" not in sentence, sentence
            sentence.encode()
        return REFUSED
    again = Record.of_bytes(record.to_bytes(), NAME)
    with np.errstate(all="ignore"):
        assert same(everything(record), everything(again)) == []
    for one in record.values():
        assert one.weights(0).shape == one.shape == (len(one.queries), len(one.keys))
    return READ


if __name__ == "__main__":
    torch.set_num_threads(1)  # what has threads must not fork
    sys.exit(count_ends(__doc__, outcome, GOOD))
