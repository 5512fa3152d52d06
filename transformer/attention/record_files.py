"""A record as a file: one safetensors file, whose header holds a JSON table of sites, axes and interventions.

Only one sentence of a batch is written; what is read is a batch of one. Each intervention is written once, with its
donor's weights where the picture needs them. The file is untrusted: sizes are checked before memory is taken, and each
value where it is read; a refusal names its place in the table (`heedmap.sites[3].source.scale`).
"""

import io
import json
import math
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BufferedIOBase
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor

from transformer.attention.interventions.edits import check_positions
from transformer.attention.interventions.value import MOST_PARTS, Donor, Intervention, written
from transformer.attention.interventions.value import read as read_intervention
from transformer.attention.record import AttentionMap, Record
from transformer.attention.softmax_inputs import (
    AttentionInputs,
    Bias,
    BiasTable,
    MaskTable,
    RelativeBias,
    SoftmaxInputs,
    Weights,
    WindowMask,
)
from transformer.errors import HeedmapError, InputError
from transformer.messages import Message, NoMessageError, packed_message, unpacked_message
from transformer.nn.masks import Mask
from transformer.plots.axes import Axis
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits, is_text, refused, said, shown
from transformer.safe.reading import KINDS, LENGTH_BYTES, check_header, looks_like_safetensors, parsed_table
from transformer.safe.tensors import is_count, read_tensors
from transformer.sites import Site

VERSION = 1
"""The version that is written, and the newest that is read."""

KEY = "heedmap"
"""The name of the JSON table in the metadata of the safetensors file."""

ENDING = ".heedmap"
"""How the name of a record file ends."""

MOST_SITES = 4_096
MOST_SITE_CHARACTERS = 500
MOST_HEADS = 4_096
MOST_POSITIONS = 65_536
"""Queries or keys of one site: four times the longest run that the pages show."""

MOST_NOTES = 100
"""Notes of one site."""

MOST_MESSAGE_PARTS = 50_000
"""Codes, texts and numbers of all messages (notes, names and labels of axes) of one file."""

MOST_CHANGED_POSITIONS = 5_000_000
"""Numbers (heads, rows, keys, weights) of the interventions of all maps: each is looked at where one is shown."""

MOST_AXES, MOST_COUNT, MOST_NUMBER = 4, 2**40, 1e300
BOOL = (torch.bool,)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

Read = TypeVar("Read")


def is_record(file: str) -> bool:
    """Whether a file of this name is a record."""
    return file.lower().endswith(ENDING)


def read(handle: BufferedIOBase, source: str, limits: ReadLimits = DEFAULT_LIMITS) -> Record:
    """What the file of a record holds; `source` names it in messages.

    Raises:
        CheckpointError: it is too large, damaged, no record, of a newer version, or does not fit together.
    """
    size, save_again = handle.seek(0, os.SEEK_END), Message("remedy_save_record")
    if size > limits.file_bytes:
        raise refused("file_large", source, Message("remedy_record_less"), found=size, most=limits.file_bytes)
    handle.seek(0)
    if not looks_like_safetensors(handle.read(64)):
        raise refused("record_other_kind", source, save_again)
    header = check_header(handle, size, source, limits)
    if KEY not in header.notes:
        raise refused("record_no_table", source, save_again)
    table = parsed_table(header.notes[KEY].encode(errors="replace"), source, limits)
    version, checksums = table.get("version"), table.pop("checksums", {})
    if type(version) is int and VERSION < version < 10**6:
        raise refused("record_newer", source, Message("remedy_update"), found=version, most=VERSION)
    if type(version) is not int or version != VERSION:
        raise refused("record_no_version", source, save_again)
    if not isinstance(checksums, dict) or not all(map(is_count, checksums.values())):
        raise refused("record_no_checksums", source, save_again)
    places = {name: replace(place, checksum=checksums.get(name, 0)) for name, place in header.places.items()}
    return _record(table, read_tensors(handle, header.tensors, places, source), source)


