"""One head of a long map at any size: from the whole in blocks down to single cells, each step in a millisecond.

The map is passed over once. What is kept of it are the largest weights of its blocks, at most `SIDE` to a side, and of
the blocks of those, two by two, up to a few hundred: every view is a slice of one of these, or, close up, is computed
from the record, exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt16

from transformer.attention.record import AttentionMap
from transformer.attention.softmax_inputs import ROWS_AT_ONCE, row_groups
from transformer.messages import Message
from transformer.plots.picture import Picture, block_length

SHOWN = 240
"""Most blocks along a side of a view: at one byte each they stay within 64 kB."""

SIDE = 8 * SHOWN
"""Most blocks along a side of the finest level that is kept: 10 MB a head with all levels, whatever its length."""

CLOSE = 480
"""A view of no more cells than the square of this is computed from the record."""

QUICK = 16
"""Blocks of so many places are reduced place by place."""

HIDDEN, LEAST, MOST, NAN = 0, 1, 65_534, 65_535
"""Codes of a level: nothing is visible in the block; weights from 0 to the head's largest; one is not a number."""

Head = int | Literal["mean"]
MEAN: Final = "mean"


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
    head: Head
    largest: float
    levels: tuple[UInt16[np.ndarray, "_ _"], ...] = field(repr=False)

    @classmethod
    def of(cls, attention: AttentionMap, head: Head, progress: Callable[[float], None] | None = None) -> "Zoom":
        """Pass over a head once; `progress` is told the share that is done, and may raise.

        Raises:
            RecordError: no such head.
        """
        n_queries, n_keys = attention.shape
        tall, wide = block_length(n_queries, SIDE), block_length(n_keys, SIDE)
        parts = []
        for rows in row_groups(slice(0, n_queries), max(1, ROWS_AT_ONCE // tall) * tall):
            if progress is not None:
                progress(rows.start / n_queries)
            parts.append(attention.block_maxima(_heads(attention, head), rows, tall, wide))
        values, visible = np.concatenate(parts), attention.overview_mask(SIDE)
        seen = values[visible & ~np.isnan(values)]
        largest = float(seen.max(initial=0.0))
        levels = [_codes(values, visible, largest)]
        while max(levels[-1].shape) > SHOWN:
            levels.append(_maxima(_maxima(levels[-1], 0, 2), 1, 2))
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
        by_row, by_key = _halvings(rows, tall), _halvings(keys, wide)
        level = min(by_row, by_key)
        first, after = _blocks(rows, tall, by_row), _blocks(keys, wide, by_key)
        found = self.levels[level][
            first.start << by_row - level : first.stop << by_row - level,
            after.start << by_key - level : after.stop << by_key - level,
        ]
        found = _maxima(_maxima(found, 0, 1 << by_row - level), 1, 1 << by_key - level)
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
            head_name(attention, self.head),
            view.values,
            view.visible,
            attention.queries.kept(rows),
            attention.keys.kept(keys),
            notes=() if view.is_exact else (Message("note_blocks", tall=view.tall, wide=view.wide),),
        )

    def _close(self, rows: slice, keys: slice) -> View:
        tiles = [self.attention.tile(head, rows, keys) for head in _heads(self.attention, self.head)]
        values = tiles[0] if len(tiles) == 1 else np.mean(tiles, axis=0)
        visible = self.attention.tile_mask(rows, keys)
        tall, wide = block_length(rows.stop - rows.start, SHOWN), block_length(keys.stop - keys.start, SHOWN)
        for axis, length in ((0, tall), (1, wide)):
            values, visible = _maxima(values, axis, length), _maxima(visible, axis, length)
        return View(rows, keys, tall, wide, values, visible)

    def _weights(self, codes: UInt16[np.ndarray, "_ _"]) -> Float[np.ndarray, "_ _"]:
        values = (codes.astype(np.float32) - LEAST).clip(0) * np.float32(self.largest / (MOST - LEAST))
        values[codes == NAN] = np.nan
        return values


def head_name(attention: AttentionMap, head: Head) -> Message:
    """What a head is called, or the mean of all."""
    return Message("mean_of_heads", count=attention.n_heads) if head == MEAN else Message("head_number", head=head)


def _heads(attention: AttentionMap, head: Head) -> Sequence[int]:
    return range(attention.n_heads) if head == MEAN else [head]


def _codes(
    values: Float[np.ndarray, "_ _"], visible: Bool[np.ndarray, "_ _"], largest: float
) -> UInt16[np.ndarray, "_ _"]:
    """Two bytes a block, whose order is that of the weights, so that the largest of some is that of their codes."""
    scaled = np.rint(np.nan_to_num(values) * ((MOST - LEAST) / (largest or 1.0))).clip(0, MOST - LEAST) + LEAST
    scaled[np.isnan(values)] = NAN
    return np.where(visible, scaled, HIDDEN).astype(np.uint16)


def _maxima(x: np.ndarray, axis: int, length: int) -> np.ndarray:
    """The largest of each block along an axis; of short blocks one place after the other, which is much quicker."""
    if length == 1:
        return x
    found: np.ndarray
    if length > QUICK:
        found = np.maximum.reduceat(x, np.arange(0, x.shape[axis], length), axis=axis)
        return found
    x = np.swapaxes(x, 0, axis)
    found = x[::length].copy()
    for place in range(1, length):
        other = x[place::length]
        np.maximum(found[: len(other)], other, out=found[: len(other)])
    return np.swapaxes(found, 0, axis)


def _halvings(asked: slice, length: int) -> int:
    """How often blocks of `length` have to be joined two by two, until what was asked for is no more than is shown."""
    times = 0
    while (asked.stop - 1) // (length << times) - asked.start // (length << times) >= SHOWN:
        times += 1
    return times


def _blocks(asked: slice, length: int, times: int) -> slice:
    """The blocks that hold what was asked for, when those of `length` were joined so often."""
    return slice(asked.start // (length << times), (asked.stop - 1) // (length << times) + 1)


def _cells(blocks: slice, length: int, count: int) -> slice:
    return slice(blocks.start * length, min(blocks.stop * length, count))


def _within(asked: slice, count: int) -> slice:
    """At least one position, inside."""
    start = min(max(0, asked.start), count - 1)
    return slice(start, min(max(asked.stop, start + 1), count))
