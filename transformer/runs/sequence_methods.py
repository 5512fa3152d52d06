"""What a classifier loses when a part of a sequence is not there, and where else its windows' states come from.

A letter lies in several windows (k-mers) at once, so there are several ways to be without it. `hidden`: every window
that holds the letter is hidden from every attention and from the pooling, and with it what those windows say of its
neighbours. `window`: one window is hidden at a time, its letters stay in the others; what it costs is shared evenly
among its letters. `unknown`: the unknown letter stands in its place, in every window. `removed`: the letter is taken
out, the rest moves up and all is read again. All in log-odds of a class (nats). Source: Zeiler and Fergus 2014,
section 4.2 (occlusion).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer.attribution.attention_gradients import attention_gradients
from transformer.attribution.deletion import Progress
from transformer.attribution.gradients import normalised_rows
from transformer.attribution.methods import READING_METHODS, attribute
from transformer.attribution.scored_sequence import Reading
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.layers.masks import Mask
from transformer.models.common import refuse_elsewhere
from transformer.models.kmer import KmerClassifier
from transformer.runs.classify import LETTERS_AT_ONCE, Classification, classifier
from transformer.runs.concurrency import forward_slot
from transformer.runs.sequence_attribution import log_odds, refuse_long
from transformer.sequences.alphabet import Letters
from transformer.sequences.folding import LetterTrack, folded

Without = Literal["hidden", "window", "unknown", "removed"]
"""How a part is not there; see above."""

DELETIONS: tuple[Without, ...] = ("hidden", "window", "unknown", "removed")

SHARES = tuple(method for method in READING_METHODS if method not in ("weights", "norms_residual"))
"""Methods that say what the windows' last states are made of, whose raw weights the page draws already."""

RELEVANCE = "gradients"
"""Gradient x attention: the one such method that asks about a class."""

POOLING = "pooling"


@dataclass(frozen=True, eq=False)
class Deleted:
    """Log-odds of a class (nats) that go with each letter: positive where the letter spoke for the class.

    NaN where nothing would be left to read; exactly 0 where an unknown letter would be replaced by itself.
    `of_windows` is what each window costs, where windows were hidden.
    """

    how: Without
    lost: Float[np.ndarray, " letter"]
    of_windows: Float[np.ndarray, " window"] | None = None


def deletions(
    checkpoint: Checkpoint, letters: Letters, target: int, how: Without = "hidden", progress: Progress | None = None
) -> Deleted:
    """Be without every part in turn, and see what the log-odds of class `target` lose. Costs one run a part.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`; or without a letter shorter than the widest window.
        CheckpointError: the checkpoint does not classify sequences.
    """
    model, task = classifier(checkpoint)
    refuse_elsewhere(model)
    refuse_long(letters)
    length, spans = len(letters), model.windows(len(letters))
    if how == "removed":
        model.windows(length - 1)  # refuses what would be too short
    ids = torch.tensor(letters.ids)
    holds = torch.tensor([[s.start <= i < s.start + s.width for s in spans] for i in range(length)])
    hidden = torch.eye(len(spans)).bool() if how == "window" else holds
    n_parts = len(spans) if how == "window" else length
    size, found = max(1, LETTERS_AT_ONCE // length), []
    with forward_slot():
        whole = log_odds(model(ids[None]).double(), task.temperature, target)
    for start in range(0, n_parts, size):
        parts = torch.arange(start, min(start + size, n_parts))
        with forward_slot():
            if how == "removed":
                logits = model(torch.stack([torch.cat([ids[:i], ids[i + 1 :]]) for i in parts.tolist()]))
            elif how == "unknown":
                changed = ids.repeat(len(parts), 1)
                changed[torch.arange(len(parts)), parts] = task.alphabet.unknown_id
                logits = model(changed)
            else:
                logits = _without_windows(model, ids, ~hidden[parts])
            found.append(whole - log_odds(logits.double(), task.temperature, target))
        if progress:
            progress(min(1.0, (start + size) / n_parts))
    lost = torch.cat(found).numpy()
    if how == "unknown":
        lost[ids.numpy() == task.alphabet.unknown_id] = 0.0  # replaced by itself: not what rounding left of it
    if how == "window":
        return Deleted(how, folded(lost, spans, length).total, lost)
    return Deleted(how, lost)


def window_shares(checkpoint: Checkpoint, run: Classification, method: str) -> LetterTrack:
    """Shares of the windows in what is pooled for the decision, as one of `SHARES` tells it, folded onto letters.

    What each window's last state is made of, weighed as the pooling weighs the windows: by its attention (mean of heads
    and queries), or evenly where it averages.

    Raises:
        AttributionError: no such method.
        CheckpointError: the checkpoint does not classify sequences.
    """
    model, _ = classifier(checkpoint)
    refuse_elsewhere(model)
    axis = run.record["encoder.0.self"].keys
    with forward_slot():
        answer = attribute(Reading(checkpoint.name, model, tuple(run.letters.ids), axis), run.record, method)
    return folded(_pooled(run) @ answer.values, run.spans, len(run.letters))


def raw_weights(run: Classification) -> LetterTrack:
    """How the pooling weighs the windows, folded onto letters: attention with no layer followed."""
    return folded(_pooled(run), run.spans, len(run.letters))


def _pooled(run: Classification) -> Float[np.ndarray, " window"]:
    """Weights of the pooling: of its attention the mean of heads and queries, or even ones where it averages."""
    if POOLING in run.record:
        return run.record[POOLING].head_average().astype(np.float64).mean(0)
    return np.full(len(run.spans), 1 / len(run.spans))


def window_relevance(checkpoint: Checkpoint, run: Classification, target: int) -> LetterTrack:
    """Gradient x attention for the log-odds of class `target`: shares of the windows' relevance, folded onto letters.

    The encoder's rule, R_ee += A' R_ee, read by the row of the pooling: A' of its attention (mean of queries), or the
    even weights of a mean, times N(R_ee). NaN where no weight speaks for the class. Source: Chefer et al. 2021, rules
    5, 6 and 10, in which the pooling stands for a decoder of one layer.

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
    """
    model, task = classifier(checkpoint)
    ids, n_windows = torch.tensor([run.letters.ids]), len(run.spans)
    with forward_slot():
        found = attention_gradients(checkpoint.name, model, lambda: log_odds(model(ids), task.temperature, target))
    pooled = torch.full((1, 1, n_windows), 1 / n_windows, dtype=torch.float64)
    for site in found:
        if site == POOLING:
            pooled = found[site][0].mean(1, keepdim=True)
    row = normalised_rows([found[site][0] for site in found if site != POOLING], pooled)[0, 0].numpy()
    whole = row.sum()
    return folded(row / whole if whole else np.full_like(row, np.nan), run.spans, len(run.letters))


def _without_windows(
    model: KmerClassifier, ids: Int[Tensor, " letter"], shown: Bool[Tensor, "part window"]
) -> Float[Tensor, "part classes"]:
    """Logits where attention and pooling see only some windows; NaN where there are none."""
    embedded, padding = model.embedding(ids[None]).expand(len(shown), -1, -1), model.mask(ids[None]).keys
    seen = shown if padding is None else shown & padding
    logits = model.decide(embedded, Mask(keys=seen))
    return logits.masked_fill(~seen.any(1, keepdim=True), torch.nan)
