"""What the Sequences page remembers: runs, effects of letters, sets. Keys are plain values."""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np
import streamlit as st
from jaxtyping import Float

from transformer.attention.measures import rank_correlation
from transformer.attention.record import AttentionMap
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.class_reasons import Reasons
from transformer.runs.concurrency import forward_slot, letting_others
from transformer.runs.pace import SHORT, Cost
from transformer.runs.sequences.attribution import Mutations, integrated_gradients, mutations
from transformer.runs.sequences.classify import Classification, classifier, classify, pace, read
from transformer.sequences.fasta import fasta_of, label_of
from transformer.sequences.folding import folded, received
from transformer.sequences.task import SequenceTask
from transformer.sites import Site
from ui.store import settings, store
from ui.store.cache import cached, cached_result
from ui.store.progress import long_run, with_progress
from ui.store.refs import Revision
from ui.store.runs import for_long_runs
from ui.texts import plain, t

LONG_STRAND = 4_096
"""Windows up to which the other strand is read as well: it takes less than a second."""

EXAMPLE_SET = "examples.fa"
"""The file of a checkpoint that holds sequences of every class."""

RUN = "sequence_run"
"""What runs are called among the kept results."""

Value = TypeVar("Value")


def classification(name: str, text: str) -> Classification | None:
    """A sequence's run; it runs once, whatever is looked at.

    Of a long one is said beforehand what it takes, and a button stops it; then None, as while it waits to be asked for.

    Raises:
        InputError: the sequence cannot be read, or would take more memory than a run is given.
    """
    revision, most = store.revision(name), settings.run_bytes(os.environ)
    if len(text) <= SHORT:
        return cached_result(RUN, (revision, text), lambda: _classified(revision, text))
    checkpoint = for_long_runs(revision)
    letters = read(checkpoint, text, most_bytes=most)

    def compute(progress: Callable[[float], None]) -> Classification:
        return classify(checkpoint, text, progress=progress, most_bytes=most)

    def cost() -> Cost:
        return pace(checkpoint, letters).cost(len(letters)) if len(letters) > SHORT else Cost(0.0, 0, 0)

    what = plain("sequences.letters_run", count=len(letters))
    return long_run(RUN, (revision, text), what, plain("sequences.reading"), cost, compute)


def _classified(revision: Revision, text: str) -> Classification:
    with st.spinner(t("sequences.reading"), show_time=True):
        return classify(store.load(revision), text)


