"""How much each letter matters for a class of a sequence classifier.

What the answer depends on, in log-odds of the class (nats): every other letter in the place of each (in-silico
mutagenesis), the unknown letter in the place of each (occlusion; Zeiler and Fergus 2014, section 4.2), and integrated
gradients from no letter in particular (Sundararajan et al. 2017). Beside them shares of attention, folded onto letters.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.attribution.attention_gradients import attention_gradients
from transformer.attribution.deletion import Progress
from transformer.attribution.gradients import normalised_rows
from transformer.attribution.methods import READING_METHODS, attribute
from transformer.attribution.path_integral import integral
from transformer.attribution.scored_sequence import Reading
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.layers.masks import Mask
from transformer.models.common import refuse_elsewhere
from transformer.runs.concurrency import forward_slot
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, Classification, classifier
from transformer.sequences.alphabet import Letters
from transformer.sequences.folding import LetterTrack, folded

MUTATIONS, UNKNOWN, GRADIENTS = "mutations", "unknown", "integrated_gradients"
"""Methods that ask what the log-odds of a class depend on; the first is what the others are compared with."""

RELEVANCE, WEIGHTS = "gradients", "weights"
"""Gradient x attention, which asks about a class; and the attention of the pooling alone."""

SHARES = tuple(method for method in READING_METHODS if method not in (WEIGHTS, "norms_residual"))
"""Methods that say what the windows' last states are made of."""

METHODS = (UNKNOWN, GRADIENTS, RELEVANCE, *SHARES, WEIGHTS)
"""Every method that is compared with mutations."""

MAX_MUTATED = 512
"""Longest sequence whose every letter is changed: three runs a letter."""

CLOSE, LEAST = 0.01, 0.1
"""The share of the difference by which the sum may miss it, and the nats that a smaller difference counts as."""

POOLING = "pooling"


@dataclass(frozen=True, eq=False)
class Mutations:
    """Change of a class's log-odds (nats) when one letter becomes another: row = new letter, column = position.

    The letter of the sequence itself has 0. Negative: the class becomes less likely.
    """

    letters: str
    sequence: str
    change: Float[np.ndarray, "letter position"]

    @property
    def effect(self) -> Float[np.ndarray, " position"]:
        """Mean size of the change at each position, over the other letters; never negative."""
        return np.abs(self.change).sum(axis=0) / self._others

    @property
    def lost(self) -> Float[np.ndarray, " position"]:
        """Mean loss at each position, over the other letters: positive where its letter speaks for the class."""
        return -self.change.sum(axis=0) / self._others

    @property
    def _others(self) -> list[int]:
        return [sum(letter != given for letter in self.letters) for given in self.sequence]


@dataclass(frozen=True, eq=False)
class Gradients:
    """Integrated gradients of a class's log-odds (nats): what each position adds, against no letter in particular.

    They sum to `difference`, the log-odds of the sequence less those of the baseline, up to `gap`, the error of
    adding up a finite number of `points`, which is small enough where it `converged`.
    """

    contribution: Float[np.ndarray, " position"]
    difference: float
    points: int
    converged: bool

    @property
    def gap(self) -> float:
        """How far the sum lies from where it must."""
        return float(abs(self.contribution.sum() - self.difference))


def log_odds(logits: Float[Tensor, "batch classes"], temperature: float, target: int) -> Float[Tensor, " batch"]:
    """log(p / (1 - p)) of the class `target`, calibrated; unlike p, it does not flatten out near 1."""
    scaled = logits / temperature
    others = torch.arange(logits.shape[1]) != target
    return scaled[:, target] - scaled[:, others].logsumexp(1)


