"""Changed runs that the page shows: each is computed once, by its checkpoint, sentence, options and interventions."""

import numpy as np
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from transformer import DecodingOptions, Translation
from transformer.interventions.text import from_text
from transformer.runs.what_if import SameTarget, decoded_again, head_sweep, same_target, source_sweep
from transformer.sites import Site
from ui.store import runs, store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import t

Asked = tuple[str, DecodingOptions, str | None]
"""A sentence, how to search, and perhaps a target to force."""


def on_same_target(name: str, asked: Asked, changes: str) -> SameTarget:
    """The unchanged model's target, read under interventions, which are given in their short form."""
    return _same_target(store.revision(name), asked, changes)


def again(name: str, asked: Asked, changes: str) -> Translation:
    """What the model writes under interventions; an address without a target to force asks for it."""
    return _again(store.revision(name), asked, changes)


def heads_swept(name: str, asked: Asked, action: str) -> dict[Site, Float[np.ndarray, " head"]]:
    """Every head off, one at a time: the change of log p of the sentence."""
    return _heads_swept(store.revision(name), asked, action)


def source_swept(name: str, asked: Asked) -> Float[np.ndarray, "source_word step"]:
    """Every source word for nobody, one at a time: the change of log p of each token."""
    return _source_swept(store.revision(name), asked)


@cached(max_entries=128)
def _same_target(revision: Revision, asked: Asked, changes: str) -> SameTarget:
    return same_target(store.load(revision), _before(revision, asked), from_text(changes))


@cached(max_entries=128)
def _again(revision: Revision, asked: Asked, changes: str) -> Translation:
    text, options, _ = asked
    return decoded_again(store.load(revision), text, options, from_text(changes))


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
