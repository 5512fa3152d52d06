"""Sequence logos: letters stacked by how often they stand at a position, as tall as the position is informative.

Source: Schneider and Stephens 1990, "Sequence logos: a new way to display consensus sequences".
"""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.errors import RecordError
from transformer.messages import words
from transformer.plots.labels import NARROW, wrapped
from transformer.plots.theme import ink, theme

_COLOURS = {"A": "#3b8f4b", "C": "#3d6fb5", "G": "#d08a1d", "T": "#c0392b"}
"""The usual colours of bases; shape, not colour, tells the letters."""

Outline = Sequence[Sequence[tuple[float, float]]]
"""Closed lines in a unit square; one that runs against the others cuts a hole."""


def logo(
    letters: str,
    heights: Float[np.ndarray, "letter position"],
    positions: Sequence[str],
    *,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """The logo of a motif: `heights[i, p]` bits of letter i at position p; `positions` name the columns.

    The scale is fixed from 0 to the most that a position can hold (2 bits for DNA), so logos compare. The largest
    letter is on top.

    Raises:
        RecordError: heights do not fit the letters and positions.
    """
    if heights.shape != (len(letters), len(positions)):
        raise RecordError(
            "logo_heights_do_not_fit", shape=str(heights.shape), letters=len(letters), positions=len(positions)
        )
    colours, most = theme(dark), math.log2(len(letters))
    heading = wrapped(title, NARROW, 14.0)
    lines = heading.count("<br>")
    figure, shapes, names = go.Figure(), list[dict[str, object]](), list[dict[str, object]]()
    for position, column in enumerate(heights.T):
        base = 0.0
        for i in np.argsort(column, kind="stable"):
            if column[i] > most / 500:  # less than a pixel
                shapes.append(_outline(letters[i], position, base, float(column[i])))
                if letters[i] not in _GLYPHS:
                    middle, font = base + float(column[i]) / 2, dict(color=colours.ink)
                    names.append(dict(x=position, y=middle, text=letters[i], showarrow=False, font=font))
            base += float(column[i])
    figure.add_trace(
        go.Scatter(
            x=np.arange(len(positions)),
            y=heights.sum(axis=0),
            text=[_heights_text(letters, column) for column in heights.T],
            mode="markers",
            marker=dict(opacity=0, size=18),
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
    )
    figure.update_layout(
        shapes=shapes, annotations=names,  # all at once: Plotly copies all that are there for each that is added
        title=dict(text=heading, font=dict(size=14), y=1, yref="container", yanchor="top", pad=dict(t=12)),
        height=280 + 18 * lines,
        margin=dict(l=56, r=12, t=44 + 18 * lines if title else 16, b=68),
        xaxis=dict(
            range=[-0.55, len(positions) - 0.45], tickvals=list(range(len(positions))), ticktext=list(positions),
            showgrid=False, fixedrange=True, title=wrapped(words("figure_logo_position"), NARROW - 68),
        ),
        yaxis=dict(range=[0, most], title=words("figure_logo_bits"), fixedrange=True),
    )  # fmt: skip
    return ink(figure, colours)


def _outline(letter: str, position: int, base: float, height: float) -> dict[str, object]:
    """A letter's shape; of one without an outline a block, which bears its name."""
    left, wide = position - 0.45, 0.9
    path = " ".join(
        "M" + " L".join(f"{left + wide * x:.4f},{base + height * y:.5f}" for x, y in line) + " Z"
        for line in _GLYPHS.get(letter, [[(0, 0), (0, 0.97), (1, 0.97), (1, 0)]])
    )
    colour = _COLOURS.get(letter, "#6b7580")
    return dict(type="path", path=path, fillcolor=colour, line=dict(width=0), fillrule="nonzero", layer="above")


def _heights_text(letters: str, column: Float[np.ndarray, " letter"]) -> str:
    order = [i for i in np.argsort(-column, kind="stable") if column[i] > 0]
    parts = ", ".join(f"{letters[i]} {column[i]:.2f}" for i in order)
    bits = float(column.sum())
    return words("figure_logo_heights", bits=bits, letters=parts) if parts else words("figure_logo_height", bits=bits)


def _arc(across: float, high: float, start: float, stop: float) -> list[tuple[float, float]]:
    """Points on an ellipse around the middle of the unit square, between two angles in degrees."""
    angles = np.radians(np.linspace(start, stop, 25))
    return [(0.5 + across * math.cos(a), 0.5 + high * math.sin(a)) for a in angles]


_C = _arc(0.5, 0.5, 42.0, 318.0) + _arc(0.29, 0.34, 318.0, 42.0)
_GLYPHS: dict[str, Outline] = {
    "A": [
        [(0, 0), (0.22, 0), (0.31, 0.24), (0.69, 0.24), (0.78, 0), (1, 0), (0.61, 1), (0.39, 1)],
        [(0.37, 0.4), (0.5, 0.78), (0.63, 0.4)],
    ],
    "C": [_C],
    "G": [_C, [(0.54, 0.36), (0.79, 0.36), (0.79, 0.08), (0.98, 0.08), (0.98, 0.52), (0.54, 0.52)]],
    "T": [[(0.39, 0), (0.61, 0), (0.61, 0.85), (1, 0.85), (1, 1), (0, 1), (0, 0.85), (0.39, 0.85)]],
}
"""Outlines of the bases, counter-clockwise; the hole of A runs clockwise."""
