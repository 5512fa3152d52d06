"""Tracks over letters as text: a table for a spreadsheet, and bedGraph for a genome browser."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

Columns = Mapping[str, Float[np.ndarray, " letter"]]
"""Values for each letter, by what they are."""


def csv(text: str, columns: Columns, places: Sequence[int]) -> str:
    """One row a letter: its place in the sequence (from 1), the letter, and a value of each column; NaN is empty."""
    from transformer.plots.export import table_csv  # not at the top, where a command would wait for Plotly

    rows = zip(places, text, *(values.tolist() for values in columns.values()), strict=True)
    return table_csv(["place", "letter", *columns], rows)


def bedgraph(sequence: str, columns: Columns, places: range) -> str:
    """One track a column, along letters that are `places` (from 1) of what a browser knows as `sequence`.

    Places that run backwards are those of the other strand.
    """
    first = min(places) - 1
    return "".join(
        track_line(title) + intervals(sequence, values[:: places.step], first) for title, values in columns.items()
    )


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