def blocks(record: Record) -> Iterator[bytes | memoryview]:
    """The bytes of the file of a record, its header first, then tensor by tensor.

    Raises:
        CheckpointError: the file could not be read again: it holds NaN, or is too large.
    """
    writer, name = _Writer(), record.model[:80] or Message("noun_record")
    table = writer.table(record)
    _record(table, writer.tensors, name)
    tensors = dict(sorted(writer.tensors.items(), key=lambda one: -one[1].element_size()))  # aligned, as others expect
    checks = {key: zlib.crc32(_bytes(tensor)) for key, tensor in tensors.items()}
    header: dict[str, Any] = {"__metadata__": {KEY: _json({**table, "checksums": checks})}}
    names, end = {kind: name for name, kind in KINDS.items()}, 0
    for key, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        shape = list(tensor.shape)
        header[key] = {"dtype": names[_kind(tensor.dtype)], "shape": shape, "data_offsets": [start, end]}
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


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# Writing.


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


class _Writer:
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


# Values of the table: each is checked where it is read.


def _finite(least: float, most: float) -> bool:
    return math.isfinite(least) and math.isfinite(most)


def _below_infinity(least: float, most: float) -> bool:
    """No NaN, and no plus infinity: minus infinity hides a key."""
    return not math.isnan(least) and most < math.inf


@dataclass(eq=False)
class _File:
    """A file that is read: its name in messages, its tensors, which of them were named or checked, and what is left."""

    name: str
    tensors: Mapping[str, Tensor]
    used: set[str] = field(default_factory=set)
    checked: set[Any] = field(default_factory=set)
    parts_left: list[int] = field(default_factory=lambda: [MOST_MESSAGE_PARTS])
    positions_left: int = MOST_CHANGED_POSITIONS
    interventions: tuple[Intervention, ...] = ()

    def refuse(self, code: str, /, **fields: object) -> NoReturn:
        raise refused(code, self.name, Message("remedy_save_record"), **fields)


