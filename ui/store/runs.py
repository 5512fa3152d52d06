"""Runs of checkpoints that pages share: each runs once, whatever is looked at.

Keys are plain values (the checkpoint's revision, text, options); values are shared, so they are read-only.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import streamlit as st
import torch

from heedmap import Attribution, Checkpoint, DecodingOptions, Translation, follow, intervening, translate
from heedmap.attention.interventions.value import from_text
from heedmap.checkpoint.checkpoint import device_here
from heedmap.explain.attribution.deletion import Deciding
from heedmap.explain.attribution.methods import METHODS
from heedmap.runs.any_model import ModelRun, pace, read, run_any
from heedmap.runs.attribution import cost
from heedmap.runs.attribution import deciding as deciding_words
from heedmap.runs.continuing import Continuation, ContinueOptions, Gap, continue_text, fill
from heedmap.runs.pace import MEGABYTE, Cost, refuse_large
from ui.store import limits, store
from ui.store.cache import MODELS, cached
from ui.store.progress import Label, name_of, paced, with_progress
from ui.store.refs import Revision
from ui.store.store import of_checkpoint
from ui.texts import as_text, plain, said, t

SLOW = 2.0
"""Seconds from which on a method tells beforehand what it costs."""

WORTH_A_BAR, WORTH_ASKING = 1.0, 30.0
"""Seconds from which a run of a long text tells what it will take, and from which it waits for its button."""

ASKED = "asked-for-work"
"""Where the session keeps what its user has asked for although it takes long."""

QUICK = 10**8
"""Tokens times parameters up to which writing on is not worth a bar: well under a second."""


@of_checkpoint(spinner="store.translating")
def translation(revision: Revision, text: str, options: DecodingOptions, forced: str | None) -> Translation:
    """A sentence's run."""
    return translate(store.load(revision), text, options, forced)


def hypothesis(
    of: str | Revision, text: str, options: DecodingOptions, forced: str | None, node: int | None
) -> Translation:
    """The same, with another hypothesis of its beam than the best one where a node of the tree is given."""
    best = translation(of, text, options, forced)
    return best if node is None or node == best.node else _another(of, text, options, node)


@of_checkpoint(spinner="store.following")
def _another(revision: Revision, text: str, options: DecodingOptions, node: int) -> Translation:
    return follow(store.load(revision), translation(revision, text, options, None), node)


@of_checkpoint()
def hypothesis_texts(revision: Revision, text: str, options: DecodingOptions) -> dict[int, str]:
    """What every hypothesis of a sentence's beam has written, by its number in the tree."""
    tokenizer, tree = store.load(revision).writer, translation(revision, text, options, None).tree
    if tokenizer is None or tree is None:
        return {}
    return {node.id: tokenizer.decode(tree.path(node.id)) for node in tree.nodes[1:]}


@of_checkpoint()
def deciding(revision: Revision, text: str, options: DecodingOptions, forced: str | None, node: int | None) -> Deciding:
    """Which source word decides each written one of a hypothesis (None: the best one), by deletion."""
    return deciding_words(store.load(revision), hypothesis(revision, text, options, forced, node))


def attribution(
    name: str, text: str, options: DecodingOptions, forced: str | None, node: int | None, method: str
) -> Attribution | None:
    """Where the words of a hypothesis (None: the best one) came from, as one method answers it, in whole words.

    What it costs is told before, with a bar and a button that stops it; None once it was stopped.

    Raises:
        AttributionError: the method is not defined for this checkpoint.
    """
    revision = store.revision(name)
    key = (revision, text, options, forced, node, method)
    shown, checkpoint = hypothesis(name, text, options, forced, node), store.checkpoint(name)
    what = said(METHODS[method].title)

    def begin() -> Label | None:
        known = cost(checkpoint, shown, method)
        if known is None or known.seconds < SLOW:
            return None
        fields = {"what": what, "passes": known.passes}
        return paced(known.seconds, lambda seconds: plain("store.attributing_costs", seconds=seconds, **fields))

    def compute(progress: Callable[[float], None]) -> Attribution:
        return shown.attribution(checkpoint, method, words=True, progress=progress)

    return with_progress("attribution", key, what, compute, label=plain("store.attributing"), begin=begin)


