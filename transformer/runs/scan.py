"""Scan: a long sequence read in windows of the length that a classifier was trained on, on one strand or on both.

Windows lie on the given strand: number w holds the letters from w * step on. On the other strand the classifier reads
the reverse complement of the same letters. Memory does not grow with the length, but for one byte a letter.
`StretchReader` reads the windows, so probabilities differ from those of `classify` by rounding.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from queue import SimpleQueue

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.models.kmer_stretch import StretchReader
from transformer.runs.classify import LETTERS_AT_ONCE, calibrated, classifier
from transformer.runs.concurrency import forward_slot
from transformer.runs.held_out import MOST_UNKNOWN
from transformer.sequences.alphabet import Letters

BLOCK = 128
"""Most windows of a block, which is the time between two signs of life; long windows are fewer, so that on a strand
they have at most about twice `LETTERS_AT_ONCE` letters."""

STRETCH = 64
"""Most windows of a block that one thread reads at a time; they have at most about `LETTERS_AT_ONCE` letters."""


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

    def blocks(self, workers: int = 1) -> Iterator[Block]:
        """The probabilities, block by block, computed as they are asked for: whoever stops asking has stopped it.

        `workers` threads share the windows of a block.
        """
        model, task = classifier(self.checkpoint)
        ids = task.alphabet.id_array(self.letters.text)
        opposite = task.alphabet.complement_ids() if "-" in self.strands.signs else None
        readers = SimpleQueue[StretchReader]()
        for _ in range(workers):
            readers.put(StretchReader(model, self.width))

        def read(job: tuple[str, int, int]) -> Float[np.ndarray, "window classes"]:
            sign, first, after = job
            letters = ids[first * self.step : (after - 1) * self.step + self.width]
            if sign == "-" and opposite is not None:
                letters = opposite[letters[::-1]]
            reader = readers.get()
            try:
                with torch.inference_mode():
                    placed = torch.from_numpy(letters.astype(np.int64)).to(self.checkpoint.device)
                    found = calibrated(reader.logits(placed, self.step), task).numpy()
            finally:
                readers.put(reader)
            return found if sign == "+" else found[::-1]  # the last window of the one strand is the other's first

        block = min(BLOCK, max(1, 2 * LETTERS_AT_ONCE // self.width))
        stretch = min(STRETCH, max(1, LETTERS_AT_ONCE // self.width))
        with ThreadPoolExecutor(workers) as pool:
            for first in range(0, self.n_windows, block):
                after = min(self.n_windows, first + block)
                stretches = [(begin, min(after, begin + stretch)) for begin in range(first, after, stretch)]
                unknown = self._unknown(ids, first, after)
                judged = unknown <= MOST_UNKNOWN
                found = np.full((len(self.strands.signs), after - first, len(task.classes)), np.nan)
                if judged.any():
                    jobs = [(sign, *ends) for sign in self.strands.signs for ends in stretches]
                    with forward_slot():
                        read_all = list(pool.map(read, jobs))
                    found[:, judged] = np.concatenate(read_all).reshape(found.shape)[:, judged]
                yield Block(first, found)

    def _unknown(self, ids: UInt8[np.ndarray, " letter"], first: int, after: int) -> Float[np.ndarray, " window"]:
        """The share of unknown letters in each of these windows."""
        _, task = classifier(self.checkpoint)
        letters = ids[first * self.step : (after - 1) * self.step + self.width] == task.alphabet.unknown_id
        return np.lib.stride_tricks.sliding_window_view(letters, self.width)[:: self.step].mean(axis=1)


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
