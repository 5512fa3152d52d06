"""Scan: a long sequence read in windows of the length that a classifier was trained on, on one strand or on both.

Windows lie on the given strand: number w holds the letters from w * step on. On the other strand the classifier reads
the reverse complement of the same letters. Memory does not grow with the length, but for one byte a letter.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.concurrency import forward_slot
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, calibrated, classifier
from transformer.runs.sequences.held_out import MOST_UNKNOWN
from transformer.sequences.alphabet import Letters
from transformer.sequences.hits import Hit, peaks

BLOCK = 128
"""Most windows of a block, on all its strands together; long windows are fewer, so that they have at most about twice
`LETTERS_AT_ONCE` letters. Two blocks are read between two signs of life, since one is always ahead."""

STRETCH = 64
"""Most windows of a block that one thread reads at a time; they have at most about `LETTERS_AT_ONCE` letters."""

LARGEST_IN_MEMORY = 16_000_000
"""Bytes of a track that lie in memory; a larger one lies in a file without a name, which goes with it."""

TRACK_BLOCK = 100_000
"""Windows of a track that are looked through at a time, so that little of a large file is in memory."""


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

        def read(sign: str, first: int, after: int) -> Float[np.ndarray, "window classes"]:
            letters = self._letters(ids, first, after)
            if sign == "-" and opposite is not None:
                letters = opposite[letters[::-1]]
            with torch.inference_mode():
                placed = torch.from_numpy(letters.astype(np.int64)).to(self.checkpoint.device)
                found = calibrated(model(placed.unfold(0, self.width, self.step)), task).numpy()
            return found if sign == "+" else found[::-1]  # the last window of the one strand is the other's first

        block = max(1, min(BLOCK, 2 * LETTERS_AT_ONCE // self.width) // len(self.strands.signs))
        stretch = min(STRETCH, max(1, LETTERS_AT_ONCE // self.width))
        starts = range(0, self.n_windows, block)
        with ThreadPoolExecutor(workers) as pool:

            def begun(number: int) -> tuple[np.ndarray, list[Future[np.ndarray]]]:
                """Which windows of a block are judged, and what its threads are given."""
                first, after = starts[number], min(self.n_windows, starts[number] + block)
                unknown = self._letters(ids, first, after) == task.alphabet.unknown_id
                shares = np.lib.stride_tricks.sliding_window_view(unknown, self.width)[:: self.step].mean(axis=1)
                judged = shares <= MOST_UNKNOWN
                stretches = range(first, after, stretch) if judged.any() else ()
                jobs = [
                    pool.submit(read, sign, start, min(after, start + stretch))
                    for sign in self.strands.signs
                    for start in stretches
                ]
                return judged, jobs

            try:
                with forward_slot():
                    ahead = begun(0)
                for number, first in enumerate(starts):
                    judged, jobs = ahead
                    found = np.full((len(self.strands.signs), len(judged), len(task.classes)), np.nan)
                    with forward_slot():
                        if number + 1 < len(starts):
                            ahead = begun(number + 1)  # so that no thread waits for the others at the end of a block
                        parts = [job.result() for job in jobs]
                    if parts:
                        found[:, judged] = np.concatenate(parts).reshape(found.shape)[:, judged]
                    yield Block(first, found)
            finally:
                pool.shutdown(cancel_futures=True)

    def _letters(self, ids: UInt8[np.ndarray, " letter"], first: int, after: int) -> UInt8[np.ndarray, " some"]:
        """The letters of windows `first` to `after`."""
        return ids[first * self.step : (after - 1) * self.step + self.width]


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


def find_hits(plan: ScanPlan, blocks: Iterable[Block], columns: Mapping[str, int], threshold: float) -> list[Hit]:
    """The hits of classes, whose numbers `columns` in the blocks are given by name, from a probability on.

    No likelier window of the same class and strand lies nearer than half a window. Only windows above the threshold are
    held.
    """
    above: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for block in blocks:
        for row, sign in enumerate(plan.strands.signs):
            for name, column in columns.items():
                values = block.probabilities[row, :, column]
                windows = np.flatnonzero(values >= threshold)
                starts = ((block.first + windows) * plan.step).tolist()
                above.setdefault((sign, name), []).extend(zip(starts, values[windows].tolist(), strict=True))
    hits = [
        Hit(start, start + plan.width, sign, name, probability)
        for (sign, name), found in above.items()
        for start, probability in peaks(found, plan.width // 2)
    ]
    return sorted(hits, key=lambda hit: (hit.start, hit.strand, hit.label))


class ScanTrack:
    """The probabilities of `columns` (indices of classes) along a plan, in single precision, filled block by block.

    `read` windows of each strand are known so far, of which `judged` do not hold too many unknown letters.
    """

    def __init__(self, plan: ScanPlan, columns: tuple[int, ...]) -> None:
        self.columns = columns
        self.read = self.judged = 0
        shape = (len(plan.strands.signs), plan.n_windows, len(columns))
        self._values: Float[np.ndarray, "strand window class"]
        if 4 * np.prod(shape) > LARGEST_IN_MEMORY:
            with tempfile.TemporaryFile() as file:  # the mapping outlives the handle, and ends with this object
                self._values = np.memmap(file, np.float32, "w+", shape=shape)
        else:
            self._values = np.empty(shape, np.float32)

    def add(self, block: Block) -> None:
        """The next windows."""
        values = block.probabilities[:, :, list(self.columns)]
        self.read = block.first + values.shape[1]
        self.judged += int((~np.isnan(values[0, :, 0])).sum())
        self._values[:, block.first : self.read] = values

    def blocks(self) -> Iterator[Block]:
        """What was added, whose classes are `columns`."""
        for first in range(0, self.read, TRACK_BLOCK):
            yield Block(first, self._values[:, first : min(self.read, first + TRACK_BLOCK)])

    def maxima(
        self, first: int, after: int, most: int
    ) -> tuple[Int[np.ndarray, " bin"], Float[np.ndarray, "strand class bin"]]:
        """The largest probability in each of at most `most` equal stretches of windows, and where each one begins.

        A stretch in which no window is judged is NaN. With no more windows than `most`, each is its own.
        """
        starts = np.arange(first, after, max(1, -(-(after - first) // most)))
        found = np.fmax.reduceat(self._values[:, first:after], starts - first, axis=1)
        return starts, found.transpose(0, 2, 1)
