"""Runs of checkpoints that pages share: each runs once, whatever is looked at.

Keys are plain values (the checkpoint's revision, text, options); values are shared, so they are read-only.
"""

import copy
import os
from collections.abc import Callable
from dataclasses import replace

import streamlit as st
import torch

from transformer import Attribution, Checkpoint, DecodingOptions, Translation, follow, intervening, translate
from transformer.attention.interventions.text import from_text
from transformer.checkpoint.checkpoint import OtherModel, device_here
from transformer.explain.attribution.deciding import Deciding
from transformer.explain.attribution.trust import Trust
from transformer.messages import Message
from transformer.runs.any_model import ModelRun, pace, read, run_any
from transformer.runs.attribution import cost, trusted
from transformer.runs.attribution import deciding as deciding_words
from transformer.runs.continuing import Continuation, ContinueOptions, continue_text
from transformer.runs.filling import Gap, fill
from transformer.runs.pace import Cost, refuse_large
from ui.store import settings, store
from ui.store.budget import MODELS
from ui.store.cache import cached, cached_result
from ui.store.progress import Told, costs, long_run, with_progress
from ui.store.refs import Revision
from ui.store.store import of_checkpoint
from ui.texts import plain, said, t

ATTRIBUTION = "attribution"
SLOW = 2.0
"""Seconds from which on a method tells beforehand what it costs."""

QUICK = 10**8
"""Tokens times parameters up to which writing on is not worth a bar: well under a second."""


@of_checkpoint(spinner="store.translating")
def translation(revision: Revision, text: str, options: DecodingOptions, forced: str | None) -> Translation:
    """A sentence's run."""
    return translate(store.load(revision), text, options, forced)


def hypothesis(name: str, text: str, options: DecodingOptions, best: Translation, node: int | None) -> Translation:
    """The same sentence with another hypothesis of its beam; `best` itself when `node` is its own or None."""
    if node is None or node == best.node:
        return best
    return _followed(name, text, options, node)


@of_checkpoint(spinner="store.following")
def _followed(revision: Revision, text: str, options: DecodingOptions, node: int) -> Translation:
    return follow(store.load(revision), translation(revision, text, options, None), node)


@of_checkpoint()
def hypothesis_texts(revision: Revision, text: str, options: DecodingOptions) -> dict[int, str]:
    """What every hypothesis of a sentence's beam has written, by its number in the tree."""
    tokenizer, tree = store.load(revision).writer, translation(revision, text, options, None).tree
    if tokenizer is None or tree is None:
        return {}
    return {node.id: tokenizer.decode(tree.path(node.id)) for node in tree.nodes[1:]}


def attribution(
    name: str, text: str, options: DecodingOptions, forced: str | None, node: int | None, method: str
) -> Attribution:
    """Where the words of a hypothesis (None: the best one) came from, as one method answers it, in whole words.

    Raises:
        AttributionError: the method is not defined for this checkpoint.
    """

    def compute() -> Attribution:
        with st.spinner(t("store.attributing")):
            return _shown(name, text, options, forced, node).attribution(store.checkpoint(name), method, words=True)

    return cached_result(ATTRIBUTION, (store.revision(name), text, options, forced, node, method), compute)


@of_checkpoint()
def deciding(revision: Revision, text: str, options: DecodingOptions, forced: str | None, node: int | None) -> Deciding:
    """Which source word decides each written one of a hypothesis (None: the best one), by deletion."""
    return deciding_words(store.load(revision), _shown(revision, text, options, forced, node))


def watched_attribution(
    name: str, text: str, options: DecodingOptions, forced: str | None, node: int | None, method: str
) -> Attribution | None:
    """The same, with what it costs told before, a bar, and a button that stops it; None once it was stopped.

    Raises:
        AttributionError: the method is not defined for this checkpoint.
    """
    revision = store.revision(name)
    key = (revision, text, options, forced, node, method)
    shown, checkpoint = _shown(name, text, options, forced, node), store.checkpoint(name)
    what = said(Message(f"attribution_{method}"))

    def begin() -> Told | None:
        known = cost(checkpoint, shown, method)
        return None if known is None or known.seconds < SLOW else costs(what, known.passes, known.seconds)

    def compute(progress: Callable[[float], None]) -> Attribution:
        return shown.attribution(checkpoint, method, words=True, progress=progress)

    return with_progress(ATTRIBUTION, key, what, plain("store.attributing"), begin, compute)


