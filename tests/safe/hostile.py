"""Files that mean harm or are broken, made on the spot: each with a part of the reason that it is refused for.

Pickles that hold objects which cannot be printed or compared in a lifetime; headers with values of another kind.
"""

import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from heedmap.safe.reading import LEGACY_START
from tests.safe.archives import Part, zipped

PROTOCOL, STOP = b"\x80\x02", b"."
MILLION = 1_000_000
NUMBERS = bytes(24)


def zip_of(*files: tuple[str, bytes], packed: bool = True) -> bytes:
    """The archive of files by name, as any program writes it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return made.getvalue()


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


TORCH = (saved, partial(saved, _use_new_zipfile_serialization=False))
"""How torch writes: the archive, and what it wrote before version 1.6."""


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


def calling(name: str, arguments: bytes) -> bytes:
    return table(("a", f"c{name}\n".replace(" ", "\n").encode() + arguments + b"R"))


def corpus(marker: str) -> Iterator[tuple[str, bytes, str]]:
    """Name of the trick, the file, and what its refusal says."""
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
    program = table(("a", b"ctorch\nFloatStorage\n" + number(9) + b"\x85\x81"))
    yield "memory by new storage", archive(program), "is damaged"
    yield "memory by size", archive(calling("torch Size", number(10**12) + b"\x85")), "is damaged"
    yield "newer protocol", saved({"a": torch.ones(2)}, pickle_protocol=4), "pickle protocol 4"
    yield "other opcode", archive(PROTOCOL + b"I7\n" + STOP), "uses INT"
    for steps in (b"}", STOP, b"h\x07" + STOP, b"}u" + STOP):  # no end, an empty stack, unknown memory, a lost mark
        yield f"steps {steps!r}", archive(PROTOCOL + steps), "damaged"
    yield "a number", saved(7), "no tensors by name"
    yield "one tensor", saved(torch.ones(3)), "a single tensor"
    yield "cycle", cycle(), "holds itself"
    keys = b"".join(text(str(i)) + b"N" for i in range(MILLION))
    yield "a million keys", archive(PROTOCOL + b"}(" + keys + b"u" + STOP), "more than 100,000 items"
    lists = text("a") + b"]" * 5_000 + b"a" * 4_999
    yield "deep nest", archive(PROTOCOL + b"}(" + lists + b"u" + STOP), "nested more than 64 deep"
    yield "key without end", archive(PROTOCOL + b"}(" + doubled() + b"Nu" + STOP), "a key is a tuple"
    yield "bomb", compressed(bytes(50 * MILLION)), "is compressed"
    yield "comment", archive(table(("a", b"N")), comment=b"PK\x05\x06" * 9), "something follows it"
    yield "two entries of one name", duplicated(), "two entries of one name"
    yield "overlap", overlapping(), "overlaps another"
    for path in ("../../evil", "archive/../../evil", "/etc/passwd", "archive//evil", "archive\\..\\evil", "C:/evil"):
        yield f"path {path}", archive(table(("a", b"N")), more=[(path, b"!")]), "leads elsewhere"
    yield "two folders", archive(table(("a", b"N")), more=[("other/data.pkl", b"N.")]), "no torch checkpoint"
    yield "a program", archive(table(("a", b"N")), more=[("archive/constants.pkl", b"N.")]), "TorchScript"
    yield "another zip", archive(table(("a", b"N"))).replace(b"data.pkl", b"data.doc"), "no torch checkpoint"
    lies: dict[str, tuple[tuple[Any, ...], str]] = {
        "10^12 numbers": (("0", 6, (10**6, 10**6), (10**6, 1)), "claims 1,000,000,000,000"),
        "10^12 by repeating": (("0", 6, (10**6, 10**6), (0, 0)), "claims 1,000,000,000,000"),
        "reads past the block": (("0", 6, (2, 2), (1, 1), 5), "claims 4"),
        "block that is too short": (("0", 60, (60,), (1,)), "should hold 240 bytes"),
        "block that is not there": (("7", 6, (6,), (1,)), "archive has none"),
        "negative stride": (("0", 6, (6,), (-1,), 5), "are no sizes"),
        "nine axes": (("0", 6, (1,) * 9, (1,) * 9), "9 axes"),
    }
    for name, (claim, reason) in lies.items():
        yield name, archive(table(("a", tensor(*claim))), {"0": NUMBERS}), reason
    two = ("a", tensor("0", 6, (6,), (1,))), ("b", b"(" + block("0", 3, "DoubleStorage") + b"t")
    yield "one block, two kinds", archive(table(*two), {"0": NUMBERS}), "described twice"
    cut = saved({"a": torch.ones(100)}, _use_new_zipfile_serialization=False)[:-40]
    yield "old format, numbers that are not there", cut, "has fewer"
    yield "header of 10^18 bytes", safetensors({}, length=10**18), "claims 1,000,000,000,000,000,000 bytes"
    yield "header past the end", safetensors({}, length=1000), "cut off or lies"
    yield "header that is no JSON", safetensors(b"{nothing}"), "no JSON"
    yield "header that nests", safetensors(b'{"a":' * 100_000), "no JSON"
    yield "header with doubles", safetensors(b'{"a":{},"a":{}}'), "something twice"
    large = safetensors({"a": entry((10**6, 10**6))}, NUMBERS)
    yield "10^12 numbers in safetensors", large, "claims 1,000,000,000,000 numbers"
    yield "overlapping tensors", safetensors({"a": entry(), "b": entry(start=4, stop=28)}, NUMBERS), "overlap others"
    yield "bytes of nobody", safetensors({"a": entry()}, NUMBERS + b"more"), "header describes"
    yield "cut off", safetensors({"a": entry()}, NUMBERS[:20]), "header describes"
    yield "strange kind", safetensors({"a": entry(kind="F8_E4M3", stop=6)}, bytes(6)), "of kind 'F8_E4M3'"
    yield "negative size", safetensors({"a": entry((-2, -3))}, NUMBERS), "no sensible shape"
    yield "half a size", safetensors({"a": entry((2, 1.5))}, NUMBERS), "no sensible shape"
    yield "no offsets", safetensors({"a": {"dtype": "F32", "shape": [1]}}), "not described"
    yield "notes that are no texts", safetensors({"__metadata__": {"a": 7}}), "table of texts"
    yield "no tensors", safetensors({}), "no tensors by name"


def truncations(whole: bytes, parts: int) -> list[bytes]:
    """The first bytes of a file, cut at places all over it."""
    return [whole[: len(whole) * i // parts] for i in range(parts)]


STRANGE_JSON: Any = (None, True, 7, -1, 2**70, 1.5, "text", "", [], {}, [[]], [{}], {"a": []}, [None, None], [0])
"""A JSON value of every kind."""


def headers() -> Iterator[tuple[str, bytes, str]]:
    """Every value of a header, once with each JSON value that does not belong there."""
    for value in STRANGE_JSON:
        yield f"header: {value!r}", safetensors(value), ""
        yield f"tensor: {value!r}", safetensors({"a": value}, NUMBERS), "not described"
        if value != {}:
            yield f"notes: {value!r}", safetensors({"__metadata__": value, "a": entry()}, NUMBERS), "table of texts"
        if not isinstance(value, str):
            yield f"note: {value!r}", safetensors({"__metadata__": {"x": value}, "a": entry()}, NUMBERS), "of texts"
        yield f"dtype: {value!r}", safetensors({"a": entry(kind=value)}, NUMBERS), ""
        yield f"shape: {value!r}", safetensors({"a": entry(shape=value)}, NUMBERS), ""
        yield f"size: {value!r}", safetensors({"a": entry(shape=[value, 6])}, NUMBERS), ""
        yield f"start: {value!r}", safetensors({"a": entry(start=value)}, NUMBERS), ""
        yield f"stop: {value!r}", safetensors({"a": entry(stop=value)}, NUMBERS), ""
        yield f"places: {value!r}", safetensors({"a": {**entry(), "data_offsets": value}}, NUMBERS), ""
    aliases = {f"copy{i}": "a" for i in range(30_000)}
    yield "30,000 other names", safetensors({"__metadata__": aliases, "a": entry()}, NUMBERS), "30,001 tensors"
    large = entry((1000, 500), stop=2_000_000)
    aliases = {f"copy{i}": "a" for i in range(20)}
    program = safetensors({"__metadata__": aliases, "a": large}, bytes(2_000_000))
    yield "20 other names of a large matrix", program, "21 tensors show 10,500,000 numbers"
    yield "another name of 70 parts", safetensors({"__metadata__": {"." * 69: "a"}, "a": entry()}, NUMBERS), "70 parts"
    yield "a name of 65 parts", safetensors({"." * 64: entry()}, NUMBERS), "65 parts"
    program = safetensors(b'{"\\ud800":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}')
    yield "half a character", program, "half a char"
    yield "300,000 lists", safetensors(b'{"a":[' + b"[]," * 300_000 + b"[]]}"), "more than 250,000 tables and lists"
    yield "no UTF-8", safetensors(b'{"\xff":{}}'), "no JSON"
    yield "a shape that is none", safetensors({"a": entry((2**39, 2**39, 0), stop=0)}), "no sensible shape"


REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n("
SIX = ("a", tensor("0", 6, (6,), (1,)))


def doubled(times: int = 60) -> bytes:
    """A tuple of twice the same tuple of twice the same tuple ...: 2^times items to print, hash or compare."""
    return b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(times))


def deep(times: int = 2_000) -> bytes:
    """A tuple in a tuple in a tuple ..."""
    return b")" + b"\x85" * times


def legacy(program: bytes, keys: bytes, *blocks: tuple[int, bytes], version: bytes = number(1001)) -> bytes:
    """A file as torch wrote it before version 1.6."""
    pickles = (version, b"}", program, keys)
    whole = LEGACY_START + b"".join(PROTOCOL + one + STOP for one in pickles)
    return whole + b"".join(count.to_bytes(8, "little") + data for count, data in blocks)


def listed(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def named(*entries: tuple[str, bytes]) -> bytes:
    """A dictionary, without the frame of a pickle."""
    return table(*entries)[len(PROTOCOL) : -len(STOP)]


STRANGE_OBJECTS = {
    "doubled": doubled(),
    "deep": deep(),
    "number": number(7),
    "huge number": number(2**2000),
    "nothing": b"N",
    "yes": b"\x88",
    "fraction": b"G" + bytes(8),
    "list": listed(doubled()),
    "table": b"}",
    "global": b"ctorch\nfloat32\n",
    "block": block("0", 6),
}
"""Objects that stand where another is expected."""


def legacy_keys() -> Iterator[tuple[str, bytes, str]]:
    """The list of blocks holds what is no text; or is no list, or another one."""
    program = named(SIX)
    for name, strange in STRANGE_OBJECTS.items():
        for keys, what in ((listed(strange), "alone"), (listed(text("0"), strange), "behind a text")):
            yield f"block key: {name}, {what}", legacy(program, keys, (6, NUMBERS)), "no name of a block"
        if name != "list":
            yield f"list of blocks: {name}", legacy(program, strange, (6, NUMBERS)), "no name of a block"
    yield "a block twice", legacy(program, listed(text("0"), text("0")), (6, NUMBERS), (6, NUMBERS)), "not the list"
    yield "another block", legacy(program, listed(text("1")), (6, NUMBERS)), "not the list"
    for name in ("doubled", "deep", "huge number", "nothing", "table"):
        data = legacy(program, listed(text("0")), (6, NUMBERS), version=STRANGE_OBJECTS[name])
        yield f"version: {name}", data, "version of torch's old format"


def strange_claims() -> Iterator[tuple[str, bytes, str]]:
    """Every argument of a block, of a tensor, of a call, once with each object that does not belong there."""
    storage = [text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), number(6)]
    hooks = b"ccollections\nOrderedDict\n)R"
    claim = [block("0", 6), number(0), b"(" + number(6) + b"t", b"(" + number(1) + b"t", b"\x89", hooks]
    fine = {(4, "number"), (3, "text")}
    for name, strange in STRANGE_OBJECTS.items():
        for place in range(5):
            if (place, name) not in fine:
                changed = b"(" + b"".join([*storage[:place], strange, *storage[place + 1 :]]) + b"tQ"
                yield f"block, part {place}: {name}", _with(changed), "damaged"
        if name != "nothing":
            yield f"block, view: {name}", _with(b"(" + b"".join([*storage, strange]) + b"tQ"), "damaged"
        yield f"reference: {name}", _with(strange + b"Q"), "damaged"
        for place in (0, 1, 2, 3, 5):
            allowed = {0: {"block"}, 1: {"number"}, 5: {"table", "nothing"}}.get(place, set())
            if name not in allowed:
                parts = b"".join([*claim[:place], strange, *claim[place + 1 :]])
                yield f"tensor, part {place}: {name}", _with(REBUILD + parts + b"tR"), ""
        for place in (2, 3):
            if name != "number":
                parts = b"".join([*claim[:place], b"(" + strange + b"t", *claim[place + 1 :]])
                yield f"size {place}: {name}", _with(REBUILD + parts + b"tR"), "damaged"
        for what in ("torch Size", "torch._utils _rebuild_parameter", "collections OrderedDict"):
            program = f"c{what}\n".replace(" ", "\n").encode()
            yield f"{what}: {name}", _with(program + strange + b"\x85R"), "damaged"
            yield f"{what}, arguments: {name}", _with(program + strange + b"R"), "damaged"
        yield f"function: {name}", _with(strange + b")R"), "damaged"
        yield f"class: {name}", _with(strange + b")\x81"), "damaged"
        yield f"state: {name}", _with(b"]" + strange + b"b"), "damaged"
        yield f"a name to import: {name}", _with(text("os") + strange + b"\x93"), "damaged"
        if name != "number":
            yield f"key: {name}", archive(PROTOCOL + b"}(" + strange + b"Nu" + STOP), "damaged"
            yield f"key of a set item: {name}", archive(PROTOCOL + b"}" + strange + b"Ns" + STOP), "damaged"
        yield f"everything: {name}", archive(PROTOCOL + strange + STOP), ""


def budgets() -> Iterator[tuple[str, bytes, str]]:
    """Small files that would take long, or much memory, to look through."""
    yield "one number past its block", _tensor((6,), (1,), 1), "claims 6 numbers"
    yield "one number past its block, by steps", _tensor((2, 3), (4, 1)), "claims 6 numbers"
    yield "one number, one past its block", _tensor((), (), 6), "claims 1 numbers"
    yield "no numbers of a shape that is none", _tensor((2**39, 2**39, 0), (1, 1, 1)), "no size"
    yield "a list of 100,001 items", archive(PROTOCOL + b"](" + b"N" * 100_001 + b"e" + STOP), "more than 100,000 items"
    yield "100,001 appends", archive(PROTOCOL + b"]" + b"Na" * 100_001 + STOP), "more than 100,000 items"
    for key in (2**31, -(2**31), 2**60, 2**2000):
        program = PROTOCOL + b"}(" + number(key) + b"Nu" + STOP
        yield f"a key of {key.bit_length()} bits", archive(program), "a key is a int, not a text or a small number"
    yield "a name of 65 parts", _with(SIX[1], name=".".join("a" * 65)), "has 65 parts, at most 64"
    yield "a name of 500 parts", _with(SIX[1], name=".".join("a" * 500)), "has 500 parts, at most 64"
    half = b"X" + (4).to_bytes(4, "little") + "a\ud800".encode("utf-8", "surrogatepass")
    yield (
        "half a character in a name",
        archive(PROTOCOL + b"}(" + half + SIX[1] + b"u" + STOP, {"0": NUMBERS}),
        "half a character",
    )
    yield "a block's name without end", _with(tensor("0" * 5000, 6, (6,), (1,))), "damaged"
    long_key = b"X" + (10**7).to_bytes(4, "little") + b"k" * 10**7
    program = archive(PROTOCOL + b"}(" + long_key + b"Nu" + STOP)
    yield "a key that is long to compare", program, "a key has 10,000,000 char"
    many = PROTOCOL + b"}(" + b"".join(text(str(i)) + b"N" for i in range(9_000)) + b"uq\x00]q\x01"
    program = many + b"ccollections\nOrderedDict\n)R" + b"h\x00b" * 99 + STOP
    yield "one table fills many", archive(program), "100,000 items"
    long_size = b"(" + b"K\x01" * 50_000 + b"tq\x00"
    yield "a size of 50,000 axes", _with(b"ctorch\nSize\n" + long_size + b"\x85R"), "damaged"
    yield "a device of 50,000 names", _with(b"ctorch\ndevice\n" + long_size + b"R"), "damaged"
    again = tensor("0", 10_000, (10_000,), (1,))
    views = table(("0", again + b"q\x00"), *((str(i), b"h\x00") for i in range(1, 500)))
    yield "500 times one block", archive(views, {"0": bytes(40_000)}), "500 tensors show 5,000,000 numbers"
    yield "too many paths", archive(PROTOCOL + paths(50) + STOP), "no tensors by name"
    flags = table(("a", tensor("0", 6, (6,), (1,)).replace(b"FloatStorage", b"BoolStorage")))
    yield "bytes that are neither yes nor no", archive(flags, {"0": b"\0\1\0\2\0\1"}), "neither yes nor no"
    long = {".".join((str(i), *"a" * 60)): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(5_000)}
    yield "names of 300,000 modules", safetensors(long), "more than 50,000 modules"


def paths(depth: int) -> bytes:
    """A table that holds another under two of the known names, that one a third ...: 2^depth ways through it."""
    program = b"}q\x00"
    for _ in range(depth):
        program += b"}(" + text("state_dict") + b"h\x00" + text("model") + b"h\x00" + b"uq\x00"
    return program


def _with(program: bytes, name: str = "a") -> bytes:
    return archive(table((name, program)), {"0": NUMBERS})


def _tensor(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> bytes:
    return _with(tensor("0", 6, shape, strides, offset))