@of_checkpoint(spinner="store.running")
def any_run(revision: Revision, text: str, options: DecodingOptions, forced: str | None) -> ModelRun:
    """What a checkpoint of any kind did with a text."""
    return run_any(store.load(revision), text, options, forced)


def long_run_of_any(name: str, text: str) -> ModelRun | None:
    """The same of a long text, for a model that reads one: what it takes is said before, and a button stops it.

    What takes very long waits until its button is pressed, once a session. None until then, and while it is stopped.

    Raises:
        InputError: it cannot be read, or would take more memory than a run is given.
    """
    revision, most = store.revision(name), limits.run_bytes()
    checkpoint, key = for_long_runs(revision), (revision, text)
    ids, _ = read(checkpoint, text, None)
    what, button = plain("your_model.long_tokens", count=len(ids)), name_of("long_any_run", key)

    def cost() -> Cost:
        found = pace(checkpoint, ids)
        refuse_large(found, len(ids), most)
        return found.cost(len(ids))

    def costs(seconds: float, n_bytes: int) -> str:  # to two digits
        numbers = {"seconds": seconds, "megabytes": n_bytes / MEGABYTE}
        fields = {name: float(f"{max(number, 1.0):.2g}") for name, number in numbers.items()}
        return plain("store.run_costs", what=what, **fields)

    def begin() -> Label | None:
        found = cost()
        return paced(found.seconds, partial(costs, n_bytes=found.n_bytes)) if found.seconds >= WORTH_A_BAR else None

    def compute(progress: Callable[[float], None]) -> ModelRun:
        return run_any(checkpoint, text, progress=progress, most_bytes=most)

    asked = st.session_state.setdefault(ASKED, set())
    if button not in asked and (found := cost()).seconds > WORTH_ASKING:
        st.info(as_text(costs(found.seconds, found.n_bytes)), icon=":material/hourglass_top:")
        st.button(t("store.run_it"), key=f"ask-{button}", on_click=asked.add, args=(button,))
        return None
    return with_progress("long_any_run", key, what, compute, label=plain("store.running"), begin=begin)


def continuation(name: str, text: str, options: ContinueOptions, changes: str = "") -> Continuation:
    """What a decoder alone writes after a text; a bar tells how far it is, and a button stops it.

    `changes` are interventions in their short form. Stopped, it is the text alone with what could come next.

    Raises:
        InputError: the text cannot be read, or leaves no room; or a change does not fit.
        CheckpointError: the checkpoint does not score what comes next, or its attention cannot be changed.
    """
    revision = store.revision(name)
    what = plain("store.continuing")

    def begin() -> Label | None:
        if options.n_tokens * store.load(revision).n_parameters < QUICK:
            return None
        return lambda done: plain("store.continuing_done", count=round(done * options.n_tokens), most=options.n_tokens)

    def compute(progress: Callable[[float], None]) -> Continuation:
        with intervening(from_text(changes)):
            return continue_text(store.load(revision), text, options, progress)

    found = with_progress("continuation", (revision, text, options, changes), what, compute, begin=begin)
    return continuation(name, text, replace(options, n_tokens=0), changes) if found is None else found


@of_checkpoint(spinner="store.running")
def gaps(revision: Revision, text: str) -> tuple[Gap, ...]:
    """What an encoder that fills words in would put where a text hides them."""
    return fill(store.load(revision), text)


def for_long_runs(revision: Revision) -> Checkpoint:
    """The checkpoint of a revision where long runs are computed: on a GPU, or in the precision that is set.

    Short runs stay on the CPU in the precision of the files, so that all numbers of a page are of one model. A model of
    another library stays as it is.

    Raises:
        CheckpointError: it cannot be loaded, or what is set is not here.
    """
    device, dtype = limits.placement()
    place = device_here(device)
    found = store.load(revision)
    if found.is_of_other_library or (place.type == "cpu" and dtype == limits.DTYPES[0]):
        return found
    return _placed(revision, str(place), dtype)


@cached(spinner="store.loading", budget=MODELS)
def _placed(revision: Revision, device: str, dtype: str) -> Checkpoint:
    found = store.load(revision)
    precision = None if dtype == limits.DTYPES[0] else getattr(torch, dtype)
    return replace(found, model=copy.deepcopy(found.model)).placed(device, precision)
