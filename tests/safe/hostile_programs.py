"""Pickles that say what torch never says: objects that cannot be printed or compared in a lifetime, in every place."""

from collections.abc import Iterator

from tests.safe.hostile import PROTOCOL, STOP, archive, block, number, safetensors, table, tensor, text
from transformer.safe.legacy import LEGACY_START

NUMBERS = bytes(24)
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


STRANGE = {
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
    for name, strange in STRANGE.items():
        for keys, what in ((listed(strange), "alone"), (listed(text("0"), strange), "behind a text")):
            yield f"block key: {name}, {what}", legacy(program, keys, (6, NUMBERS)), "no name of a block"
        if name != "list":
            yield f"list of blocks: {name}", legacy(program, strange, (6, NUMBERS)), "no name of a block"
    yield "a block twice", legacy(program, listed(text("0"), text("0")), (6, NUMBERS), (6, NUMBERS)), "not the list"
    yield "another block", legacy(program, listed(text("1")), (6, NUMBERS)), "not the list"
    for name in ("doubled", "deep", "huge number", "nothing", "table"):
        data = legacy(program, listed(text("0")), (6, NUMBERS), version=STRANGE[name])
        yield f"version: {name}", data, "version of torch's old format"


def strange_claims() -> Iterator[tuple[str, bytes, str]]:
    """Every argument of a block, of a tensor, of a call, once with each object that does not belong there."""
    storage = [text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), number(6)]
    hooks = b"ccollections\nOrderedDict\n)R"
    claim = [block("0", 6), number(0), b"(" + number(6) + b"t", b"(" + number(1) + b"t", b"\x89", hooks]
    fine = {(4, "number"), (3, "text")}
    for name, strange in STRANGE.items():
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
                yield (
                    f"tensor, part {place}: {name}",
                    _with(b"ctorch._utils\n_rebuild_tensor_v2\n(" + parts + b"tR"),
                    "",
                )
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
    yield "half a character in a name", half_a_character(), "half a character"
    yield "a block's name without end", _with(tensor("0" * 5000, 6, (6,), (1,))), "damaged"
    long_key = b"X" + (10**7).to_bytes(4, "little") + b"k" * 10**7
    yield (
        "a key that is long to compare",
        archive(PROTOCOL + b"}(" + long_key + b"Nu" + STOP),
        "a key has 10,000,000 char",
    )
    many = PROTOCOL + b"}(" + b"".join(text(str(i)) + b"N" for i in range(9_000)) + b"uq\x00]q\x01"
    yield (
        "one table fills many",
        archive(many + b"ccollections\nOrderedDict\n)R" + b"h\x00b" * 99 + STOP),
        "100,000 items",
    )
    long_size = b"(" + b"K\x01" * 50_000 + b"tq\x00"
    yield "a size of 50,000 axes", _with(b"ctorch\nSize\n" + long_size + b"\x85R"), "damaged"
    yield "a device of 50,000 names", _with(b"ctorch\ndevice\n" + long_size + b"R"), "damaged"
    again = tensor("0", 10_000, (10_000,), (1,))
    views = table(("0", again + b"q\x00"), *((str(i), b"h\x00") for i in range(1, 500)))
    yield "500 times one block", archive(views, {"0": bytes(40_000)}), "500 tensors show 5,000,000 numbers"
    yield "too many paths", archive(PROTOCOL + paths(50) + STOP), "no tensors by name"
    yield (
        "bytes that are neither yes nor no",
        archive(
            table(("a", tensor("0", 6, (6,), (1,)).replace(b"FloatStorage", b"BoolStorage"))), {"0": b"\0\1\0\2\0\1"}
        ),
        "neither yes nor no",
    )
    long = {".".join((str(i), *"a" * 60)): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(5_000)}
    yield "names of 300,000 modules", safetensors(long), "more than 50,000 modules"


def paths(depth: int) -> bytes:
    """A table that holds another under two of the known names, that one a third ...: 2^depth ways through it."""
    program = b"}q\x00"
    for _ in range(depth):
        program += b"}(" + text("state_dict") + b"h\x00" + text("model") + b"h\x00" + b"uq\x00"
    return program


def half_a_character() -> bytes:
    data = "a\ud800".encode("utf-8", "surrogatepass")
    name = b"X" + len(data).to_bytes(4, "little") + data
    return archive(PROTOCOL + b"}(" + name + SIX[1] + b"u" + STOP, {"0": NUMBERS})


def _with(program: bytes, name: str = "a") -> bytes:
    return archive(table((name, program)), {"0": NUMBERS})


def _tensor(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> bytes:
    return _with(tensor("0", 6, shape, strides, offset))
