"""Files that mean harm or are broken, made on the spot: each with a part of the reason that it is refused for."""

import io
import json
import os
import pickle
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import torch

from tests.safe.zips import Part, zipped

PROTOCOL, STOP = b"\x80\x02", b"."
MILLION = 1_000_000


class Touch:
    """A pickle of this runs a command when it is read."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    data = pickle.encode_long(value)
    return b"\x8a" + bytes([len(data)]) + data


def block(key: str, numel: int, kind: str = "FloatStorage") -> bytes:
    """A reference to a block of numbers, as torch writes it."""
    return b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + number(numel) + b"tQ"


def tensor(key: str, numel: int, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> bytes:
    """A tensor cut from a block, as torch writes it."""
    sizes, steps = (b"(" + b"".join(map(number, part)) + b"t" for part in (shape, strides))
    hooks = b"ccollections\nOrderedDict\n)R"
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n("
    return rebuild + block(key, numel) + number(offset) + sizes + steps + b"\x89" + hooks + b"tR"


def table(*entries: tuple[str, bytes]) -> bytes:
    """A pickle of a dictionary whose values are given as programs."""
    return PROTOCOL + b"}(" + b"".join(text(name) + value for name, value in entries) + b"u" + STOP


def archive(program: bytes, blocks: dict[str, bytes] | None = None, **options: Any) -> bytes:
    """A torch file with this pickle and these blocks."""
    parts = [Part("archive/data.pkl", program), Part("archive/version", b"3\n")]
    parts += [Part(f"archive/data/{key}", data) for key, data in (blocks or {}).items()]
    parts += [Part(name, data) for name, data in options.get("more", ())]
    return zipped(parts, comment=options.get("comment", b""))


def compressed(data: bytes) -> bytes:
    """A torch file with a block that is far smaller in the file than in memory."""
    small = zlib.compress(data)[2:-4]
    parts = [Part("archive/data.pkl", table(("a", b"N"))), Part("archive/data/0", small, method=8, n_bytes=len(data))]
    return zipped(parts)


def safetensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with this header, which may lie about its length."""
    written = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(written) if length is None else length) + written + data


def entry(shape: Any = (2, 3), start: Any = 0, stop: Any = 24, kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}


def saved(value: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def duplicated() -> bytes:
    """Two entries of one name: readers disagree on which one counts."""
    made = archive(table(("a", b"K\x01")), more=[("archive/datb.pkl", b"N.")])
    return made.replace(b"archive/datb.pkl", b"archive/data.pkl")


def overlapping() -> bytes:
    """One entry's place in the table of contents points into another's bytes."""
    inner = archive(table(("a", b"K\x01")))
    made = bytearray(archive(table(("a", b"K\x01")), {"0": inner}))
    last = made.rindex(b"PK\x01\x02", 0, made.rindex(b"PK\x01\x02"))
    directory = made.rindex(b"PK\x01\x02")
    made[directory + 42 : directory + 46] = made[last + 42 : last + 46]
    return bytes(made)


def cycle() -> bytes:
    holds_itself: dict[str, Any] = {"weight": torch.ones(2)}
    holds_itself["again"] = holds_itself
    return saved({"model": holds_itself})


def many_keys(count: int) -> bytes:
    return archive(PROTOCOL + b"}(" + b"".join(text(str(i)) + b"N" for i in range(count)) + b"u" + STOP)


def nested(depth: int) -> bytes:
    return archive(PROTOCOL + b"}(" + text("a") + b"]" * depth + b"a" * (depth - 1) + b"u" + STOP)


def tuple_key() -> bytes:
    """A key whose hash takes 2^60 steps."""
    doubled = b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))
    return archive(PROTOCOL + b"}(" + doubled + b"Nu" + STOP)


def calling(name: str, arguments: bytes) -> bytes:
    return table(("a", f"c{name}\n".replace(" ", "\n").encode() + arguments + b"R"))


