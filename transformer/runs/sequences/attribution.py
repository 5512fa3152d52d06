"""How much each letter matters for a class of a sequence classifier, in log-odds of the class (nats).

Every other letter is put at each position, one at a time (in-silico mutagenesis).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.explain.attribution.deletion import Progress
from transformer.nn.common import refuse_elsewhere
from transformer.runs.class_reasons import log_odds
from transformer.runs.concurrency import forward_slot
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, classifier
from transformer.sequences.alphabet import Letters

MAX_MUTATED = 512
"""Longest sequence whose every letter is changed: three runs a letter."""


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
        others = [sum(letter != given for letter in self.letters) for given in self.sequence]
        return np.abs(self.change).sum(axis=0) / others


def log_odds_of_rows(
    checkpoint: Checkpoint, rows: Int[Tensor, "row letter"], target: int, progress: Progress | None = None
) -> Float[Tensor, " row"]:
    """The log-odds (nats) of class `target` for sequences of one length, given as ids, in batches."""
    model, task = classifier(checkpoint)
    size, found = max(1, LETTERS_AT_ONCE // rows.shape[1]), []
    for some in rows.split(size):
        with forward_slot(), torch.no_grad():
            found.append(log_odds(model(some).double() / task.temperature, target, each=False))
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
    refuse_elsewhere(checkpoint.model)
    if len(letters) > MAX_MUTATED:
        raise InputError("letters_mutated", found=len(letters), most=MAX_MUTATED)
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
