"""Record files that were changed: bytes, the header of the safetensors file, and values of the record's own table."""

import json
import random
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from tests.record_files.samples import Samples
from transformer.attention.record import Record

Parts = tuple[dict[str, Any], dict[str, Any], bytearray]
"""The header without its metadata, the record's table, and the bytes of the tensors."""

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 10**9, 2**31, 2**40, 2**63, 10**400, 0.5, -0.0, 1e299,
    1e308, float("nan"), float("inf"),
    "", "x", "\ud800", "\x1b[2J", "x" * 5_000, "encoder.0.self", "encoder.0.self.q", "1",
    "weights", "inputs", "changed", "window", "table",
    [], [0], [0, 1], [1, 0, 2, 3], [-1], [10**9], [[]], ["a"], [None], {}, {"tensor": "encoder.0.self.q"},
    {"tensor": "encoder.0.self.k", "order": [3, 2, 1, 0]}, {"tensor": "encoder.0.self.q", "order": [0, 0, 0, 0]},
    {"code": "mean_of_heads", "fields": {"count": 10**300}, "text": "t"}, {"code": "no", "fields": {}, "text": "t"},
    {"code": "no", "fields": {}},
    {"code": "lines", "fields": {"above": ["a"] * 3_000, "line": "b"}, "text": "t"},
    {"kind": "keys", "causal": True}, {"kind": "window", "width": 10**12},
    {"kind": "weights", "values": "pooling.weights"},
)  # fmt: skip
"""Values that stand in no record, or in other places of one."""


@dataclass(frozen=True)
class Mutant:
    """A changed file, and what was done to it."""

    data: bytes
    change: str


def parts_of(data: bytes) -> Parts:
    """A file apart."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    table = json.loads(header.pop("__metadata__")["heedmap"])
    return header, table, bytearray(data[8 + length :])


def whole(parts: Parts) -> bytes:
    """A file of its parts, whatever they are."""
    header, table, data = parts
    text = json.dumps({"__metadata__": {"heedmap": json.dumps(table)}, **header}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def entries(value: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its name or number there."""
    found = [] if found is None else found
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inside):
        found.append((value, key))
        entries(item, found)
    return found


class Mutants:
    """Changed files by number, of a few records of all kinds of sources."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.records = [Samples(number).record() for number in range(6)]
        few = [
            Record({site: one for i, (site, one) in enumerate(record.items()) if i % 5 == n % 5})
            for n, record in enumerate(self.records)
        ]
        self.files = [record.to_bytes() for record in (*self.records[:2], *few)]

    def number(self, index: int) -> Mutant:
        """The file of a number."""
        choose = random.Random(f"{self.seed} {index}")
        change = choose.choice((_bytes, _cut, _header, *[_value] * 4, *[_removed, _moved, _doubled], _numbers, _nested))
        data = change(choose, choose.choice(self.files))
        return Mutant(data, change.__name__.strip("_"))


def _bytes(choose: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    end = choose.choice((8, 600, len(data)))
    for _ in range(choose.choice((1, 1, 2, 9))):
        changed[choose.randrange(end)] = choose.randrange(256)
    return bytes(changed)


def _cut(choose: random.Random, data: bytes) -> bytes:
    start, stop = sorted(choose.randrange(len(data)) for _ in range(2))
    return choose.choice(
        (data[:start], data[:start] + data[stop:], data + data[start:stop], data[:stop] + data[start:])
    )


def _header(choose: random.Random, data: bytes) -> bytes:
    parts = parts_of(data)
    holder, key = choose.choice(entries(parts[0]))
    holder[key] = choose.choice((*HOSTILE, "F16", "F64", "BOOL", "I64", "Q8"))
    return whole(parts)


def _value(choose: random.Random, data: bytes) -> bytes:
    parts = parts_of(data)
    for _ in range(choose.choice((1, 1, 2))):
        holder, key = choose.choice(entries(parts[1]))
        old = holder[key]
        near = (
            [old + choose.choice((-2, -1, 1, 2))]
            if type(old) is int
            else [old * 2, old[1:]]
            if isinstance(old, list)
            else [old]
        )
        holder[key] = choose.choice((*HOSTILE, *near * 10))
    return whole(parts)


def _removed(choose: random.Random, data: bytes) -> bytes:
    parts = parts_of(data)
    holder, key = choose.choice(entries(parts[choose.randrange(2)]))
    del holder[key]
    return whole(parts)


def _moved(choose: random.Random, data: bytes) -> bytes:
    parts = parts_of(data)
    (first, one), (second, other) = choose.sample(entries(parts[1]), 2)
    moved = json.loads(json.dumps(second[other]))
    first[one] = moved
    return whole(parts)


def _doubled(choose: random.Random, data: bytes) -> bytes:
    parts = parts_of(data)
    lists = [holder[key] for holder, key in entries(parts[1]) if isinstance(holder[key], list) and holder[key]]
    chosen = choose.choice(lists)
    chosen += [choose.choice(chosen)] * choose.choice((1, 1, 3, 5_000))
    return whole(parts)


def _numbers(choose: random.Random, data: bytes) -> bytes:
    """Numbers that a softmax cannot have, under a checksum that fits them, or none."""
    header, table, numbers = parts_of(data)
    name = choose.choice([name for name, one in header.items() if one["dtype"][0] in "FBI"])
    start, stop = header[name]["data_offsets"]
    size, kind = {"F64": (8, "<d"), "F32": (4, "<f"), "F16": (2, "<e")}.get(header[name]["dtype"], (1, "B"))
    place = start + size * choose.randrange((stop - start) // size)
    value = (
        choose.randrange(256) if kind == "B" else choose.choice((float("nan"), float("inf"), -float("inf"), 6e4, 0.0))
    )
    numbers[place : place + size] = struct.pack(kind, value)
    table["checksums"][name] = choose.choice((0, zlib.crc32(numbers[start:stop])))
    return whole((header, table, numbers))


def _nested(choose: random.Random, data: bytes) -> bytes:
    """A table nested deeply, or with many brackets that the outer one does not show."""
    header, table, numbers = parts_of(data)
    depth = choose.choice((50, 900, 5_000, 200_000, 300_000))
    inner = (
        json.dumps(table)[:-1]
        + ', "more": '
        + choose.choice(("[" * depth + "]" * depth, "[" + "[]," * depth + "1]"))
        + "}"
    )
    if choose.random() < 0.5:
        inner = inner.replace("[]", "\\u005b\\u005d")
    text = json.dumps({"__metadata__": {"heedmap": inner}, **header}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(numbers)
