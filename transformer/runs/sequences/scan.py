"""Scan: a long sequence read in windows of the length that a classifier was trained on, on one strand or on both.

Windows lie on the given strand: number w holds the letters from w on. On the other strand the classifier reads the
reverse complement of the same letters. Where every class that is looked for has a landmark, only windows that hold one
of them at its place are read, unless every one is asked for.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8

from ...checkpoint.checkpoint import Checkpoint
from ...errors import InputError
from ...nn.common import changed_context
from ...sequences.alphabet import Letters
from ...sequences.hits import NEAR, Hit, peaks, site_of, with_weaker
from ..concurrency import forward_slot
from .classify import LETTERS_AT_ONCE, MOST_UNKNOWN, calibrated, classifier

BLOCK = 128
"""Most windows of a block, on all its strands together; long windows are fewer, so that they have at most about twice
`LETTERS_AT_ONCE` letters. Two blocks are read between two signs of life, since one is always ahead."""

SPARSE = 8
"""So many times more windows make a block where only those with a landmark are read: about one in eight has one."""

KEPT = 2**25 - 2**16
"""Bytes of a tensor that is freed at once: glibc's allocator then keeps memory of up to this size for the next one.

Before, it gives each pass's memory back, and asking for it again takes a third of the time. It takes 32 MiB at most.
"""


@dataclass(frozen=True, eq=False)
class ScanBlock:
    """Class probabilities of windows that follow one another.

    `first` is the number of the first one; `probabilities[s, w]` belongs to strand s of those asked for, in the order
    of their signs. NaN where a window is not read: no landmark is in it, or more than `MOST_UNKNOWN` of its letters
    are unknown.
    """

    first: int
    probabilities: Float[np.ndarray, "strand window classes"]


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """A scan before it runs, in windows of `width` letters.

    Unless `every` one is asked for, those alone are read that hold a landmark; where a class has none, all are.
    """

    checkpoint: Checkpoint
    letters: Letters
    width: int
    signs: str = "+-"
    every: bool = False

    @property
    def n_windows(self) -> int:
        """Windows on one strand."""
        return len(self.letters) - self.width + 1

    def centre(self, window: int) -> int:
        """The letter (from 0) where tracks show a window: after half of its letters, on either strand."""
        return window + self.width // 2

    @property
    def is_sparse(self) -> bool:
        """Whether only windows with a landmark are read."""
        _, task = classifier(self.checkpoint)
        return not self.every and all(task.landmark(name) for name in task.findable)

    @property
    def reads(self) -> int:
        """Windows that will be read on all strands, counted from the letters (unknown letters aside)."""
        return sum(int(self._wanted(sign, 0, self.n_windows).sum()) for sign in self.signs)

    def blocks(self, workers: int = 1) -> Iterator[ScanBlock]:
        """The probabilities, block by block: whoever stops asking stops it, a block after the last one that came.

        `workers` threads share the windows of a block, and of the next one while the first is looked at.
        """
        model, task = classifier(self.checkpoint)
        signs, opposite = self.signs, task.alphabet.complement_ids() if "-" in self.signs else None

        def read(sign: str, windows: Int[np.ndarray, " window"]) -> Float[np.ndarray, "window classes"]:
            letters, starts = self._ids[windows[0] : windows[-1] + self.width], windows - windows[0]
            if sign == "-" and opposite is not None:
                letters, starts = opposite[letters[::-1]], len(letters) - self.width - starts
            with torch.inference_mode(), changed_context(is_quick=True):
                device = self.checkpoint.device
                ids, rows = (torch.tensor(one.astype(np.int64), device=device) for one in (letters, starts))
                return calibrated(model.along(ids, rows, self.width), task).numpy()

        block = max(1, min(BLOCK, 2 * LETTERS_AT_ONCE // self.width) // len(signs)) * (SPARSE if self.is_sparse else 1)
        at_once = max(1, LETTERS_AT_ONCE // self.width)
        starts = range(0, self.n_windows, block)
        torch.empty(KEPT, dtype=torch.uint8)
        with ThreadPoolExecutor(workers) as pool:

            def begun(number: int) -> tuple[np.ndarray, list[Future[np.ndarray]]]:
                """Which windows of a block are read on each strand, and what its threads are given."""
                first, after = starts[number], min(self.n_windows, starts[number] + block)
                letters = self._ids[first : after - 1 + self.width]
                windows = np.lib.stride_tricks.sliding_window_view(letters, self.width)
                known = (windows == task.alphabet.unknown_id).mean(axis=1) <= MOST_UNKNOWN
                wanted = np.array([self._wanted(sign, first, after) & known for sign in signs])
                jobs = [
                    pool.submit(read, sign, first + some)
                    for sign, chosen in zip(signs, wanted, strict=True)
                    for some in np.array_split(np.flatnonzero(chosen), -(-int(chosen.sum()) // at_once) or 1)
                    if len(some)
                ]
                return wanted, jobs

            try:
                with forward_slot():
                    ahead = begun(0)
                for number, first in enumerate(starts):
                    wanted, jobs = ahead
                    found = np.full((*wanted.shape, len(task.classes)), np.nan)
                    with forward_slot():
                        if number + 1 < len(starts):
                            ahead = begun(number + 1)  # so that no thread waits for the others at the end of a block
                        parts = [job.result() for job in jobs]
                    if parts:
                        found[wanted] = np.concatenate(parts)
                    yield ScanBlock(first, found)
            finally:
                pool.shutdown(cancel_futures=True)

    @cached_property
    def _ids(self) -> UInt8[np.ndarray, " letter"]:
        return self.letters.alphabet.id_array(self.letters.text)

    def _wanted(self, sign: str, first: int, after: int) -> Bool[np.ndarray, " window"]:
        """Which of the windows `first` to `after` may hold what is looked for, by the letters of the landmarks."""
        _, task = classifier(self.checkpoint)
        count = after - first
        if not self.is_sparse:
            return np.ones(count, bool)
        found = np.zeros(count, bool)
        for mark in filter(None, map(task.landmark, task.findable)):
            text = mark.letters if sign == "+" else task.alphabet.reverse_complement(mark.letters)
            begins, _ = site_of(0, self.width, sign, mark)
            here = np.ones(count, bool)
            for place, code in enumerate(task.alphabet.ids(text), first + begins):
                here &= self._ids[place : place + count] == code
            found |= here
        return found


def plan_scan(checkpoint: Checkpoint, letters: Letters, signs: str = "+-", every: bool = False) -> ScanPlan:
    """What a scan of the strands of these signs would do; nothing runs yet.

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
        InputError: the sequence is shorter than a window, or its letters have no other strand.
    """
    _, task = classifier(checkpoint)
    if len(letters) < task.length:
        raise InputError("scan_short", found=len(letters), needed=task.length)
    if "-" in signs and not task.alphabet.complement:
        raise InputError("no_other_strand", alphabet=task.alphabet.name)
    return ScanPlan(checkpoint, letters, task.length, signs, every)


def hit_at(plan: ScanPlan, start: int, strand: str, label: str, probability: float) -> Hit:
    """The call of one window, with the site in it and the letters there."""
    _, task = classifier(plan.checkpoint)
    mark, end = task.landmark(label), start + plan.width
    site = site_of(start, end, strand, mark)
    if mark is None:
        return Hit(start, end, strand, label, probability, site)
    found = plan.letters.text[slice(*site)]
    found = found if strand == "+" else task.alphabet.reverse_complement(found)
    return Hit(start, end, strand, label, probability, site, mark.term, found, mark.letters)


def find_hits(plan: ScanPlan, blocks: Iterable[ScanBlock], columns: Mapping[str, int], threshold: float) -> list[Hit]:
    """The hits of classes, whose numbers `columns` in the blocks are given by name, from a probability on.

    A site whose letters are not those of its landmark counts only where every window is read. Of calls within `NEAR`
    letters the likeliest is the hit; without a landmark, of those within half a window. Only calls are held.
    """
    above: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for block in blocks:
        for row, sign in enumerate(plan.signs):
            for name, column in columns.items():
                values = block.probabilities[row, :, column]
                windows = np.flatnonzero(values >= threshold)
                starts = (block.first + windows).tolist()
                above.setdefault((sign, name), []).extend(zip(starts, values[windows].tolist(), strict=True))
    hits = []
    for (sign, name), called in above.items():
        calls = (hit_at(plan, start, sign, name, probability) for start, probability in called)
        kept = {hit.start: hit for hit in calls if hit.found == hit.expected or plan.every}
        distance = NEAR + 1 if any(hit.expected for hit in kept.values()) else plan.width // 2
        best = peaks([(start, hit.probability) for start, hit in kept.items()], distance)
        hits += with_weaker(kept[start] for start, _ in best)
    return sorted(hits, key=lambda hit: (hit.start, hit.strand, hit.label))


class ScanTrack:
    """The probabilities of `columns` (indices of classes) along a plan, in single precision, filled block by block.

    The first `read` windows of each strand are known so far.
    """

    def __init__(self, plan: ScanPlan, columns: tuple[int, ...]) -> None:
        self.columns, self.read = columns, 0
        self._values = np.empty((len(plan.signs), plan.n_windows, len(columns)), np.float32)

    def add(self, block: ScanBlock) -> int:
        """The next windows of each strand; returns how many these are."""
        values = block.probabilities[:, :, list(self.columns)]
        self.read = block.first + values.shape[1]
        self._values[:, block.first : self.read] = values
        return values.shape[1]

    @property
    def known(self) -> ScanBlock:
        """What was added, whose classes are `columns`."""
        return ScanBlock(0, self._values[:, : self.read])

    def maxima(
        self, first: int, after: int, most: int
    ) -> tuple[Int[np.ndarray, " bin"], Float[np.ndarray, "strand class bin"]]:
        """The largest probability in each of at most `most` equal stretches of windows, and where each one begins.

        A stretch in which no window is judged is NaN. With no more windows than `most`, each is its own.
        """
        starts = np.arange(first, after, max(1, -(-(after - first) // most)))
        found = np.fmax.reduceat(self._values[:, first:after], starts - first, axis=1)
        return starts, found.transpose(0, 2, 1)
