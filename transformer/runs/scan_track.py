"""What a scan found, kept small: two bytes for each window, strand and class, and the likeliest of any stretch."""

import tempfile

import numpy as np
from jaxtyping import Float, Int

from transformer.runs.scan import Block, ScanPlan

LARGEST_IN_MEMORY = 16_000_000
"""Bytes of a track that lie in memory; a larger one lies in a file without a name, which goes with it."""

STEPS = 65_534
"""Probabilities are kept as whole numbers from 0 to this, so they are off by at most 1 in 131,000."""

NOT_JUDGED = 65_535
"""What stands for NaN: a window with too many unknown letters, or one that was not read yet."""


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
