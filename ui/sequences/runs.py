"""What the Sequences page remembers: runs, effects of letters, sets. Keys are plain values."""

from collections.abc import Callable

import numpy as np
import streamlit as st
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.sequences.attribution import Mutations, mutations
from transformer.runs.sequences.classify import Classification, classifier, classify
from transformer.sequences.fasta import fasta_of, label_of
from transformer.sequences.task import SequenceTask
from ui.store import store
from ui.store.cache import cached, cached_result
from ui.store.progress import with_progress
from ui.store.refs import Revision
from ui.texts import plain, t

LONGEST = 1_024
"""Longest sequence that the page reads as one: whatever the model, its record then fits into what a run may take."""

EXAMPLE_SET = "examples.fa"
"""The file of a checkpoint that holds sequences of every class."""

RUN = "sequence_run"
"""What runs are called among the kept results."""


def classification(name: str, text: str, places: range | None = None) -> Classification:
    """A sequence's run; it runs once, whatever is looked at. `places` are its letters in a longer one.

    Raises:
        InputError: the sequence cannot be read, or is too long to be read as one.
    """
    revision = store.revision(name)

    def compute() -> Classification:
        with st.spinner(t("sequences.reading"), show_time=True):
            return classify(store.load(revision), text, LONGEST, places)

    return cached_result(RUN, (revision, text, places and (places.start, places.step)), compute)


def thumbnails(run: Classification, sites: tuple[str, ...], size: int) -> Float[np.ndarray, "layer head row column"]:
    """Block maxima of every head of some sites, at most `size` to a side; computed once a run.

    A site of fewer queries than windows, which is the pooling, has each of them over several rows.
    """

    def compute() -> Float[np.ndarray, "layer head row column"]:
        maps = [run.record[site] for site in sites]
        small = [np.array([one.overview(head, size) for head in range(one.n_heads)]) for one in maps]
        rows = max(one.shape[1] for one in small)
        return np.array([one[:, np.arange(rows) * one.shape[1] // rows] for one in small])

    return cached_result("thumbnails", (*key_of(run), sites, size), compute)


def received_by_windows(run: Classification, site: str) -> Float[np.ndarray, "head window"]:
    """What each window receives from each head of a site; computed once a run."""
    one = run.record[site]
    return cached_result(
        "received", (*key_of(run), site), lambda: np.array([one.received(head) for head in range(one.n_heads)])
    )


def other_strand(name: str, task: SequenceTask, run: Classification) -> Classification | None:
    """The run of the other strand; None where there is none."""
    alphabet = task.alphabet
    return classification(name, alphabet.reverse_complement(run.letters.text)) if alphabet.complement else None


def key_of(run: Classification) -> tuple[Revision, str, int, int]:
    """What tells this run from all others, in plain values."""
    return store.revision(run.checkpoint), run.letters.text, run.places.start, run.places.step


def effects(name: str, run: Classification, target: int) -> Mutations | None:
    """What every letter did for a class; the first time with a bar and a button that stops it, then None."""
    checkpoint = store.checkpoint(name)

    def compute(progress: Callable[[float], None]) -> Mutations:
        return mutations(checkpoint, run.letters, target, progress)

    key = (store.revision(name), run.letters.text, target)
    label = plain("sequences.changing")
    return with_progress("effects", key, plain("sequences.effects"), label, lambda: lambda _: label, compute)


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