def log_odds_of_rows(
    checkpoint: Checkpoint, rows: Int[Tensor, "row letter"], target: int, progress: Progress | None = None
) -> Float[Tensor, " row"]:
    """The log-odds (nats) of class `target` for sequences of one length, given as ids, in batches."""
    model, task = classifier(checkpoint)
    size, found = max(1, LETTERS_AT_ONCE // rows.shape[1]), []
    for some in rows.split(size):
        with forward_slot(), torch.no_grad():
            found.append(log_odds(model(some).double(), task.temperature, target))
        if progress:
            progress(min(1.0, len(found) * size / len(rows)))
    return torch.cat(found)


def mutations(checkpoint: Checkpoint, letters: Letters, target: int, progress: Progress | None = None) -> Mutations:
    """Put every letter at every position, one at a time, and see how the log-odds of class `target` change.

    Costs `len(letters) * (alphabet - 1)` sequences, in batches.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
    """
    _, task = classifier(checkpoint)
    refuse_long(checkpoint, letters)
    original = torch.tensor(letters.ids)
    n_letters, length = len(task.alphabet.letters), len(letters)
    position, letter = torch.meshgrid(torch.arange(length), torch.arange(n_letters), indexing="ij")
    differs = letter != original[:, None]
    positions, new = position[differs], letter[differs]
    mutants = original.repeat(len(positions), 1)
    mutants[torch.arange(len(mutants)), positions] = new
    before = log_odds_of_rows(checkpoint, original[None], target)
    change = torch.zeros(n_letters, length, dtype=torch.float64)
    change[new, positions] = log_odds_of_rows(checkpoint, mutants, target, progress) - before
    return Mutations(task.alphabet.letters, letters.text, change.numpy())


def unknown_letters(
    checkpoint: Checkpoint, letters: Letters, target: int, progress: Progress | None = None
) -> Float[np.ndarray, " letter"]:
    """Log-odds of class `target` (nats) that go where the unknown letter replaces each letter; exactly 0 for itself.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
    """
    _, task = classifier(checkpoint)
    refuse_long(checkpoint, letters)
    ids = torch.tensor(letters.ids)
    changed = ids.repeat(len(ids), 1).fill_diagonal_(task.alphabet.unknown_id)
    lost = log_odds_of_rows(checkpoint, ids[None], target) - log_odds_of_rows(checkpoint, changed, target, progress)
    lost[ids == task.alphabet.unknown_id] = 0.0  # not what rounding left of it
    found: np.ndarray = lost.numpy()
    return found


def integrated_gradients(
    checkpoint: Checkpoint, letters: Letters, target: int, points: int | None = None, progress: Progress | None = None
) -> Gradients:
    """Walk from the mean of all letters' embeddings, at every position, to the letters given, and add up gradients.

    At `points` points of the straight line; if None, at as many as bring the gap to at most `CLOSE` of the difference
    (`attribution.path_integral`).

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
        AttributionError: `points` is below 1.
    """
    model, task = classifier(checkpoint)
    refuse_long(checkpoint, letters)
    table = model.embedding.weight.detach()
    end = table[torch.tensor(letters.ids)]
    start = table[: len(task.alphabet.letters)].mean(0).expand_as(end)

    def answers(moved: Float[Tensor, "point position d_model"]) -> Float[Tensor, " point"]:
        return log_odds(model.decide(moved, Mask()).double(), task.temperature, target)

    def at(places: Float[Tensor, " point"]) -> Float[Tensor, "point position d_model"]:
        return torch.lerp(start, end, places[:, None, None].to(end.dtype))

    def values(places: Float[Tensor, " point"]) -> Float[Tensor, "point 1"]:
        with forward_slot(), torch.no_grad():
            return answers(at(places))[:, None]

    def slopes(places: Float[Tensor, " point"], told: Progress) -> Float[Tensor, "point 1 position"]:
        with forward_slot(), torch.inference_mode(mode=False), torch.enable_grad():
            moved = at(places).requires_grad_()
            (slope,) = torch.autograd.grad(answers(moved).sum(), moved)
        told(1.0)
        return (slope.double() * (end - start).double()).sum(-1)[:, None]

    at_once = max(1, LETTERS_AT_ONCE // (4 * len(letters)))  # gradients keep what a forward pass drops
    found = integral(slopes, values, CLOSE, LEAST, points, at_once, progress)
    return Gradients(found.added[0].numpy(), float(found.difference[0]), found.points, bool(found.converged[0]))


def method_track(
    checkpoint: Checkpoint, run: Classification, method: str, target: int, progress: Progress | None = None
) -> Float[np.ndarray, " letter"]:
    """What one of `METHODS`, or `MUTATIONS`, says of each letter that `run` read: more speaks for class `target`.

    Log-odds (nats) of the first methods, multiples of the even share of the others. Integrated gradients that did not
    converge hold no numbers.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
        AttributionError: no such method.
    """
    refuse_long(checkpoint, run.letters)
    if method == MUTATIONS:
        return mutations(checkpoint, run.letters, target, progress).lost
    if method == UNKNOWN:
        return unknown_letters(checkpoint, run.letters, target, progress)
    if method == GRADIENTS:
        found = integrated_gradients(checkpoint, run.letters, target, progress=progress)
        return found.contribution if found.converged else np.full(len(run.letters), np.nan)
    if method == RELEVANCE:
        return window_relevance(checkpoint, run, target).relative
    return window_shares(checkpoint, run, method).relative


def window_shares(checkpoint: Checkpoint, run: Classification, method: str) -> LetterTrack:
    """Shares of the windows in what is pooled for the decision, as one of `SHARES` tells it, folded onto letters.

    What each window's last state is made of, weighed as the pooling weighs the windows: by its attention (mean of heads
    and queries), or evenly where it averages. `WEIGHTS` is the pooling alone, with no layer followed.

    Raises:
        AttributionError: no such method.
        CheckpointError: the checkpoint does not classify sequences.
    """
    model, _ = classifier(checkpoint)
    pooled = np.full(len(run.spans), 1 / len(run.spans))
    if POOLING in run.record:
        pooled = run.record[POOLING].head_average().astype(np.float64).mean(0)
    if method != WEIGHTS:
        axis = run.record["encoder.0.self"].keys
        with forward_slot():
            reading = Reading(checkpoint.name, model, tuple(run.letters.ids), axis)
            pooled = pooled @ attribute(reading, run.record, method).values
    return folded(pooled, run.spans, len(run.letters))


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
    if POOLING in found:
        pooled = found[POOLING][0].mean(1, keepdim=True)
    row = normalised_rows([found[site][0] for site in found if site != POOLING], pooled)[0, 0].numpy()
    whole = row.sum()
    return folded(row / whole if whole else np.full_like(row, np.nan), run.spans, len(run.letters))


def refuse_long(checkpoint: Checkpoint, letters: Letters) -> None:
    """Turn away what would take too many runs, and a model that is not where this is computed.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
    """
    refuse_elsewhere(checkpoint.model)
    if len(letters) > MAX_MUTATED:
        raise InputError("letters_mutated", found=len(letters), most=MAX_MUTATED)
