"""What the Sequences page remembers: runs, effects of letters, sets. Keys are plain values."""

import hashlib
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np
import streamlit as st
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.messages import Message
from transformer.pictures.picture import Picture
from transformer.runs.classify import Classification, classify
from transformer.runs.sequence_attribution import Gradients, Mutations, integrated_gradients, mutations, refuse_long
from transformer.runs.sequence_methods import DELETIONS, RELEVANCE, deletions, window_relevance, window_shares
from transformer.runs.sequence_sets import SequenceSet, read_set
from transformer.sequences.fasta import fasta_of
from transformer.sequences.folding import received
from transformer.sequences.window_pictures import window_picture
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.store.slow import with_progress
from ui.texts import plain, said, t

FILES = ["fa", "fasta", "fna", "fq", "fastq", "gb", "gbk", "genbank", "gz", "txt", "tsv", "csv"]
"""What files of sequences are called."""

EXAMPLE_SET = "examples.fa"
"""The file of a checkpoint that holds sequences of every class."""

Value = TypeVar("Value")


def classification(name: str, text: str) -> Classification:
    """A sequence's run; it runs once, whatever is looked at."""
    with st.spinner(t("sequences.reading"), show_time=True):
        return _classification(store.revision(name), text)


@cached()
def _classification(revision: Revision, text: str) -> Classification:
    return classify(store.load(revision), text)


def thumbnails(run: Classification, sites: tuple[str, ...], size: int) -> Float[np.ndarray, "layer head row column"]:
    """Block maxima of every head of some sites, at most `size` to a side; computed once a run.

    A site of fewer queries than windows, which is the pooling, has each of them over several rows.
    """
    return _thumbnails(*_of(run), sites, size, run)


@cached()
def _thumbnails(
    revision: Revision,  # noqa: ARG001  (part of the cache key, as is the text)
    text: str,  # noqa: ARG001
    sites: tuple[str, ...],
    size: int,
    _run: Classification,
) -> Float[np.ndarray, "layer head row column"]:
    maps = [_run.record[site] for site in sites]
    small = [np.array([one.overview(head, size) for head in range(one.n_heads)]) for one in maps]
    rows = max(one.shape[1] for one in small)
    return np.array([one[:, np.arange(rows) * one.shape[1] // rows] for one in small])


def received_by_windows(run: Classification, site: str) -> Float[np.ndarray, "head window"]:
    """What each window receives from each head of a site; computed once a run."""
    return _received(*_of(run), site, run)


@cached()
def _received(
    revision: Revision,  # noqa: ARG001  (part of the cache key, as is the text)
    text: str,  # noqa: ARG001
    site: str,
    _run: Classification,
) -> Float[np.ndarray, "head window"]:
    attention = _run.record[site]
    return np.array([received(attention, head) for head in range(attention.n_heads)])


def windows_of(run: Classification, site: str, head: int | Literal["mean"]) -> Picture:
    """One head over windows, or the mean of all; computed once a run."""
    return _windows(*_of(run), site, head, run)


@cached()
def _windows(
    revision: Revision,  # noqa: ARG001  (part of the cache key, as is the text)
    text: str,  # noqa: ARG001
    site: str,
    head: int | Literal["mean"],
    _run: Classification,
) -> Picture:
    return window_picture(_run.record[site], head)


def _of(run: Classification) -> tuple[Revision, str]:
    """What tells this run from all others, in plain values."""
    return store.revision(run.checkpoint), run.letters.text


def effects(name: str, run: Classification, target: int) -> tuple[Mutations, Gradients] | None:
    """What every letter did for a class; the first time with a bar and a button that stops it, then None."""
    checkpoint = store.checkpoint(name)

    def compute(progress: Callable[[float], None]) -> tuple[Mutations, Gradients]:
        return (
            mutations(checkpoint, run.letters, target, lambda done: progress(0.8 * done)),
            integrated_gradients(checkpoint, run.letters, target, progress=lambda done: progress(0.8 + 0.2 * done)),
        )

    key = (store.revision(name), run.letters.text, target)
    return _with_progress("effects", key, plain("sequences.effects"), plain("sequences.changing"), compute)


def method_name(method: str) -> Message:
    """What one of `DELETIONS`, `RELEVANCE` or `SHARES` is called."""
    return Message(f"sequence_method_{method}" if method in DELETIONS else f"attribution_{method}")


def method_track(name: str, run: Classification, method: str, target: int) -> Float[np.ndarray, " letter"] | None:
    """What a method of `method_name` says of each letter of the sequence that `run` read; None once it is stopped.

    Raises:
        InputError: the sequence is too long, or too short to be without a letter.
    """
    refuse_long(run.letters)
    checkpoint = store.checkpoint(name)

    def compute(progress: Callable[[float], None]) -> Float[np.ndarray, " letter"]:
        if method in DELETIONS:
            return deletions(checkpoint, run.letters, target, method, progress).lost
        if method == RELEVANCE:
            return window_relevance(checkpoint, run, target).relative
        return window_shares(checkpoint, run, method).relative

    key = (store.revision(name), run.letters.text, method, target if method in (*DELETIONS, RELEVANCE) else -1)
    return _with_progress("method_track", key, said(method_name(method)), plain("sequences.deleting"), compute)


def example_set(checkpoint: Checkpoint) -> bytes:
    """The checkpoint's own set as FASTA; empty where it brought none."""
    path = checkpoint.folder / EXAMPLE_SET if checkpoint.folder else None
    return path.read_bytes() if path is not None and path.is_file() else b""


def sequence_set(name: str, fasta: bytes) -> SequenceSet | None:
    """A set that was read; the first time with a bar and a button that stops it, then None."""
    key = (store.revision(name), hashlib.sha256(fasta).hexdigest())
    return _with_progress(
        "sequence_set",
        key,
        plain("sequences.set_read"),
        plain("sequences.set_reading"),
        lambda progress: read_set(store.checkpoint(name), fasta_of(fasta), progress),
    )


def _with_progress(
    kind: str, key: tuple[Any, ...], what: str, label: str, compute: Callable[[Callable[[float], None]], Value]
) -> Value | None:
    """Work that says the same from its start to its end."""
    return with_progress(kind, key, what, label, lambda: lambda _: label, compute)