@of_checkpoint(spinner="store.trusting")
def trust(
    revision: Revision,
    text: str,
    options: DecodingOptions,
    forced: str | None,
    node: int | None,
    methods: tuple[str, ...],
) -> dict[str, Trust]:
    """How far methods can be trusted on one hypothesis, beside deletion, its reverse and chance."""
    shown = _shown(revision, text, options, forced, node)
    return trusted(store.load(revision), shown, {method: (method, None) for method in methods})


@of_checkpoint(spinner="store.running")
def any_run(revision: Revision, text: str, options: DecodingOptions, forced: str | None) -> ModelRun:
    """What a checkpoint of any kind did with a text."""
    return run_any(store.load(revision), text, options, forced)


def long_run_of_any(name: str, text: str) -> ModelRun | None:
    """The same of a long text, for a model that reads one: what it takes is said before, and a button stops it.

    None while it is stopped, or waits to be asked for.

    Raises:
        InputError: it cannot be read, or would take more memory than a run is given.
    """
    revision, most = store.revision(name), settings.run_bytes(os.environ)
    checkpoint = for_long_runs(revision)
    ids, _ = read(checkpoint, text, None)

    def compute(progress: Callable[[float], None]) -> ModelRun:
        return run_any(checkpoint, text, progress=progress, most_bytes=most)

    def seconds() -> Cost:
        found = pace(checkpoint, ids)
        refuse_large(found, len(ids), most)
        return found.cost(len(ids))

    what = plain("checkpoints.long_tokens", count=len(ids))
    return long_run("long_any_run", (revision, text), what, plain("store.running"), seconds, compute)


def continuation(name: str, text: str, options: ContinueOptions, changes: str = "") -> Continuation:
    """What a decoder alone writes after a text; a bar tells how far it is, and a button stops it.

    `changes` are interventions in their short form. Stopped, it is the text alone with what could come next.

    Raises:
        InputError: the text cannot be read, or leaves no room; or a change does not fit.
        CheckpointError: the checkpoint does not score what comes next, or its attention cannot be changed.
    """
    revision = store.revision(name)
    what = plain("store.continuing")

    def begin() -> Told | None:
        if options.n_tokens * store.load(revision).n_parameters < QUICK:
            return None
        return lambda done: plain("store.continuing_done", count=round(done * options.n_tokens), most=options.n_tokens)

    def compute(progress: Callable[[float], None]) -> Continuation:
        with intervening(from_text(changes)):
            return continue_text(store.load(revision), text, options, progress)

    found = with_progress("continuation", (revision, text, options, changes), what, what, begin, compute)
    return continuation(name, text, replace(options, n_tokens=0), changes) if found is None else found


@of_checkpoint(spinner="store.running")
def gaps(revision: Revision, text: str) -> tuple[Gap, ...]:
    """What an encoder that fills words in would put where a text hides them."""
    return fill(store.load(revision), text)


def _shown(
    of: str | Revision, text: str, options: DecodingOptions, forced: str | None, node: int | None
) -> Translation:
    best = translation(of, text, options, forced)
    return best if node is None or node == best.node else _followed(of, text, options, node)


def for_long_runs(revision: Revision) -> Checkpoint:
    """The checkpoint of a revision where long runs are computed: on a GPU, or in the precision that is set.

    Short runs stay on the CPU in the precision of the files, so that all numbers of a page are of one model. A model of
    another library stays as it is.

    Raises:
        CheckpointError: it cannot be loaded, or what is set is not here.
    """
    device, dtype = settings.placement(os.environ)
    place = device_here(device)
    found = store.load(revision)
    if isinstance(found.model, OtherModel) or (place.type == "cpu" and dtype == settings.DTYPES[0]):
        return found
    return _placed(revision, str(place), dtype)


@cached(spinner="store.loading", budget=MODELS)
def _placed(revision: Revision, device: str, dtype: str) -> Checkpoint:
    found = store.load(revision)
    precision = None if dtype == settings.DTYPES[0] else getattr(torch, dtype)
    return replace(found, model=copy.deepcopy(found.model)).placed(device, precision)