@dataclass(frozen=True, eq=False)
class _Field:
    """A value of the table, and the path to it (`heedmap.sites[3].source.scale`)."""

    value: Any
    path: str
    file: _File

    def wrong(self, expected: str, **fields: object) -> NoReturn:
        self.file.refuse("record_entry", place=self.path, expected=Message(f"expected_{expected}", **fields))

    def table(self, *known: str) -> "_Field":
        """This, which has to be a table of some of the `known` names."""
        if not isinstance(self.value, dict) or not self.value.keys() <= set(known):
            self.wrong("table", names=known)
        return self

    def at(self, name: str) -> "_Field":
        return _Field(self.value.get(name), f"{self.path}.{name}", self.file)

    def optional(self, name: str, read: Callable[["_Field"], Read]) -> Read | None:
        """What is read of a name of the table; None where nothing, or null, stands there."""
        found = self.at(name)
        return None if found.value is None else read(found)

    def items(self, most: int, least: int = 0) -> list["_Field"]:
        if not isinstance(self.value, list) or not least <= len(self.value) <= most:
            self.wrong("list", least=least, most=most)
        return [_Field(item, f"{self.path}[{i}]", self.file) for i, item in enumerate(self.value)]

    def text(self) -> str:
        """A text that can be written."""
        if not isinstance(self.value, str) or not is_text(self.value):
            self.wrong("text")
        return self.value

    def said(self) -> str:
        """A text, or a message of the catalogue; one that the catalogue does not know becomes its English text."""
        if not isinstance(self.value, dict):
            return self.text()
        self.table("code", "fields", "text")
        try:
            message = unpacked_message(self.value, self.file.parts_left)
        except NoMessageError:
            return self.at("text").text()
        return message if is_text(message) else self.at("text").text()

    def choice(self, choices: Collection[str]) -> str:
        if not isinstance(self.value, str) or self.value not in choices:
            self.wrong("choice", choices=tuple(choices))
        return self.value

    def yes(self) -> bool:
        """True or false; false where it is missing."""
        if self.value is not None and type(self.value) is not bool:
            self.wrong("yes_or_no")
        return bool(self.value)

    def count(self, most: int = MOST_COUNT, least: int = 0) -> int:
        if type(self.value) is not int or not least <= self.value <= most:
            self.wrong("count", least=least, most=most)
        return self.value

    def counts(self, most: int, most_items: int) -> tuple[int, ...]:
        """A list of whole numbers, none above `most`."""
        values = self.value
        if not isinstance(values, list) or len(values) > most_items:
            self.wrong("list", least=0, most=most_items)
        if not all(type(value) is int and 0 <= value <= most for value in values):
            self.wrong("counts", most=most)
        return tuple(values)

    def number(self) -> float:
        if type(self.value) not in {int, float} or not abs(self.value) < MOST_NUMBER:
            self.wrong("number")
        return float(self.value)

    def tensor(
        self,
        shape: tuple[int | None, ...],
        dtypes: tuple[torch.dtype, ...] = FLOATS,
        check: Callable[[float, float], bool] | None = _finite,
    ) -> Tensor:
        """The tensor that is named here, of this shape (None: any size from 1) and one of these kinds.

        `check` says of its extremes whether it may have them.
        """
        named, order = self, None
        if isinstance(self.value, dict):
            named, order = self.table("tensor", "order").at("tensor"), self.at("order").counts(MOST_AXES, MOST_AXES)
        name = named.text()
        tensor, stated = self.file.tensors.get(name), {"tensor": shown(name), "place": self.path}
        if tensor is None:
            self.file.refuse("record_tensor_missing", **stated)
        self.file.used.add(name)
        if order is not None:
            if sorted(order) != list(range(tensor.dim())):
                self.at("order").wrong("order", count=tensor.dim())
            tensor = tensor.permute([order.index(axis) for axis in range(len(order))])
        if tensor.dim() != len(shape) or not all(
            found == size if size is not None else found > 0 for found, size in zip(tensor.shape, shape, strict=True)
        ):
            sizes = (" x ".join("?" if n is None else str(n) for n in one) for one in (tensor.shape, shape))
            self.file.refuse("record_tensor_shape", **stated, **dict(zip(("found", "expected"), sizes, strict=True)))
        if tensor.dtype not in dtypes:
            kinds = tuple(map(_kind, dtypes))
            self.file.refuse("record_tensor_kind", **stated, found=_kind(tensor.dtype), expected=kinds)
        if check is not None and (name, check) not in self.file.checked:
            if not check(*(float(one) for one in tensor.aminmax())):
                self.file.refuse("record_tensor_not_finite", **stated)
            self.file.checked.add((name, check))
        return tensor


# Reading.


def _record(table: Any, tensors: Mapping[str, Tensor], source: str) -> Record:
    """The contents that a table describes, made of the tensors that it names.

    Raises:
        CheckpointError: they do not fit together, or there are tensors that it does not name.
    """
    file = _File(source, tensors)
    root = _Field(table, KEY, file).table("version", "model", "text", "axes", "sites", "changes")
    axes = [*map(_read_axis, root.at("axes").items(2 * MOST_SITES))]
    file.interventions = _read_interventions(root.at("changes"))
    maps = dict[Site, AttentionMap]()
    for entry in root.at("sites").items(MOST_SITES):
        one = _read_map(entry, axes)
        if one.site in maps:
            file.refuse("record_site_twice", site=shown(str(one.site)))
        maps[one.site] = one
    unused = next((name for name in tensors if name not in file.used), None)
    if unused is not None:
        file.refuse("record_tensor_unused", tensor=shown(unused))
    return Record(maps, root.at("model").said(), root.at("text").said())


def _read_map(entry: _Field, axes: list[Axis]) -> AttentionMap:
    entry.table("site", "queries", "keys", "source", "interventions", "notes")
    name = entry.at("site").text()
    if not 0 < len(name) <= MOST_SITE_CHARACTERS or not name.isprintable():
        entry.at("site").wrong("site", most=MOST_SITE_CHARACTERS)
    source = _read_source(entry.at("source"), name)
    queries, keys = (axes[entry.at(side).count(len(axes) - 1)] for side in ("queries", "keys"))
    for side, axis, count in (("queries", queries, source.n_queries), ("keys", keys, source.n_keys)):
        if len(axis) > count:
            entry.file.refuse("record_axis_length", place=entry.at(side).path, found=len(axis), count=count)
    asked = entry.optional("interventions", _named_interventions) or ()
    return AttentionMap(Site(name), queries, keys, source, 0, asked, _read_notes(entry))


