"""Scan: a long sequence read in windows of the length that a classifier was trained on, on one strand or on both.

Windows lie on the given strand: number w holds the letters from w * step on. On the other strand the classifier reads
the reverse complement of the same letters. Memory does not grow with the length, but for one byte a letter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from jaxtyping import Float, Int

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.classify import calibrated, classifier
from transformer.runs.concurrency import forward_slot
from transformer.runs.held_out import MOST_UNKNOWN
from transformer.sequences.alphabet import Letters

AT_ONCE = 64
"""Windows that share a forward pass: more would leave the processor's cache."""

BLOCK = 128
"""Windows of a block, which is the time between two signs of life."""


class Strands(StrEnum):
    """Which strands are read: the one `given`, the `other` one, or `both`."""

    GIVEN = "given"
    OTHER = "other"
    BOTH = "both"

    @property
    def signs(self) -> str:
        """What the strands are called in files: `+`, `-`."""
        return {"given": "+", "other": "-", "both": "+-"}[self.value]


@dataclass(frozen=True, eq=False)
class Block:
    """Class probabilities of windows that follow one another.

    `first` is the number of the first one; `probabilities[s, w]` belongs to strand s of those asked for, in the order
    of `Strands.signs`. NaN where more than `MOST_UNKNOWN` of the letters are unknown.
    """

    first: int
    probabilities: Float[np.ndarray, "strand window classes"]


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """A scan before it runs: its windows are `n_windows` of `width` letters, `step` letters apart."""

    checkpoint: Checkpoint
    letters: Letters
    width: int
    step: int
    strands: Strands

    @property
    def n_windows(self) -> int:
        """Windows on one strand."""
        return (len(self.letters) - self.width) // self.step + 1

    @property
    def passes(self) -> int:
        """Windows to be read on all strands asked for."""
        return self.n_windows * len(self.strands.signs)

    def starts(self, first: int, after: int) -> Int[np.ndarray, " window"]:
        """The letters (from 0) at which windows `first` to `after` begin."""
        return np.arange(first, after) * self.step

    def centre(self, window: int) -> int:
        """The letter (from 0) where tracks show a window: after half of its letters, on either strand."""
        return window * self.step + self.width // 2

    def blocks(self) -> Iterator[Block]:
        """The probabilities, block by block, computed as they are asked for: whoever stops asking has stopped it."""
        model, task = classifier(self.checkpoint)
        alphabet = task.alphabet
        ids = alphabet.id_array(self.letters.text)
        opposite = alphabet.complement_ids() if "-" in self.strands.signs else None
        every = np.lib.stride_tricks.sliding_window_view(ids, self.width)[:: self.step]
        for first in range(0, self.n_windows, BLOCK):
            windows = every[first : first + BLOCK]
            judged = (windows == alphabet.unknown_id).mean(axis=1) <= MOST_UNKNOWN
            found = np.full((len(self.strands.signs), len(windows), len(task.classes)), np.nan)
            chosen = windows[judged]
            for row, sign in enumerate(self.strands.signs):
                read = chosen if sign == "+" or opposite is None else opposite[chosen[:, ::-1]]
                parts = []
                for start in range(0, len(read), AT_ONCE):
                    batch = torch.from_numpy(read[start : start + AT_ONCE].astype(np.int64))
                    batch = batch.to(self.checkpoint.device)
                    with forward_slot():
                        parts.append(calibrated(model(batch), task).numpy())
                if parts:
                    found[row, judged] = np.concatenate(parts)
            yield Block(first, found)


def plan_scan(checkpoint: Checkpoint, letters: Letters, step: int = 1, strands: Strands = Strands.BOTH) -> ScanPlan:
    """What a scan would do; nothing runs yet.

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
        InputError: the sequence is shorter than a window, the step is no whole number from 1 to a window's length, or
            the letters have no other strand.
    """
    _, task = classifier(checkpoint)
    if len(letters) < task.length:
        raise InputError("scan_short", found=len(letters), needed=task.length)
    if not 1 <= step <= task.length:
        raise InputError("scan_step", step=step, most=task.length)
    if "-" in strands.signs and not task.alphabet.complement:
        raise InputError("no_other_strand", alphabet=task.alphabet.name)
    return ScanPlan(checkpoint, letters, task.length, step, strands)
