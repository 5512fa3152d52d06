"""Interventions in a record file: each is written once, with its donor's weights where the picture needs them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from transformer.attention.changed import ChangedAttentionInputs, SoftmaxInputs
from transformer.attention.interventions.edits import check_positions
from transformer.attention.interventions.text import MOST_PARTS, read, written
from transformer.attention.interventions.value import Donor, Intervention
from transformer.attention.record_files.contents import MOST_CHANGED_POSITIONS
from transformer.attention.record_files.entries import Entry
from transformer.attention.record_files.softmaxes import (
    read_inputs,
    read_weights,
    written_inputs,
    written_weights,
)
from transformer.attention.record_files.tensors import Stored, read_tensor
from transformer.attention.softmax_inputs import Weights
from transformer.errors import HeedmapError, InputError
from transformer.safe.refusal import said, shown
from transformer.sites import Site

KINDS = ("inputs", "weights", "changed")


class WrittenChanges:
    """The interventions of a record as they are written, and their donors: of these, weights that maps are made of."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._places: dict[Intervention, int] = {}
        self._donors: dict[int, tuple[Donor, dict[str, Any]]] = {}

    def places(self, interventions: Iterable[Intervention]) -> list[int]:
        """Where in the list of all interventions these stand."""
        return [self._places.setdefault(one, len(self._places)) for one in interventions]

    def source(self, source: SoftmaxInputs, batch: int, name: str) -> dict[str, Any]:
        """What is kept of one attention, as JSON."""
        if isinstance(source, Weights):
            return written_weights(source, batch, name, self._stored)
        base = written_inputs(source, batch, name, self._stored)
        if not isinstance(source, ChangedAttentionInputs):
            return base
        for one in source.interventions:
            if one.action == "patch_weights":
                self._keep_weights(one, batch)
        places = self.places(source.interventions)
        first = {} if source.first_row is None else {"first_row": source.first_row}
        return {"kind": "changed", "base": base, "interventions": places, **first}

    def table(self) -> dict[str, Any]:
        """All interventions, and donors by the names that they have in them."""
        every = []
        for one in self._places:
            value = one.value
            if isinstance(value, Donor):
                self._donors.setdefault(id(value), (value, {}))
                value = replace(value, name=str(list(self._donors).index(id(value))))
            every.append(written(replace(one, value=value)))
        donors = [{"name": donor.name, "weights": weights} for donor, weights in self._donors.values()]
        return {"interventions": every, "donors": donors}

    def _keep_weights(self, one: Intervention, batch: int) -> None:
        donor: Donor = one.value
        _, kept = self._donors.setdefault(id(donor), (donor, {}))
        weights = donor.weights.get(one.place)
        if weights is not None:
            mine = weights[batch : batch + 1] if len(weights) > 1 else weights
            number = list(self._donors).index(id(donor))
            kept[str(one.place)] = self._stored.put(f"donors.{number}.{one.place}.weights", mine)


class ReadChanges:
    """The interventions of a file, and how many numbers of theirs the maps may still name."""

    def __init__(self, entry: Entry) -> None:
        entry.table("interventions", "donors")
        donors = {} if entry.at("donors").is_missing else dict(enumerate(entry.at("donors").items(MOST_PARTS)))
        named = {str(number): _donor(donor) for number, donor in donors.items()}
        self._left = MOST_CHANGED_POSITIONS
        self._every: tuple[Intervention, ...] = ()
        changes = entry.at("interventions")
        if not changes.is_missing:
            parts = [one.text() for one in changes.items(MOST_PARTS)]
            try:
                self._every = tuple(read(part, named) for part in parts)
            except InputError as error:
                changes.file.refuse("record_intervention", place=changes.place, why=said(error))

    def at(self, entry: Entry) -> tuple[Intervention, ...]:
        """Those that a list of numbers names."""
        if entry.is_missing:
            return ()
        found = tuple(self._every[place] for place in entry.counts(len(self._every) - 1, MOST_PARTS))
        self._left -= sum(map(_numbers, found))
        if self._left < 0:
            entry.file.refuse("record_interventions_large", most=MOST_CHANGED_POSITIONS)
        return found

    def source(self, entry: Entry, site: Site) -> SoftmaxInputs:
        """What is kept of one attention.

        Raises:
            CheckpointError: it does not fit together.
        """
        if isinstance(entry.value, dict) and entry.at("kind").choice(KINDS) == "weights":
            return read_weights(entry)
        if isinstance(entry.value, dict) and entry.at("kind").value == "inputs":
            return read_inputs(entry)
        entry.table("kind", "base", "interventions", "first_row")
        first = entry.at("first_row")
        found = ChangedAttentionInputs.of(
            read_inputs(entry.at("base")),
            self.at(entry.at("interventions")),
            None if first.is_missing else first.count(),
        )
        self._check(found, entry, site)
        return found

    def _check(self, source: ChangedAttentionInputs, entry: Entry, site: Site) -> None:
        """Try what may refuse to be shown: rows of a donor, and rows that are forced."""
        try:
            check_positions(source.interventions, source.n_heads, source.n_queries, source.n_keys)
            trying = [one for one in source.of_weights if one.action in ("force", "patch_weights")]
            for head in range(source.n_heads):
                if any(one.touches_head(head) for one in trying):
                    source.weights(0, head, slice(0, source.n_queries), slice(0, 1))
        except HeedmapError as error:
            entry.file.refuse("record_intervention", place=f"{entry.place} ({shown(str(site))})", why=said(error))


def _donor(entry: Entry) -> Donor:
    entry.table("name", "weights")
    weights = entry.at("weights")
    if not isinstance(weights.value, dict):
        weights.table()
    found = {}
    for site, given in weights.value.items():
        place = f"{weights.place}[{shown(site)}]"
        found[Site(site)] = read_tensor(Entry(given, place, entry.file), (1, None, None, None))
    return Donor(entry.at("name").said(), found, {})


def _numbers(one: Intervention) -> int:
    parts = (one.heads, one.queries, one.keys, one.value)
    return 1 + sum(len(part) for part in parts if isinstance(part, tuple))
