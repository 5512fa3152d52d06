"""Reading a record file: its header, then what its table describes, made of the tensors that it names."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from io import BufferedIOBase
from itertools import pairwise
from typing import Any

from torch import Tensor

from ...errors import HeedmapError, InputError
from ...messages import Message
from ...nn.masks import Mask
from ...plots.axes import Axis
from ...safe.limits import DEFAULT_LIMITS, ReadLimits, is_text, refused, said, shown
from ...safe.reading import check_header, looks_like_safetensors, parsed_table
from ...safe.tensors import is_count, read_tensors
from ...sites import Site
from ..interventions.edits import check_positions
from ..interventions.value import MOST_PARTS, Donor, Intervention
from ..interventions.value import read as read_intervention
from ..record import AttentionMap, Record
from ..softmax_inputs import AttentionInputs, SoftmaxInputs, Weights
from ..tables import Bias, BiasTable, MaskTable, RelativeBias, WindowMask
from .fields import (
    BOOL,
    KEY,
    MOST_CHANGED_POSITIONS,
    MOST_HEADS,
    MOST_NOTES,
    MOST_POSITIONS,
    MOST_SITE_CHARACTERS,
    MOST_SITES,
    ROUNDING,
    VERSION,
    Field,
    RecordFile,
    below_infinity,
)


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
    return record_of(table, read_tensors(handle, header.tensors, places, source), source)


def record_of(table: Any, tensors: Mapping[str, Tensor], source: str) -> Record:
    """The contents that a table describes, made of the tensors that it names.

    Raises:
        CheckpointError: they do not fit together, or there are tensors that it does not name.
    """
    file = RecordFile(source, tensors)
    root = Field(table, KEY, file).table("version", "model", "text", "axes", "sites", "changes")
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


def _read_map(entry: Field, axes: list[Axis]) -> AttentionMap:
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


def _read_notes(entry: Field) -> tuple[str, ...]:
    """The notes of a site, or of its source."""
    return entry.optional("notes", lambda notes: tuple(note.said() for note in notes.items(MOST_NOTES))) or ()


def _read_axis(entry: Field) -> Axis:
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


def _read_source(entry: Field, site: str) -> SoftmaxInputs:
    """What is kept of one attention. What may refuse to be shown, rows of a donor or forced ones, is tried."""
    kind = entry.at("kind").choice(("inputs", "weights", "changed")) if isinstance(entry.value, dict) else ""
    if kind == "weights":
        place = entry.table("kind", "values", "mask", "notes").at("values")
        values = place.tensor((1, None, None, None), check=None)
        least, most = values.nan_to_num(0.0).aminmax()  # a softmax makes NaN of a row that sees nothing: views mark it
        if least < -ROUNDING or most > 1.0 + ROUNDING:
            entry.file.refuse("record_tensor_not_finite", tensor=shown(str(place.value)), place=place.path)
        _check_sizes(entry, *values.shape[1:])
        mask = entry.optional("mask", lambda one: _read_mask(one, *values.shape[2:]))
        return Weights(values, mask, _read_notes(entry))
    if kind == "inputs":
        return _read_inputs(entry)
    base = _read_inputs(entry.table("kind", "base", "interventions", "first_row").at("base"))
    changes = entry.optional("interventions", _named_interventions) or ()
    found = replace(base, interventions=changes, first_row=entry.optional("first_row", Field.count))
    try:
        check_positions(changes, found.n_heads, found.n_queries, found.n_keys)
        trying = [one for one in found.of_weights if one.action in ("force", "patch_weights")]
        for head in range(found.n_heads):
            if any(one.touches_head(head) for one in trying):
                found.weights(0, head, slice(0, found.n_queries), slice(0, 1))
    except HeedmapError as error:
        entry.file.refuse("record_intervention", place=f"{entry.path} ({shown(site)})", why=said(error))
    return found


def _read_inputs(entry: Field) -> AttentionInputs:
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


def _check_sizes(entry: Field, *found: int) -> None:
    """Refuse too many heads, queries or keys."""
    if any(size > limit for size, limit in zip(found, (MOST_HEADS, MOST_POSITIONS, MOST_POSITIONS), strict=True)):
        sizes = " x ".join(f"{size:,}" for size in found)
        entry.file.refuse("record_large", place=entry.path, found=sizes, heads=MOST_HEADS, positions=MOST_POSITIONS)


def _read_mask(entry: Field, n_queries: int, n_keys: int) -> Mask:
    entry.table("kind", "keys", "causal", "spreads", "visible", "width")
    kind = entry.at("kind").choice(("keys", "table", "window"))
    keys = entry.optional("keys", lambda one: one.tensor((1, n_keys), BOOL, None))
    plain = keys, entry.at("causal").yes(), entry.at("spreads").yes()
    if kind == "window":
        return WindowMask(*plain, width=entry.at("width").count())
    if kind == "table":
        return MaskTable(*plain, visible=entry.at("visible").tensor((1, 1, n_queries, n_keys), BOOL, None))
    return Mask(*plain)


def _read_bias(entry: Field, n_heads: int, n_queries: int, n_keys: int) -> Bias:
    diagonals = entry.table("diagonals", "n_queries", "values").at("diagonals")
    if entry.at("values").value is not None:
        values = entry.at("values").tensor((1, None, None, n_keys), check=below_infinity)
        _one_or_all(entry.at("values"), values.shape[1], n_heads)
        _one_or_all(entry.at("values"), values.shape[2], n_queries)
        return BiasTable(values)
    rows = entry.at("n_queries").count(MOST_POSITIONS, n_queries)
    found = diagonals.tensor((None, None), check=below_infinity)
    _one_or_all(diagonals, found.shape[0], n_heads)
    needed = rows - 1 + n_keys  # from the last query to the first key, and so on to the last key
    if found.shape[1] < needed:
        entry.file.refuse("record_distances", place=diagonals.path, found=found.shape[1], needed=needed)
    return RelativeBias(found, rows)


def _one_or_all(entry: Field, found: int, count: int) -> None:
    if found not in (1, count):
        entry.file.refuse("record_broadcast", place=entry.path, found=found, needed=count)


def _read_interventions(entry: Field) -> tuple[Intervention, ...]:
    """All interventions of a file, whose donors are named by their numbers."""
    entry.table("interventions", "donors")
    donors = entry.optional("donors", lambda one: [*map(_read_donor, one.items(MOST_PARTS))]) or []
    named, changes = {str(number): donor for number, donor in enumerate(donors)}, entry.at("interventions")
    texts = entry.optional("interventions", lambda one: [each.text() for each in one.items(MOST_PARTS)]) or []
    try:
        return tuple(read_intervention(text, named) for text in texts)
    except InputError as error:
        entry.file.refuse("record_intervention", place=changes.path, why=said(error))


def _read_donor(entry: Field) -> Donor:
    weights = entry.table("name", "weights").at("weights")
    if not isinstance(weights.value, dict):
        weights.table()
    found = {}
    for site, given in weights.value.items():
        place = f"{weights.path}[{shown(site)}]"
        found[Site(site)] = Field(given, place, entry.file).tensor((1, None, None, None))
    return Donor(entry.at("name").said(), found, {})


def _named_interventions(entry: Field) -> tuple[Intervention, ...]:
    """The interventions that a list of numbers names; what all maps name together is bounded."""
    every = entry.file.interventions
    found = tuple(every[number] for number in entry.counts(len(every) - 1, MOST_PARTS))
    numbers = [part for one in found for part in (one.heads, one.queries, one.keys, one.value)]
    entry.file.positions_left -= len(found) + sum(len(part) for part in numbers if isinstance(part, tuple))
    if entry.file.positions_left < 0:
        entry.file.refuse("record_interventions_large", most=MOST_CHANGED_POSITIONS)
    return found
