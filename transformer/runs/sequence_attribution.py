"""What really mattered: how a classifier's answer changes when letters do.

Two views of one question, in the same unit (log-odds of a class, nats): try every other letter at every position
(in-silico mutagenesis), or follow the gradient from no letter in particular to the letters given (integrated
gradients; Sundararajan et al. 2017).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.layers.masks import Mask
from transformer.models.common import refuse_elsewhere
from transformer.runs.classify import LETTERS_AT_ONCE, classifier
from transformer.runs.concurrency import forward_slot
from transformer.sequences.alphabet import Letters

MAX_MUTATED = 512
"""Longest sequence whose every letter is changed: three runs a letter."""

Progress = Callable[[float], None]
"""Told what share of the work is done, from 0 to 1; it may raise to stop."""


@dataclass(frozen=True, eq=False)
class Mutations:
    """Change of a class's log-odds (nats) when one letter becomes another: row = new letter, column = position.

    The letter that stands there already has 0. Negative: the class becomes less likely.
    """

    letters: str
    sequence: str
    change: Float[np.ndarray, "letter position"]

    @property
    def effect(self) -> Float[np.ndarray, " position"]:
        """Mean size of the change at each position, over the letters that do not stand there; never negative."""
        return np.abs(self.change).sum(axis=0) / self._others

    @property
    def lost(self) -> Float[np.ndarray, " position"]:
        """Mean loss at each position, over the letters that do not stand there: positive where its letter is for it."""
        return -self.change.sum(axis=0) / self._others

    @property
    def _others(self) -> list[int]:
        """How many letters each position was changed to."""
        return [sum(letter != given for letter in self.letters) for given in self.sequence]


CLOSE = 0.01
"""The share of the difference by which the sum of integrated gradients may miss it."""

FIRST_STEPS, MOST_STEPS = 64, 1024
"""Steps that are tried first, and at most."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """Integrated gradients of a class's log-odds (nats): what each position adds, against no letter in particular.

    They sum to `difference`, the log-odds of the sequence less those of the baseline, up to `gap`, the error of
    adding up a finite number of `steps`.
    """

    contribution: Float[np.ndarray, " position"]
    difference: float
    steps: int

    @property
    def gap(self) -> float:
        """How far the sum lies from where it must."""
        return float(abs(self.contribution.sum() - self.difference))


def log_odds(logits: Float[Tensor, "batch classes"], temperature: float, target: int) -> Float[Tensor, " batch"]:
    """log(p / (1 - p)) of the class `target`, calibrated; unlike p, it does not flatten out near 1."""
    scaled = logits / temperature
    others = torch.arange(logits.shape[1]) != target
    return scaled[:, target] - scaled[:, others].logsumexp(1)


def mutations(checkpoint: Checkpoint, letters: Letters, target: int, progress: Progress | None = None) -> Mutations:
    """Put every letter at every position, one at a time, and see how the log-odds of class `target` change.

    Costs `len(letters) * (alphabet - 1)` sequences, in batches.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
    """
    model, task = classifier(checkpoint)
    refuse_elsewhere(model)
    refuse_long(letters)
    original = torch.tensor(letters.ids)
    n_letters, length = len(task.alphabet.letters), len(letters)
    position, letter = torch.meshgrid(torch.arange(length), torch.arange(n_letters), indexing="ij")
    differs = letter != original[:, None]
    positions, new = position[differs], letter[differs]
    size = max(1, LETTERS_AT_ONCE // length)
    found = []
    with forward_slot():
        before = log_odds(model(original[None]).double(), task.temperature, target)
    for start in range(0, len(positions), size):
        mutants = original.repeat(len(positions[start : start + size]), 1)
        mutants[torch.arange(len(mutants)), positions[start : start + size]] = new[start : start + size]
        with forward_slot():
            found.append(log_odds(model(mutants).double(), task.temperature, target) - before)
        if progress:
            progress(min(1.0, (start + size) / len(positions)))
    change = torch.zeros(n_letters, length, dtype=torch.float64)
    change[new, positions] = torch.cat(found)
    return Mutations(task.alphabet.letters, letters.text, change.numpy())


def integrated_gradients(
    checkpoint: Checkpoint, letters: Letters, target: int, steps: int | None = None, progress: Progress | None = None
) -> Gradients:
    """Walk from the mean of all letters' embeddings, at every position, to the letters given, and add up gradients.

    The midpoint rule over `steps` points of the straight line; if None, over more of them, twice as many each time,
    until the gap is at most `CLOSE` of the difference (or there are `MOST_STEPS`).

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
    """
    if steps is not None:
        return _gradients(checkpoint, letters, target, steps, progress)
    steps, before = FIRST_STEPS, 0.0
    while True:
        left = (1.0 - before) / 2

        def told(done: float, before: float = before, left: float = left) -> None:
            if progress:
                progress(before + left * done)

        found = _gradients(checkpoint, letters, target, steps, told)
        if found.gap <= CLOSE * abs(found.difference) or steps >= MOST_STEPS:
            told(1.0, 0.0, 1.0)
            return found
        steps, before = 2 * steps, before + left


def _gradients(
    checkpoint: Checkpoint, letters: Letters, target: int, steps: int, progress: Progress | None
) -> Gradients:
    """With a certain number of steps."""
    model, task = classifier(checkpoint)
    refuse_elsewhere(model)
    refuse_long(letters)
    table = model.embedding.weight.detach()
    end = table[torch.tensor(letters.ids)]
    start = table[: len(task.alphabet.letters)].mean(0).expand_as(end)
    total = torch.zeros_like(end, dtype=torch.float64)
    size = max(1, LETTERS_AT_ONCE // (4 * len(letters)))  # gradients keep what a forward pass drops
    points = (torch.arange(steps, dtype=end.dtype) + 0.5) / steps
    for done in range(0, steps, size):
        share = points[done : done + size, None, None]
        with forward_slot(), torch.inference_mode(mode=False), torch.enable_grad():
            between = (start + share * (end - start)).requires_grad_()
            answer = log_odds(model.decide(between, Mask()), task.temperature, target).sum()
            (gradient,) = torch.autograd.grad(answer, between)
        total += gradient.double().sum(0)
        if progress:
            progress(min(1.0, (done + size) / steps))
    with forward_slot():
        both = log_odds(model.decide(torch.stack([end, start]), Mask()).double(), task.temperature, target)
    contribution = ((end - start) * total / steps).sum(-1)
    return Gradients(contribution.numpy(), float(both[0] - both[1]), steps)


def refuse_long(letters: Letters) -> None:
    """Turn away what would take too many runs.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
    """
    if len(letters) > MAX_MUTATED:
        raise InputError("letters_mutated", found=len(letters), most=MAX_MUTATED)
