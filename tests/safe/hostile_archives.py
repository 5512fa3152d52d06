"""Archives in which one field is not as torch.save writes it, and headers in which one value is of another kind."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from tests.safe.hostile import entry, safetensors, saved
from tests.safe.zips import Part, parts_of, zipped

AS_TORCH = "not written as torch.save writes it"
TWO = "described differently"

LIES: dict[str, tuple[dict[str, Any], str]] = {
    "the bit of a directory": ({"outside": 0x10}, AS_TORCH),
    "hidden": ({"outside": 0x02}, AS_TORCH),
    "rights of Unix": ({"outside": 0o600 << 16}, AS_TORCH),
    "a directory of Unix": ({"outside": 0o040755 << 16}, AS_TORCH),
    "a link": ({"outside": 0o120777 << 16}, AS_TORCH),
    "text": ({"inside": 1}, AS_TORCH),
    "a comment": ({"comment": b"hello"}, AS_TORCH),
    "deflated": ({"method": 8}, "is compressed"),
    "sizes that differ": ({"n_bytes": 20}, "is compressed"),
    "encrypted": ({"flags": 0x809}, "is encrypted"),
    "strongly encrypted": ({"flags": 0x848}, AS_TORCH),
    "patched": ({"flags": 0x828}, AS_TORCH),
    "a name that is no UTF-8": ({"flags": 0x008}, AS_TORCH),
    "other flags before the bytes": ({"local_flags": 0x800, "behind": b""}, TWO),
    "other name before the bytes": ({"local_name": "archive/data/1"}, TWO),
    "other sizes before the bytes": ({"local_sizes": (0, 24, 20)}, TWO),
    "other checksum before the bytes": ({"local_sizes": (7, 24, 24)}, TWO),
    "other sizes behind the bytes": ({"behind": struct.pack("<4s3I", b"PK\x07\x08", 0, 24, 20)}, "behind its bytes"),
    "nothing behind the bytes": ({"behind": b""}, "behind its bytes"),
    "a checksum of other bytes": ({"checksum": 7}, "checksum is another"),
    "large sizes": ({"extra": struct.pack("<HHQQ", 1, 16, 24, 24)}, AS_TORCH),
    "a unicode name": ({"extra": struct.pack("<HHBI", 0x7075, 6, 1, 0) + b"x"}, AS_TORCH),
    "padding in the table": ({"extra": b"FB\x01\x00Z"}, AS_TORCH),
    "padding that is none": ({"local_extra": b"FB\x04\x00ZZYZ"}, AS_TORCH),
    "padding that is too short": ({"local_extra": b"FB\x09\x00ZZ"}, AS_TORCH),
    "half a field": ({"local_extra": b"FB"}, AS_TORCH),
    "times of Unix": ({"local_extra": struct.pack("<HHBI", 0x5455, 5, 1, 7)}, AS_TORCH),
    "large sizes before the bytes": ({"local_extra": struct.pack("<HHQQ", 1, 16, 24, 24)}, AS_TORCH),
    "a gap": ({"gap": b"\0" * 16}, "a gap before"),
    "a place inside another": ({"header": 30}, ""),
}
"""What is changed of one entry, and a part of the reason."""


def archives() -> Iterator[tuple[str, bytes, str]]:
    """Each lie about the entry of a block, and about the pickle's."""
    whole = parts_of(saved({"a": torch.zeros(6)}))
    for name, (change, reason) in LIES.items():
        for place, part in enumerate(whole):
            if part.name in {"archive/data/0", "archive/data.pkl"}:
                changed = [*whole[:place], replace(part, **change), *whole[place + 1 :]]
                yield f"{part.name}: {name}", zipped(changed), reason
    named = {part.name: part for part in whole}
    for name, data, reason in (
        ("archive/version", b"99\n", "version that is not known"),
        ("archive/version", b"", "version that is not known"),
        ("archive/byteorder", b"middle", "neither little nor big"),
        ("archive/byteorder", b"x" * 5000, "has 5,000 bytes"),
    ):
        yield f"{name} is {data[:9]!r}", zipped((named | {name: Part(name, data)}).values()), reason
    behind = zipped([*whole[:-1], replace(whole[-1], gap=b"PK\x03\x04")])
    yield "bytes behind the archive's last entry", behind, "a gap before the table of contents"
    yield "bytes before the archive's second entry", zipped(whole, before=b"PK\x03\x04" + bytes(60)), "a gap before"
    end = zipped(whole)
    for at, what in ((-4, "start"), (-8, "length"), (-12, "count"), (-18, "disk"), (-42 + 8, "place of the large end")):
        lie = bytearray(end)
        lie[at] ^= 1
        yield f"another {what} of the table", bytes(lie), ""


STRANGE: tuple[Any, ...] = (None, True, 7, -1, 2**70, 1.5, "text", "", [], {}, [[]], [{}], {"a": []}, [None, None], [0])
"""A JSON value of every kind."""


def headers() -> Iterator[tuple[str, bytes, str]]:
    """Every value of a header, once with each JSON value that does not belong there."""
    numbers = bytes(24)
    for value in STRANGE:
        yield f"header: {value!r}", safetensors(value), ""
        yield f"tensor: {value!r}", safetensors({"a": value}, numbers), "not described"
        if value != {}:
            yield f"notes: {value!r}", safetensors({"__metadata__": value, "a": entry()}, numbers), "table of texts"
        if not isinstance(value, str):
            yield f"note: {value!r}", safetensors({"__metadata__": {"x": value}, "a": entry()}, numbers), "of texts"
        yield f"dtype: {value!r}", safetensors({"a": entry(kind=value)}, numbers), ""
        yield f"shape: {value!r}", safetensors({"a": entry(shape=value)}, numbers), ""
        yield f"size: {value!r}", safetensors({"a": entry(shape=[value, 6])}, numbers), ""
        yield f"start: {value!r}", safetensors({"a": entry(start=value)}, numbers), ""
        yield f"stop: {value!r}", safetensors({"a": entry(stop=value)}, numbers), ""
        yield f"places: {value!r}", safetensors({"a": {**entry(), "data_offsets": value}}, numbers), ""
    aliases = {f"copy{i}": "a" for i in range(30_000)}
    yield "30,000 other names", safetensors({"__metadata__": aliases, "a": entry()}, numbers), "30,001 tensors"
    large = entry((1000, 500), stop=2_000_000)
    aliases = {f"copy{i}": "a" for i in range(20)}
    yield (
        "20 other names of a large matrix",
        safetensors({"__metadata__": aliases, "a": large}, bytes(2_000_000)),
        ("21 tensors show 10,500,000 numbers"),
    )
    yield "another name of 70 parts", safetensors({"__metadata__": {"." * 69: "a"}, "a": entry()}, numbers), "70 parts"
    yield "a name of 65 parts", safetensors({"." * 64: entry()}, numbers), "65 parts"
    yield (
        "half a character",
        safetensors(b'{"\\ud800":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'),
        "half a char",
    )
    yield "300,000 lists", safetensors(b'{"a":[' + b"[]," * 300_000 + b"[]]}"), "more than 250,000 tables and lists"
    yield "no UTF-8", safetensors(b'{"\xff":{}}'), "no JSON"
    yield "a shape that is none", safetensors({"a": entry((2**39, 2**39, 0), stop=0)}), "no sensible shape"