def corpus(marker: str) -> Iterator[tuple[str, bytes, str]]:
    """Name of the trick, the file, and what its refusal says."""
    numbers = bytes(24)
    yield "empty", b"", "it is empty"
    yield "text", b"Dear reader, these are no weights.", "neither safetensors nor"
    for protocol in (2, 3, 4, 5):
        program = pickle.dumps({"weight": Touch(marker)}, protocol=protocol)
        yield f"plain pickle, protocol {protocol}", program, "import 'posix.system'"
        yield f"pickle in an archive, protocol {protocol}", archive(program), "import 'posix.system'"
    yield "pickle, protocol 0", pickle.dumps(Touch(marker), protocol=0), "neither safetensors nor"
    yield "old format", saved({"a": Touch(marker)}, _use_new_zipfile_serialization=False), "import 'posix.system'"
    yield "whole module", saved(torch.nn.Linear(2, 3)), "import 'torch.nn.modules.linear.Linear'"
    yield "eval", archive(calling("builtins eval", text("1") + b"\x85")), "import 'builtins.eval'"
    yield "memory by bytearray", archive(calling("builtins bytearray", number(10**12) + b"\x85")), "builtins.bytearray"
    yield "memory by storage", archive(calling("torch FloatStorage", number(10**12) + b"\x85")), "is damaged"
    yield (
        "memory by new storage",
        archive(table(("a", b"ctorch\nFloatStorage\n" + number(9) + b"\x85\x81"))),
        "is damaged",
    )
    yield "memory by size", archive(calling("torch Size", number(10**12) + b"\x85")), "is damaged"
    yield "newer protocol", saved({"a": torch.ones(2)}, pickle_protocol=4), "pickle protocol 4"
    yield "other opcode", archive(PROTOCOL + b"I7\n" + STOP), "uses INT"
    yield "no end", archive(PROTOCOL + b"}"), "damaged"
    yield "empty stack", archive(PROTOCOL + STOP), "damaged"
    yield "unknown memory", archive(PROTOCOL + b"h\x07" + STOP), "damaged"
    yield "lost mark", archive(PROTOCOL + b"}u" + STOP), "damaged"
    yield "a number", saved(7), "no tensors by name"
    yield "one tensor", saved(torch.ones(3)), "a single tensor"
    yield "cycle", cycle(), "holds itself"
    yield "a million keys", many_keys(MILLION), "more than 100,000 items"
    yield "deep nest", nested(5_000), "nested more than 64 deep"
    yield "key without end", tuple_key(), "a key is a tuple"
    yield "bomb", compressed(bytes(50 * MILLION)), "is compressed"
    yield "comment", archive(table(("a", b"N")), comment=b"PK\x05\x06" * 9), "something follows it"
    yield "two entries of one name", duplicated(), "two entries of one name"
    yield "overlap", overlapping(), "overlaps another"
    for path in ("../../evil", "archive/../../evil", "/etc/passwd", "archive//evil", "archive\\..\\evil", "C:/evil"):
        yield f"path {path}", archive(table(("a", b"N")), more=[(path, b"!")]), "leads elsewhere"
    yield "two folders", archive(table(("a", b"N")), more=[("other/data.pkl", b"N.")]), "no torch checkpoint"
    yield "a program", archive(table(("a", b"N")), more=[("archive/constants.pkl", b"N.")]), "TorchScript"
    yield "another zip", archive(table(("a", b"N"))).replace(b"data.pkl", b"data.doc"), "no torch checkpoint"
    yield (
        "10^12 numbers",
        archive(table(("a", tensor("0", 6, (10**6, 10**6), (10**6, 1)))), {"0": numbers}),
        "claims 1,000,000,000,000",
    )
    yield (
        "10^12 by repeating",
        archive(table(("a", tensor("0", 6, (10**6, 10**6), (0, 0)))), {"0": numbers}),
        "claims 1,000,000,000,000",
    )
    yield (
        "reads past the block",
        archive(table(("a", tensor("0", 6, (2, 2), (1, 1), offset=5))), {"0": numbers}),
        "claims 4",
    )
    yield (
        "block that is too short",
        archive(table(("a", tensor("0", 60, (60,), (1,)))), {"0": numbers}),
        "should hold 240 bytes",
    )
    yield (
        "block that is not there",
        archive(table(("a", tensor("7", 6, (6,), (1,)))), {"0": numbers}),
        "archive has none",
    )
    yield (
        "negative stride",
        archive(table(("a", tensor("0", 6, (6,), (-1,), offset=5))), {"0": numbers}),
        "are no sizes",
    )
    yield "nine axes", archive(table(("a", tensor("0", 6, (1,) * 9, (1,) * 9))), {"0": numbers}), "9 axes"
    two = ("a", tensor("0", 6, (6,), (1,))), ("b", b"(" + block("0", 3, "DoubleStorage") + b"t")
    yield "one block, two kinds", archive(table(*two), {"0": numbers}), "described twice"
    yield "old format, numbers that are not there", cut_legacy(), "has fewer"
    yield "header of 10^18 bytes", safetensors({}, length=10**18), "claims 1,000,000,000,000,000,000 bytes"
    yield "header past the end", safetensors({}, length=1000), "cut off or lies"
    yield "header that is no JSON", safetensors(b"{nothing}"), "no JSON"
    yield "header that nests", safetensors(b'{"a":' * 100_000), "no JSON"
    yield "header with doubles", safetensors(b'{"a":{},"a":{}}'), "something twice"
    yield (
        "10^12 numbers in safetensors",
        safetensors({"a": entry((10**6, 10**6))}, numbers),
        "claims 1,000,000,000,000 numbers",
    )
    yield "overlapping tensors", safetensors({"a": entry(), "b": entry(start=4, stop=28)}, numbers), "overlap others"
    yield "bytes of nobody", safetensors({"a": entry()}, numbers + b"more"), "header describes"
    yield "cut off", safetensors({"a": entry()}, numbers[:20]), "header describes"
    yield "strange kind", safetensors({"a": entry(kind="F8_E4M3", stop=6)}, bytes(6)), "of kind 'F8_E4M3'"
    yield "negative size", safetensors({"a": entry((-2, -3))}, numbers), "no sensible shape"
    yield "half a size", safetensors({"a": entry((2, 1.5))}, numbers), "no sensible shape"
    yield "no offsets", safetensors({"a": {"dtype": "F32", "shape": [1]}}), "not described"
    yield "notes that are no texts", safetensors({"__metadata__": {"a": 7}}), "table of texts"
    yield "no tensors", safetensors({}), "no tensors by name"


def cut_legacy() -> bytes:
    whole = saved({"a": torch.ones(100)}, _use_new_zipfile_serialization=False)
    return whole[:-40]


def truncations(whole: bytes, parts: int) -> list[bytes]:
    """The first bytes of a file, cut at places all over it."""
    return [whole[: len(whole) * i // parts] for i in range(parts)]
