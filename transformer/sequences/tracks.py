"""Tracks over letters as text: a table for a spreadsheet, and bedGraph for a genome browser."""

import csv as csv_format
import io
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from transformer.errors import InputError

Columns = Mapping[str, Float[np.ndarray, " letter"]]
"""Values for each letter, by what they are."""


def csv(text: str, columns: Columns) -> str:
    """One row a letter: its position (from 1, under `place`), the letter, and a value of each column; NaN is empty.

    No spreadsheet takes a text in it for a formula.
    """
    from transformer.figures.export import harmless  # not at the top, where a command would wait for Plotly

    _refuse_misfits(text, columns)
    target = io.StringIO()
    rows = csv_format.writer(target, lineterminator="\n")
    rows.writerow(["place", "letter", *map(harmless, columns)])
    for i, letter in enumerate(text):
        values = (float(values[i]) for values in columns.values())
        rows.writerow([i + 1, harmless(letter), *("" if np.isnan(value) else repr(value) for value in values)])
    return target.getvalue()


def bedgraph(sequence: str, columns: Columns, start: int = 0) -> str:
    """One track a column; `sequence` is the name that a browser knows, `start` where its letter 0 lies (from 0)."""
    return "".join(track_line(title) + intervals(sequence, values, start) for title, values in columns.items())


def track_line(title: str) -> str:
    """The line of bedGraph that begins a track."""
    quoted = title.replace('"', "'")
    return f'track type=bedGraph name="{quoted}"\n'


def intervals(
    sequence: str, values: Float[np.ndarray, " letter"], start: int = 0, step: int = 1, end: int | None = None
) -> str:
    """The lines of bedGraph for values that lie `step` letters apart, the first at letter `start` (from 0).

    Equal neighbours share a line; NaN has none. Intervals are half-open and count from 0, as bedGraph asks, and none
    goes past `end`, the length of the sequence: UCSC's bedGraphToBigWig refuses a file of which one does.
    """
    name = column_name(sequence)
    last = start + step * len(values) if end is None else end
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return "".join(
        f"{name}\t{start + step * first}\t{min(last, start + step * after)}\t{values[first]:.6g}\n"
        for first, after in pairwise(edges)
        if after > first and not np.isnan(values[first])
    )


def column_name(text: str) -> str:
    """A name without the white space that divides columns."""
    return "_".join(text.split()) or "sequence"


def _refuse_misfits(text: str, columns: Columns) -> None:
    for name, values in columns.items():
        if len(values) != len(text):
            raise InputError("track_misfits", name=name, values=len(values), letters=len(text))
