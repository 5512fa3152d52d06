"""Changed runs that the page shows: each is computed once, by its checkpoint, sentence, options and interventions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from heedmap import ContinueOptions, DecodingOptions, Translation, intervening, translate
from heedmap.attention.interventions.value import Donor, from_text, to_text
from heedmap.runs.any_model import ModelRun
from heedmap.runs.continuing import reread
from heedmap.runs.sequences.classify import LETTERS_AT_ONCE, Classification, classify
from heedmap.runs.what_if import (
    LogOdds,
    SameTarget,
    donor_odds,
    donor_of,
    head_sweep,
    read_under,
    same_target,
    source_sweep,
)
from ui.shared.address import parameter
from ui.shared.changes import DONOR, STAND_IN, Changes
from ui.store import runs, store
from ui.store.cache import cached, cached_result, in_session
from ui.store.progress import SlicedWork
from ui.store.refs import Revision

Asked = tuple[str, DecodingOptions, str | None]
"""A sentence, how to search, and perhaps a target to force."""

Done = tuple[str, str]
"""Interventions in their short form, and the donor's sentence where one of them takes from a donor, else nothing."""


@dataclass(kw_only=True)
class Sweep(SlicedWork):
    """A sweep on its way: what was found of `total`, in order."""

    found: list[Any]

    @classmethod
    def of(cls, effects: Iterator[Any], total: int) -> "Sweep":
        """A sweep of which nothing is found yet."""
        found: list[Any] = []

        def steps() -> Iterator[int]:
            for one in effects:
                found.append(one)
                yield 1

        return cls(steps=steps(), total=total, found=found)


def donor() -> str:
    """The second sentence, in the address; empty where there is none."""
    return (parameter(DONOR) or "").strip()


def done_by(changes: Changes) -> Done:
    """What is done, as a plain value."""
    return to_text(changes), donor() if any(one.value is STAND_IN for one in changes) else ""


@cached()
def on_same_target(revision: Revision, asked: Asked, done: Done) -> SameTarget:
    """The unchanged model's target, read under interventions."""
    return same_target(store.load(revision), before(revision, asked), _interventions(revision, asked, done))


@cached()
def again(revision: Revision, asked: Asked, done: Done) -> Translation:
    """What the model writes under interventions; an address without a target to force asks for it."""
    text, options, _ = asked
    with intervening(_interventions(revision, asked, done)):
        return translate(store.load(revision), text, options)


@cached()
def odds(revision: Revision, asked: Asked, done: Done, donor: str) -> LogOdds | None:
    """The donor's word against this sentence's, where their targets part."""
    other = before(revision, (donor, asked[1], None))
    return donor_odds(store.load(revision), before(revision, asked), other, _interventions(revision, asked, done))


@cached()
def classified(revision: Revision, text: str, changes: str) -> Classification:
    """What a classifier makes of a sequence under interventions."""
    checkpoint = store.load(revision)
    with intervening(from_text(changes)):
        return classify(checkpoint, text, LETTERS_AT_ONCE)


@cached()
def read(revision: Revision, text: str, changes: str) -> ModelRun:
    """What a model that reads one text makes of it under interventions."""
    return read_under(store.load(revision), text, from_text(changes))


def continued(revision: Revision, text: str, options: ContinueOptions, changes: str) -> ModelRun:
    """What a decoder alone makes, under interventions, of a text and all that it writes after it without them."""
    found = runs.continuation(str(revision.ref), text, options)
    if not changes:
        return found.run

    def compute() -> ModelRun:
        with intervening(from_text(changes)):
            return reread(store.load(revision), found)

    return cached_result("what-if-continued", (revision, text, options, found.written, changes), compute)


def before(revision: Revision, asked: Asked) -> Translation:
    """What the model writes as it is."""
    return runs.translation(str(revision.ref), *asked)


def _interventions(revision: Revision, asked: Asked, done: Done) -> Changes:
    text, donor = done
    return from_text(text, {DONOR: _donor(revision, (donor, asked[1], None))} if donor else {})


@cached()
def _donor(revision: Revision, asked: Asked) -> Donor:
    return donor_of(store.load(revision), before(revision, asked), DONOR)


def sweep(revision: Revision, asked: Asked, what: str) -> Sweep:
    """A sweep of this session, as far as it is: `source` takes every source word away, else `what` is done to heads."""

    def begun() -> Sweep:
        checkpoint, found = store.load(revision), before(revision, asked)
        if what == "source":
            return Sweep.of(source_sweep(checkpoint, found), len(found.axes.source.membership))
        heads = head_sweep(checkpoint, found, what)
        return Sweep.of((change for _, _, change in heads), sum(one.n_heads for one in found.record.values()))

    return in_session("what-if-sweep", (revision, asked, what), begun, entries=8, pinned=True)
