"""Tracks over letters: what windows received folded back onto letters, a table for a spreadsheet, bedGraph.

The rule of folding: a window of width k stands for k letters and shares what it receives evenly among them. So nothing
is lost: over all widths and letters the shares sum to 1, as the attention that windows receive does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from ..nn.kmer import Window


@dataclass(frozen=True, eq=False)
class LetterTrack:
    """What each letter received, by window width, of one map or of any leading axes of maps.

    `share[..., i, :]` belongs to `widths[i]`; all shares of a map together sum to what its windows received. `even` is
    what the shares would be if every window received the same: less at the ends, where fewer windows lie.
    """

    widths: tuple[int, ...]
    share: Float[np.ndarray, "*maps width letter"]
    even: Float[np.ndarray, "width letter"]

    @property
    def total(self) -> Float[np.ndarray, "*maps letter"]:
        """Share of each letter, over all widths; sums to 1 where the windows' shares do."""
        return self.share.sum(axis=-2)

    @property
    def relative(self) -> Float[np.ndarray, "*maps letter"]:
        """How many times the even share each letter received: 1 is as much as any other; ends are not favoured."""
        return self.total / self.even.sum(axis=0)


def folded(values: Float[np.ndarray, "*maps window"], spans: Sequence[Window], length: int) -> LetterTrack:
    """Share each window's value among its letters."""
    widths = tuple(dict.fromkeys(span.width for span in spans))
    starts, sizes = np.array([(span.start, span.width) for span in spans]).T
    given = np.moveaxis(values, -1, 0)
    share, even = np.zeros((len(widths), length, *given.shape[1:])), np.zeros((len(widths), length))
    for row, width in enumerate(widths):
        chosen = sizes == width
        for step in range(width):
            np.add.at(share[row], starts[chosen] + step, given[chosen] / width)
            np.add.at(even[row], starts[chosen] + step, 1 / (width * len(spans)))
    return LetterTrack(widths, np.moveaxis(share, (0, 1), (-2, -1)), even)


Columns = Mapping[str, Float[np.ndarray, " letter"]]
"""Values for each letter, by what they are."""


def csv(text: str, columns: Columns, places: Sequence[int]) -> str:
    """One row a letter: its place in the sequence (from 1), the letter, and a value of each column; NaN is empty."""
    from ..plots.export import table_csv  # not at the top, where a command would wait for Plotly

    rows = zip(places, text, *(values.tolist() for values in columns.values()), strict=True)
    return table_csv(["place", "letter", *columns], rows)


def bedgraph(sequence: str, columns: Columns, places: range) -> str:
    """One track a column, along letters that are `places` (from 1) of what a browser knows as `sequence`.

    Places that run backwards are those of the other strand.
    """
    first = min(places) - 1
    parts = (track_line(title) + intervals(sequence, one[:: places.step], first) for title, one in columns.items())
    return "".join(parts)


def track_line(title: str) -> str:
    """The line of bedGraph that begins a track."""
    quoted = title.replace('"', "'")
    return f'track type=bedGraph name="{quoted}"\n'


def intervals(sequence: str, values: Float[np.ndarray, " letter"], start: int = 0) -> str:
    """The lines of bedGraph for values along letters, the first at letter `start` (from 0).

    Equal neighbours share a line; NaN has none. Intervals are half-open and count from 0, as bedGraph asks.
    """
    name = column_name(sequence)
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return "".join(
        f"{name}\t{start + first}\t{start + after}\t{values[first]:.6g}\n"
        for first, after in pairwise(edges)
        if after > first and not np.isnan(values[first])
    )


def column_name(text: str) -> str:
    """A name without the white space that divides columns."""
    return "_".join(text.split()) or "sequence"
