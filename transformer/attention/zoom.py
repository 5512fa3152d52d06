"""One head of a long map at any size: from the whole in blocks down to single cells, each step in a millisecond.

The map is passed over once. What is kept of it are the largest weights of its blocks, at most `SIDE` to a side, and of
the blocks of those, two by two, up to a few hundred: every view is a slice of one of these, or, close up, is computed
from the record, exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt16

from ..messages import Message
from ..plots.picture import Picture, block_length, maxima
from .record import AttentionMap, HeadOrMean

SHOWN = 240
"""Most blocks along a side of a view: at one byte each they stay within 64 kB."""

SIDE = 8 * SHOWN
"""Most blocks along a side of the finest level that is kept: 10 MB a head with all levels, whatever its length."""

CLOSE = 480
"""A view of no more cells than the square of this is computed from the record."""

HIDDEN, LEAST, MOST, NAN = 0, 1, 65_534, 65_535
"""Codes of a level: nothing is visible in the block; weights from 0 to the head's largest; one is not a number."""


class View(NamedTuple):
    """A rectangle of a map in blocks of `tall` x `wide` cells: the largest weight of each, and whether any is visible.

    The last blocks may be smaller. `rows` and `keys` are what the blocks cover, which may begin before what was asked
    for and end after it. With blocks of one cell the values are exact.
    """

    rows: slice
    keys: slice
    tall: int
    wide: int
    values: Float[np.ndarray, "query key"]
    visible: Bool[np.ndarray, "query key"]

    @property
    def is_exact(self) -> bool:
        """Whether every value is that of one cell, as the record holds it."""
        return self.tall == self.wide == 1


@dataclass(frozen=True, eq=False)
class Zoom:
    """A head of a map (or the mean of all), ready to be looked at. `largest` is its largest weight."""

    attention: AttentionMap = field(repr=False)
    head: HeadOrMean
    largest: float
    levels: tuple[UInt16[np.ndarray, "_ _"], ...] = field(repr=False)

    @classmethod
    def of(
        cls, attention: AttentionMap, head: HeadOrMean, progress: Callable[[float], None] = lambda _: None
    ) -> "Zoom":
        """Pass over a head once; `progress` is told the share that is done, and may raise.

        Raises:
            RecordError: no such head.
        """
        values, visible = attention.overview(head, SIDE, progress), attention.overview_mask(SIDE)
        seen = values[visible & ~np.isnan(values)]
        largest = float(seen.max(initial=0.0))
        levels = [_codes(values, visible, largest)]
        while max(levels[-1].shape) > SHOWN:
            levels.append(maxima(maxima(levels[-1], 0, 2), 1, 2))
        return cls(attention, head, largest, tuple(levels))

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""
        return self.attention.shape

    @property
    def n_bytes(self) -> int:
        """Memory of the levels."""
        return sum(level.nbytes for level in self.levels)

    def whole(self) -> View:
        """All of it."""
        return self.view(slice(0, self.shape[0]), slice(0, self.shape[1]))

    def view(self, rows: slice, keys: slice) -> View:
        """A rectangle of the map in at most `SHOWN` blocks a side; parts that lie outside of the map are left out."""
        rows, keys = _within(rows, self.shape[0]), _within(keys, self.shape[1])
        n_rows, n_keys = rows.stop - rows.start, keys.stop - keys.start
        if n_rows * n_keys <= CLOSE**2:
            return self._close(rows, keys)
        tall, wide = block_length(self.shape[0], SIDE), block_length(self.shape[1], SIDE)
        (first, by_row), (after, by_key) = _blocks(rows, tall), _blocks(keys, wide)
        level = min(by_row, by_key)
        found = self.levels[level][
            first.start << by_row - level : first.stop << by_row - level,
            after.start << by_key - level : after.stop << by_key - level,
        ]
        found = maxima(maxima(found, 0, 1 << by_row - level), 1, 1 << by_key - level)
        return View(
            _cells(first, tall << by_row, self.shape[0]),
            _cells(after, wide << by_key, self.shape[1]),
            tall << by_row,
            wide << by_key,
            self._weights(found),
            found != HIDDEN,
        )

    def picture(self, view: View) -> Picture:
        """What is seen, with the names of its rows and columns; blocks are named by their first cell."""
        attention = self.attention
        rows = range(view.rows.start, view.rows.stop, view.tall)
        keys = range(view.keys.start, view.keys.stop, view.wide)
        return Picture(
            attention.site,
            attention.head_name(self.head),
            view.values,
            view.visible,
            attention.queries.kept(rows),
            attention.keys.kept(keys),
            notes=() if view.is_exact else (Message("note_blocks", tall=view.tall, wide=view.wide),),
        )

    def _close(self, rows: slice, keys: slice) -> View:
        values, visible = self.attention.tile(self.head, rows, keys), self.attention.tile_mask(rows, keys, self.head)
        tall, wide = block_length(rows.stop - rows.start, SHOWN), block_length(keys.stop - keys.start, SHOWN)
        for axis, length in ((0, tall), (1, wide)):
            values, visible = maxima(values, axis, length), maxima(visible, axis, length)
        return View(rows, keys, tall, wide, values, visible)

    def _weights(self, codes: UInt16[np.ndarray, "_ _"]) -> Float[np.ndarray, "_ _"]:
        values = (codes.astype(np.float32) - LEAST).clip(0) * np.float32(self.largest / (MOST - LEAST))
        values[codes == NAN] = np.nan
        return values


def _codes(
    values: Float[np.ndarray, "_ _"], visible: Bool[np.ndarray, "_ _"], largest: float
) -> UInt16[np.ndarray, "_ _"]:
    """Two bytes a block, whose order is that of the weights, so that the largest of some is that of their codes."""
    scaled = np.rint(np.nan_to_num(values) * ((MOST - LEAST) / (largest or 1.0))).clip(0, MOST - LEAST) + LEAST
    scaled[np.isnan(values)] = NAN
    return np.where(visible, scaled, HIDDEN).astype(np.uint16)


def _blocks(asked: slice, length: int) -> tuple[slice, int]:
    """The blocks that hold what was asked for, and how often those of `length` are joined two by two for it.

    That is, until they are no more than is shown.
    """
    times = 0
    while (asked.stop - 1) // (length << times) - asked.start // (length << times) >= SHOWN:
        times += 1
    return slice(asked.start // (length << times), (asked.stop - 1) // (length << times) + 1), times


def _cells(blocks: slice, length: int, count: int) -> slice:
    return slice(blocks.start * length, min(blocks.stop * length, count))


def _within(asked: slice, count: int) -> slice:
    """At least one position, inside."""
    start = min(max(0, asked.start), count - 1)
    return slice(start, min(max(asked.stop, start + 1), count))