def thumbnails(
    run: Classification, sites: tuple[str, ...], size: int
) -> Float[np.ndarray, "layer head row column"] | None:
    """Block maxima of every head of some sites, at most `size` to a side; computed once a run, None once stopped.

    A site of fewer queries than windows, which is the pooling, has each of them over several rows.
    """
    maps = [run.record[site] for site in sites]

    def compute(progress: Callable[[float], None]) -> Float[np.ndarray, "layer head row column"]:
        small = _each_head(run, maps, lambda one, head: one.overview(head, size), progress)
        rows = max(one.shape[1] for one in small)
        return np.array([one[:, np.arange(rows) * one.shape[1] // rows] for one in small])

    return _looked_over("thumbnails", (*key_of(run), sites, size), run, plain("sequences.thumbnails"), compute)


def received_by_windows(run: Classification, site: str) -> Float[np.ndarray, "head window"] | None:
    """What each window receives from each head of a site; computed once a run, None once stopped."""

    def compute(progress: Callable[[float], None]) -> Float[np.ndarray, "head window"]:
        return _each_head(run, [run.record[site]], received, progress)[0]

    return _looked_over("received", (*key_of(run), site), run, plain("sequences.received"), compute)


def agreement_of_heads(run: Classification, target: int, changes: Mutations) -> dict[Site, list[float]] | None:
    """How far what letters receive from each head orders them as mutations do, by site; None once stopped.

    `changes` are those of the class `target`.
    """
    received_of = {site: received_by_windows(run, site) for site in run.record.sites}
    known = {site: heads for site, heads in received_of.items() if heads is not None}
    if len(known) < len(received_of):
        return None

    def agreement(heads: Float[np.ndarray, "head window"]) -> list[float]:
        tracks = [folded(one, run.spans, len(run.letters)) for one in heads]
        return [rank_correlation(one.relative, changes.effect) for one in tracks]

    def compute() -> dict[Site, list[float]]:
        return {site: agreement(heads) for site, heads in known.items()}

    return cached_result("agreement_of_heads", (*key_of(run), target), compute)


def _each_head(
    run: Classification,
    maps: Sequence[AttentionMap],
    look: Callable[[AttentionMap, int], np.ndarray],
    progress: Callable[[float], None],
) -> list[np.ndarray]:
    """What a look at each head of some maps found, a map after the other; others go first between two heads of long."""
    is_long, done, whole = len(run.spans) > SHORT, 0, sum(one.n_heads for one in maps)
    told, found = letting_others(progress), []
    with forward_slot() if is_long else nullcontext():
        for one in maps:
            heads = []
            for head in range(one.n_heads):
                told(done / whole)
                heads.append(look(one, head))
                done += 1
            found.append(np.array(heads))
    return found


def _looked_over(
    kind: str,
    key: tuple[Any, ...],
    run: Classification,
    what: str,
    compute: Callable[[Callable[[float], None]], Value],
) -> Value | None:
    """What every head is looked over for: quick, but with a bar and a button that stops it where windows are many."""
    if len(run.spans) <= SHORT:
        return cached_result(kind, key, lambda: compute(lambda _: None))
    return _with_progress(kind, key, what, what, compute)


def other_strand(name: str, task: SequenceTask, run: Classification) -> Classification | None:
    """The run of the other strand; None where there is none, or where it takes about as long again as a long one."""
    if not task.alphabet.complement or len(run.spans) > LONG_STRAND:
        return None
    return classification(name, task.alphabet.reverse_complement(run.letters.text))


def key_of(run: Classification) -> tuple[Revision, str]:
    """What tells this run from all others, in plain values."""
    return store.revision(run.checkpoint), run.letters.text


def effects(name: str, run: Classification, target: int) -> tuple[Mutations, Reasons] | None:
    """What every letter did for a class; the first time with a bar and a button that stops it, then None."""
    checkpoint = store.checkpoint(name)

    def compute(progress: Callable[[float], None]) -> tuple[Mutations, Reasons]:
        return (
            mutations(checkpoint, run.letters, target, lambda done: progress(0.8 * done)),
            integrated_gradients(checkpoint, run.letters, target, progress=lambda done: progress(0.8 + 0.2 * done)),
        )

    key = (store.revision(name), run.letters.text, target)
    return _with_progress("effects", key, plain("sequences.effects"), plain("sequences.changing"), compute)


@cached()
def examples_of(
    revision: Revision,  # noqa: ARG001  (part of the cache key)
    label: str,
    _checkpoint: Checkpoint,
) -> list[str]:
    """The sequences of a class, of the length that was trained on, which lie beside a checkpoint."""
    _, task = classifier(_checkpoint)
    records = fasta_of(shipped_file(_checkpoint, EXAMPLE_SET))
    return [
        one.sequence for one in records if label_of(one, task.classes) == label and len(one.sequence) == task.length
    ]


def shipped_file(checkpoint: Checkpoint, file: str) -> bytes:
    """A file that came with a checkpoint's weights; empty where it brought none of this name."""
    path = checkpoint.folder / file if checkpoint.folder else None
    return path.read_bytes() if path is not None and path.is_file() else b""


def _with_progress(
    kind: str, key: tuple[Any, ...], what: str, label: str, compute: Callable[[Callable[[float], None]], Value]
) -> Value | None:
    """Work that says the same from its start to its end."""
    return with_progress(kind, key, what, label, lambda: lambda _: label, compute)
