"""Scan: a long sequence read in windows of the length that a classifier was trained on, on one strand or on both.

Windows lie on the given strand: number w holds the letters from w * step on. On the other strand the classifier reads
the reverse complement of the same letters. Memory does not grow with the length, but for one byte a letter.
"""

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.concurrency import forward_slot
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, calibrated, classifier
from transformer.runs.sequences.held_out import MOST_UNKNOWN
from transformer.sequences.alphabet import Letters

BLOCK = 128
"""Most windows of a block, on all its strands together; long windows are fewer, so that they have at most about twice
`LETTERS_AT_ONCE` letters. Two blocks are read between two signs of life, since one is always ahead."""

STRETCH = 64
"""Most windows of a block that one thread reads at a time; they have at most about `LETTERS_AT_ONCE` letters."""


LARGEST_IN_MEMORY = 16_000_000
"""Bytes of a track that lie in memory; a larger one lies in a file without a name, which goes with it."""

STEPS = 65_534
"""Probabilities are kept as whole numbers from 0 to this, so they are off by at most 1 in 131,000."""

NOT_JUDGED = 65_535
"""What stands for NaN: a window with too many unknown letters, or one that was not read yet."""


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


class _Begun(NamedTuple):
    """A block on its way: its first window, which of its windows are judged, and what its threads were given."""

    first: int
    judged: Bool[np.ndarray, " window"]
    jobs: Sequence["Future[Float[np.ndarray, 'window classes']]"]


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
        """The probabilities, block by block: whoever stops asking stops it, a block after the last one that came.

        `workers` threads share the windows of a block, and of the next one while the first is looked at.
        """
        model, task = classifier(self.checkpoint)
        ids = task.alphabet.id_array(self.letters.text)
        opposite = task.alphabet.complement_ids() if "-" in self.strands.signs else None

        def read(job: tuple[str, int, int]) -> Float[np.ndarray, "window classes"]:
            sign, first, after = job
            letters = ids[first * self.step : (after - 1) * self.step + self.width]
            if sign == "-" and opposite is not None:
                letters = opposite[letters[::-1]]
            with torch.inference_mode():
                placed = torch.from_numpy(letters.astype(np.int64)).to(self.checkpoint.device)
                found = calibrated(model(placed.unfold(0, self.width, self.step)), task).numpy()
            return found if sign == "+" else found[::-1]  # the last window of the one strand is the other's first

        block = max(1, min(BLOCK, 2 * LETTERS_AT_ONCE // self.width) // len(self.strands.signs))
        stretch = min(STRETCH, max(1, LETTERS_AT_ONCE // self.width))
        starts = iter(range(0, self.n_windows, block))
        begun = deque[_Begun]()
        with ThreadPoolExecutor(workers) as pool:

            def begin() -> None:
                """Give the threads the next block, where there is one."""
                for first in islice(starts, 1):
                    after = min(self.n_windows, first + block)
                    stretches = [(start, min(after, start + stretch)) for start in range(first, after, stretch)]
                    judged = self._unknown(ids, first, after) <= MOST_UNKNOWN
                    jobs = [(sign, *ends) for sign in self.strands.signs for ends in stretches] if judged.any() else []
                    begun.append(_Begun(first, judged, [pool.submit(read, job) for job in jobs]))

            try:
                with forward_slot():
                    begin()
                while begun:
                    now = begun.popleft()
                    found = np.full((len(self.strands.signs), len(now.judged), len(task.classes)), np.nan)
                    with forward_slot():
                        begin()  # so that no thread waits for the others at the end of a block
                        parts = [job.result() for job in now.jobs]
                    if parts:
                        found[:, now.judged] = np.concatenate(parts).reshape(found.shape)[:, now.judged]
                    yield Block(now.first, found)
            finally:
                pool.shutdown(cancel_futures=True)

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


class ScanTrack:
    """The probabilities of `columns` (indices of classes) along a plan, filled block by block.

    `read` windows of each strand are known so far, of which `judged` do not hold too many unknown letters.
    """

    def __init__(self, plan: ScanPlan, columns: tuple[int, ...]) -> None:
        self.plan = plan
        self.columns = columns
        self.read = self.judged = 0
        shape = (len(plan.strands.signs), len(columns), plan.n_windows)
        self._values: np.ndarray
        if 2 * np.prod(shape) > LARGEST_IN_MEMORY:
            with tempfile.TemporaryFile() as file:  # the mapping outlives the handle, and ends with this object
                self._values = np.memmap(file, np.uint16, "w+", shape=shape)
        else:
            self._values = np.empty(shape, np.uint16)
        self._values[:] = NOT_JUDGED

    def add(self, block: Block) -> None:
        """The next windows."""
        values = block.probabilities[:, :, list(self.columns)].transpose(0, 2, 1)
        kept = np.where(np.isnan(values), NOT_JUDGED, np.round(np.nan_to_num(values) * STEPS)).astype(np.uint16)
        self.read = block.first + kept.shape[-1]
        self.judged += int((kept[0, 0] != NOT_JUDGED).sum())
        self._values[:, :, block.first : self.read] = kept

    def probabilities(self, first: int, after: int) -> Float[np.ndarray, "strand class window"]:
        """Those of windows `first` to `after`; NaN where a window is not judged or not read."""
        values = self._values[:, :, first:after]
        return np.where(values == NOT_JUDGED, np.nan, values / STEPS)

    def maxima(
        self, first: int, after: int, most: int
    ) -> tuple[Int[np.ndarray, " bin"], Float[np.ndarray, "strand class bin"]]:
        """The largest probability in each of at most `most` equal stretches of windows, and where each one begins.

        A stretch in which no window is judged is NaN. With no more windows than `most`, each is its own.
        """
        count = max(1, -(-(after - first) // most))
        starts = np.arange(first, after, count)
        found = np.full((*self._values.shape[:2], len(starts)), np.nan)
        for i, start in enumerate(starts):  # stretch by stretch, so that little of a large file is in memory
            values = self._values[:, :, start : min(after, start + count)]
            judged = np.where(values == NOT_JUDGED, -1, values.astype(np.int32)).max(axis=-1)
            found[:, :, i] = np.where(judged < 0, np.nan, judged / STEPS)
        return starts, found