def _read_notes(entry: _Field) -> tuple[str, ...]:
    """The notes of a site, or of its source."""
    return entry.optional("notes", lambda notes: tuple(note.said() for note in notes.items(MOST_NOTES))) or ()


def _read_axis(entry: _Field) -> Axis:
    texts = entry.table("name", "texts", "words", "special", "grid").at("texts")
    plain = texts.value
    if isinstance(plain, list) and 0 < len(plain) <= MOST_POSITIONS and all(type(text) is str for text in plain):
        found = tuple(plain) if is_text("".join(plain)) else texts.wrong("text")  # which is quick, many at a time
    else:
        found = tuple(item.said() for item in texts.items(MOST_POSITIONS, 1))
    count = len(found)
    words = entry.optional("words", lambda one: one.counts(MOST_POSITIONS, count))
    words = tuple(range(count)) if words is None else words
    if len(words) != count or any(later < word for word, later in pairwise(words)):
        entry.at("words").wrong("words", count=count)
    special = set(entry.optional("special", lambda one: one.counts(count - 1, count)) or ())
    grid = entry.optional("grid", lambda one: one.counts(count, 2))
    if grid is not None and (len(grid) != 2 or not 1 <= math.prod(grid) <= count):
        entry.at("grid").wrong("grid", count=count)
    marks = tuple(i in special for i in range(count))
    return Axis(entry.at("name").said(), found, words, marks, None if grid is None else (grid[0], grid[1]))


def _read_source(entry: _Field, site: str) -> SoftmaxInputs:
    """What is kept of one attention. What may refuse to be shown, rows of a donor or forced ones, is tried."""
    kind = entry.at("kind").choice(("inputs", "weights", "changed")) if isinstance(entry.value, dict) else ""
    if kind == "weights":
        values = entry.table("kind", "values", "mask", "notes").at("values").tensor((1, None, None, None))
        _check_sizes(entry, *values.shape[1:])
        mask = entry.optional("mask", lambda one: _read_mask(one, *values.shape[2:]))
        return Weights(values, mask, _read_notes(entry))
    if kind == "inputs":
        return _read_inputs(entry)
    base = _read_inputs(entry.table("kind", "base", "interventions", "first_row").at("base"))
    changes = entry.optional("interventions", _named_interventions) or ()
    found = replace(base, interventions=changes, first_row=entry.optional("first_row", _Field.count))
    try:
        check_positions(changes, found.n_heads, found.n_queries, found.n_keys)
        trying = [one for one in found.of_weights if one.action in ("force", "patch_weights")]
        for head in range(found.n_heads):
            if any(one.touches_head(head) for one in trying):
                found.weights(0, head, slice(0, found.n_queries), slice(0, 1))
    except HeedmapError as error:
        entry.file.refuse("record_intervention", place=f"{entry.path} ({shown(site)})", why=said(error))
    return found


def _read_inputs(entry: _Field) -> AttentionInputs:
    q = entry.table("kind", "q", "k", "scale", "mask", "bias", "known").at("q").tensor((1, None, None, None))
    _, n_heads, n_queries, d_k = q.shape
    k = entry.at("k").tensor((1, None, None, d_k), (q.dtype,))
    n_keys = k.shape[2]
    _check_sizes(entry, n_heads, n_queries, n_keys)
    if n_heads % k.shape[1]:
        entry.file.refuse("record_heads_apart", place=entry.path, heads=n_heads, key_heads=k.shape[1])
    return AttentionInputs(
        q,
        k,
        _read_mask(entry.at("mask"), n_queries, n_keys),
        entry.at("scale").number(),
        entry.optional("bias", lambda one: _read_bias(one, n_heads, n_queries, n_keys)),
        entry.optional("known", lambda one: one.tensor((1, n_heads, n_queries), check=None)),
    )


