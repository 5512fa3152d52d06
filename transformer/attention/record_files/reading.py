"""From an untrusted record file to a record. Sizes are checked before memory is taken."""

import os
from collections.abc import Mapping
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer.attention.record import AttentionMap, Record
from transformer.attention.record_files.axes import read_axis
from transformer.attention.record_files.changes import ReadChanges
from transformer.attention.record_files.contents import (
    KEY,
    MOST_COUNT_OF_AXES,
    MOST_SITE_CHARACTERS,
    MOST_SITES,
    VERSION,
)
from transformer.attention.record_files.entries import Entry, Opened
from transformer.attention.record_files.softmaxes import read_notes
from transformer.messages import Message
from transformer.plots.axes import Axis
from transformer.safe.blocks import Place, read_tensors
from transformer.safe.declared import is_count
from transformer.safe.headers import Header, check_header, looks_like_safetensors, parsed_table
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.reading import opened
from transformer.safe.refusal import refused, shown
from transformer.sites import Site


def read_path(path: Path) -> Record:
    """What the file of a record at `path` holds.

    Raises:
        CheckpointError: it cannot be opened; or as `read`.
    """
    with opened(path) as handle:
        return read(handle, path.name)


def read(handle: BufferedIOBase, source: str, limits: ReadLimits = DEFAULT_LIMITS) -> Record:
    """What the file of a record holds; `source` names it in messages.

    Raises:
        CheckpointError: it is too large, damaged, no record, of a newer version, or does not fit together.
    """
    size = handle.seek(0, os.SEEK_END)
    if size > limits.file_bytes:
        raise refused("file_large", source, Message("remedy_record_less"), found=size, most=limits.file_bytes)
    handle.seek(0)
    if not looks_like_safetensors(handle.read(64)):
        raise refused("record_other_kind", source, Message("remedy_save_record"))
    header = check_header(handle, size, source, limits)
    if KEY not in header.notes:
        raise refused("record_no_table", source, Message("remedy_save_record"))
    table = parsed_table(header.notes[KEY].encode(errors="replace"), source, limits)
    _check_version(table, source)
    places = _checked_places(table.pop("checksums", {}), header, source)
    return read_table(table, read_tensors(handle, header.tensors, places, source), source)


def read_table(table: Any, tensors: Mapping[str, Tensor], source: str) -> Record:
    """The contents that a table describes, made of the tensors that it names.

    Raises:
        CheckpointError: they do not fit together, or there are tensors that it does not name.
    """
    file = Opened(source, tensors)
    root = Entry(table, KEY, file).table("version", "model", "text", "axes", "sites", "changes")
    axes = [read_axis(axis) for axis in root.at("axes").items(MOST_COUNT_OF_AXES)]
    changes = ReadChanges(root.at("changes"))
    maps = [_map(entry, axes, changes) for entry in root.at("sites").items(MOST_SITES)]
    sites = [one.site for one in maps]
    if len(set(sites)) < len(sites):
        twice = next(site for i, site in enumerate(sites) if site in sites[:i])
        file.refuse("record_site_twice", site=shown(str(twice)))
    unused = next((name for name in tensors if name not in file.used), None)
    if unused is not None:
        file.refuse("record_tensor_unused", tensor=shown(unused))
    return Record({one.site: one for one in maps}, root.at("model").said(), root.at("text").said())


def _check_version(table: dict[str, Any], source: str) -> None:
    version = table.get("version")
    if type(version) is int and VERSION < version < 10**6:
        raise refused("record_newer", source, Message("remedy_update"), found=version, most=VERSION)
    if type(version) is not int or version != VERSION:
        raise refused("record_no_version", source, Message("remedy_save_record"))


def _checked_places(checksums: Any, header: Header, source: str) -> dict[str, Place]:
    """Where the bytes of each tensor lie, with the checksum that they have to have."""
    if not isinstance(checksums, dict) or not all(map(is_count, checksums.values())):
        raise refused("record_no_checksums", source, Message("remedy_save_record"))
    return {name: replace(place, checksum=checksums.get(name, 0)) for name, place in header.places.items()}


def _map(entry: Entry, axes: list[Axis], changes: ReadChanges) -> AttentionMap:
    entry.table("site", "queries", "keys", "source", "interventions", "notes")
    name = entry.at("site").text()
    if not 0 < len(name) <= MOST_SITE_CHARACTERS or not name.isprintable():
        entry.at("site").wrong(Message("expected_site", most=MOST_SITE_CHARACTERS))
    site = Site(name)
    source = changes.source(entry.at("source"), site)
    sides = {}
    for side, count in (("queries", source.n_queries), ("keys", source.n_keys)):
        axis = axes[entry.at(side).count(len(axes) - 1)]
        if len(axis) > count:
            entry.file.refuse("record_axis_length", place=entry.at(side).place, found=len(axis), count=count)
        sides[side] = axis
    asked = changes.at(entry.at("interventions"))
    return AttentionMap(site, sides["queries"], sides["keys"], source, 0, asked, read_notes(entry))
