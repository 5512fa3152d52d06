"""Changed runs that the page shows: each is computed once, by its checkpoint, sentence, options and interventions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from transformer import ContinueOptions, DecodingOptions, Translation, intervening
from transformer.attention.interventions.text import from_text, to_text
from transformer.attention.interventions.value import Donor
from transformer.runs.any_model import ModelRun
from transformer.runs.continuing import reread
from transformer.runs.donors import LogOdds, donor_of, log_odds
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, Classification, classify
from transformer.runs.what_if import SameTarget, decoded_again, head_sweep, read_under, same_target, source_sweep
from ui.shared.changes import DONOR, STAND_IN, Changes
from ui.store import runs, store
from ui.store.cache import cached, cached_result, in_session
from ui.store.refs import Revision
from ui.store.sliced import SlicedWork

Asked = tuple[str, DecodingOptions, str | None]
"""A sentence, how to search, and perhaps a target to force."""

Done = tuple[str, str]
"""Interventions in their short form, and the donor's sentence where one of them takes from a donor, else nothing."""

NOTHING: Done = ("", "")


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


def done_by(changes: Changes, donor: str) -> Done:
    """What is done, as a plain value."""
    return to_text(changes), donor if any(one.value is STAND_IN for one in changes) else ""


def on_same_target(name: str, asked: Asked, done: Done) -> SameTarget:
    """The unchanged model's target, read under interventions."""
    return _same_target(store.revision(name), asked, done)


def again(name: str, asked: Asked, done: Done) -> Translation:
    """What the model writes under interventions; an address without a target to force asks for it."""
    return _again(store.revision(name), asked, done)


def odds(name: str, asked: Asked, done: Done, donor: str) -> LogOdds | None:
    """The donor's word against this sentence's, where their targets part."""
    return _odds(store.revision(name), asked, done, donor)


def classified(name: str, text: str, changes: str) -> Classification:
    """What a classifier makes of a sequence under interventions."""
    return _classified(store.revision(name), text, changes)


def continued(name: str, text: str, options: ContinueOptions, changes: str) -> ModelRun:
    """What a decoder alone makes, under interventions, of a text and all that it writes after it without them."""
    found = runs.continuation(name, text, options)
    if not changes:
        return found.run
    revision = store.revision(name)

    def compute() -> ModelRun:
        with intervening(from_text(changes)):
            return reread(store.load(revision), found)

    return cached_result("what-if-continued", (revision, text, options, found.written, changes), compute)


def read(name: str, text: str, changes: str) -> ModelRun:
    """What a model that reads one text makes of it under interventions."""
    return _read(store.revision(name), text, changes)


@cached()
def _read(revision: Revision, text: str, changes: str) -> ModelRun:
    return read_under(store.load(revision), text, from_text(changes))


@cached()
def _classified(revision: Revision, text: str, changes: str) -> Classification:
    checkpoint = store.load(revision)
    with intervening(from_text(changes)):
        return classify(checkpoint, text, LETTERS_AT_ONCE)


@cached()
def _same_target(revision: Revision, asked: Asked, done: Done) -> SameTarget:
    return same_target(store.load(revision), _before(revision, asked), _interventions(revision, asked, done))


@cached()
def _again(revision: Revision, asked: Asked, done: Done) -> Translation:
    text, options, _ = asked
    return decoded_again(store.load(revision), text, options, _interventions(revision, asked, done))


@cached()
def _odds(revision: Revision, asked: Asked, done: Done, donor: str) -> LogOdds | None:
    other = _before(revision, (donor, asked[1], None))
    found = _interventions(revision, asked, done)
    return log_odds(store.load(revision), _before(revision, asked), other, found)


def _interventions(revision: Revision, asked: Asked, done: Done) -> Changes:
    text, donor = done
    return from_text(text, {DONOR: _donor(revision, (donor, asked[1], None))} if donor else {})


@cached()
def _donor(revision: Revision, asked: Asked) -> Donor:
    return donor_of(store.load(revision), _before(revision, asked), DONOR)


def sweep(name: str, asked: Asked, what: str) -> Sweep:
    """A sweep of this session, as far as it is: `source` takes every source word away, else `what` is done to heads."""
    revision = store.revision(name)

    def begun() -> Sweep:
        checkpoint, before = store.load(revision), _before(revision, asked)
        if what == "source":
            return Sweep.of(source_sweep(checkpoint, before), len(before.axes.source.membership))
        heads = head_sweep(checkpoint, before, what)
        return Sweep.of((change for _, _, change in heads), sum(one.n_heads for one in before.record.values()))

    return in_session("what-if-sweep", (revision, asked, what), begun, entries=8, pinned=True)


def _before(revision: Revision, asked: Asked) -> Translation:
    return runs.translation(str(revision.ref), *asked)