def _check_sizes(entry: _Field, *found: int) -> None:
    """Refuse too many heads, queries or keys."""
    if any(size > limit for size, limit in zip(found, (MOST_HEADS, MOST_POSITIONS, MOST_POSITIONS), strict=True)):
        sizes = " x ".join(f"{size:,}" for size in found)
        entry.file.refuse("record_large", place=entry.path, found=sizes, heads=MOST_HEADS, positions=MOST_POSITIONS)


def _read_mask(entry: _Field, n_queries: int, n_keys: int) -> Mask:
    entry.table("kind", "keys", "causal", "spreads", "visible", "width")
    kind = entry.at("kind").choice(("keys", "table", "window"))
    keys = entry.optional("keys", lambda one: one.tensor((1, n_keys), BOOL, None))
    plain = keys, entry.at("causal").yes(), entry.at("spreads").yes()
    if kind == "window":
        return WindowMask(*plain, width=entry.at("width").count())
    if kind == "table":
        return MaskTable(*plain, visible=entry.at("visible").tensor((1, 1, n_queries, n_keys), BOOL, None))
    return Mask(*plain)


def _read_bias(entry: _Field, n_heads: int, n_queries: int, n_keys: int) -> Bias:
    diagonals = entry.table("diagonals", "n_queries", "values").at("diagonals")
    if entry.at("values").value is not None:
        values = entry.at("values").tensor((1, None, None, n_keys), check=_below_infinity)
        _one_or_all(entry.at("values"), values.shape[1], n_heads)
        _one_or_all(entry.at("values"), values.shape[2], n_queries)
        return BiasTable(values)
    rows = entry.at("n_queries").count(MOST_POSITIONS, n_queries)
    found = diagonals.tensor((None, None), check=_below_infinity)
    _one_or_all(diagonals, found.shape[0], n_heads)
    needed = rows - 1 + n_keys  # from the last query to the first key, and so on to the last key
    if found.shape[1] < needed:
        entry.file.refuse("record_distances", place=diagonals.path, found=found.shape[1], needed=needed)
    return RelativeBias(found, rows)


def _one_or_all(entry: _Field, found: int, count: int) -> None:
    if found not in (1, count):
        entry.file.refuse("record_broadcast", place=entry.path, found=found, needed=count)


def _read_interventions(entry: _Field) -> tuple[Intervention, ...]:
    """All interventions of a file, whose donors are named by their numbers."""
    entry.table("interventions", "donors")
    donors = entry.optional("donors", lambda one: [*map(_read_donor, one.items(MOST_PARTS))]) or []
    named, changes = {str(number): donor for number, donor in enumerate(donors)}, entry.at("interventions")
    texts = entry.optional("interventions", lambda one: [each.text() for each in one.items(MOST_PARTS)]) or []
    try:
        return tuple(read_intervention(text, named) for text in texts)
    except InputError as error:
        entry.file.refuse("record_intervention", place=changes.path, why=said(error))


def _read_donor(entry: _Field) -> Donor:
    weights = entry.table("name", "weights").at("weights")
    if not isinstance(weights.value, dict):
        weights.table()
    found = {}
    for site, given in weights.value.items():
        place = f"{weights.path}[{shown(site)}]"
        found[Site(site)] = _Field(given, place, entry.file).tensor((1, None, None, None))
    return Donor(entry.at("name").said(), found, {})


def _named_interventions(entry: _Field) -> tuple[Intervention, ...]:
    """The interventions that a list of numbers names; what all maps name together is bounded."""
    every = entry.file.interventions
    found = tuple(every[number] for number in entry.counts(len(every) - 1, MOST_PARTS))
    numbers = [part for one in found for part in (one.heads, one.queries, one.keys, one.value)]
    entry.file.positions_left -= len(found) + sum(len(part) for part in numbers if isinstance(part, tuple))
    if entry.file.positions_left < 0:
        entry.file.refuse("record_interventions_large", most=MOST_CHANGED_POSITIONS)
    return found
