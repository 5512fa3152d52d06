"""Changed runs that the page shows: each is computed once, by its checkpoint, sentence, options and interventions."""

import numpy as np
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from transformer import DecodingOptions, Translation, intervening
from transformer.interventions.donors import Donor
from transformer.interventions.text import from_text, to_text
from transformer.runs.classify import Classification, classify
from transformer.runs.donors import LogOdds, donor_of, log_odds
from transformer.runs.what_if import SameTarget, decoded_again, head_sweep, same_target, source_sweep
from transformer.sites import Site
from ui.store import runs, store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import t
from ui.what_if.changes import DONOR, STAND_IN, Changes

Asked = tuple[str, DecodingOptions, str | None]
"""A sentence, how to search, and perhaps a target to force."""

Done = tuple[str, str]
"""Interventions in their short form, and the donor's sentence where one of them takes from a donor, else nothing."""

NOTHING: Done = ("", "")


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


def heads_swept(name: str, asked: Asked, action: str) -> dict[Site, Float[np.ndarray, " head"]]:
    """Every head off, one at a time: the change of log p of the sentence."""
    return _heads_swept(store.revision(name), asked, action)


def source_swept(name: str, asked: Asked) -> Float[np.ndarray, "source_word step"]:
    """Every source word for nobody, one at a time: the change of log p of each token."""
    return _source_swept(store.revision(name), asked)


def classified(name: str, text: str, changes: str) -> Classification:
    """What a classifier makes of a sequence under interventions."""
    return _classified(store.revision(name), text, changes)


@cached(max_entries=64)
def _classified(revision: Revision, text: str, changes: str) -> Classification:
    checkpoint = store.load(revision)
    with intervening(from_text(changes)):
        return classify(checkpoint, text)


@cached(max_entries=128)
def _same_target(revision: Revision, asked: Asked, done: Done) -> SameTarget:
    return same_target(store.load(revision), _before(revision, asked), _interventions(revision, asked, done))


@cached(max_entries=128)
def _again(revision: Revision, asked: Asked, done: Done) -> Translation:
    text, options, _ = asked
    return decoded_again(store.load(revision), text, options, _interventions(revision, asked, done))


@cached(max_entries=64)
def _odds(revision: Revision, asked: Asked, done: Done, donor: str) -> LogOdds | None:
    other = _before(revision, (donor, asked[1], None))
    found = _interventions(revision, asked, done)
    return log_odds(store.load(revision), _before(revision, asked), other, found)


def _interventions(revision: Revision, asked: Asked, done: Done) -> Changes:
    text, donor = done
    return from_text(text, {DONOR: _donor(revision, (donor, asked[1], None))} if donor else {})


@cached(max_entries=8)
def _donor(revision: Revision, asked: Asked) -> Donor:
    return donor_of(store.load(revision), _before(revision, asked), DONOR)


@cached(max_entries=64)
def _heads_swept(revision: Revision, asked: Asked, action: str) -> dict[Site, Float[np.ndarray, " head"]]:
    bar = st.progress(0.0, t("what_if.sweeping"))
    try:
        return head_sweep(store.load(revision), _before(revision, asked), action, lambda share: _shown(bar, share))
    finally:
        bar.empty()


@cached(max_entries=64)
def _source_swept(revision: Revision, asked: Asked) -> Float[np.ndarray, "source_word step"]:
    bar = st.progress(0.0, t("what_if.sweeping"))
    try:
        return source_sweep(store.load(revision), _before(revision, asked), lambda share: _shown(bar, share))
    finally:
        bar.empty()


def _shown(bar: DeltaGenerator, share: float) -> None:
    bar.progress(share)


def _before(revision: Revision, asked: Asked) -> Translation:
    return runs.translation(str(revision.ref), *asked)
