"""One matrix as a Plotly heatmap, for notebooks: queries down, keys across, one colour a number.

The array that is drawn is the picture's own. The scale of weights is fixed from 0 to 1, so heads compare.
Masked cells are left blank on a grey ground, and say so on hover, as cells without a finite number do.
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from transformer.messages import say, words
from transformer.plots import labels
from transformer.plots.axes import Axis
from transformer.plots.picture import Picture
from transformer.plots.theme import SEQUENTIAL, ink, scale, theme

LARGEST_CELL = 48
"""Pixels along one side of a cell where there are few."""

WIDEST, TALLEST = 720, 600
"""Pixels that all cells take up where there are many."""


def heatmap(picture: Picture, *, dark: bool = False) -> go.Figure:
    """One head, large: rows are queries (the first on top), columns are keys.

    Probabilities have the scale 0 to 1. Any other unit (scores) has a scale centred at 0, and its range is named. Above
    512 x 512 cells, draw an overview or a tile: every cell of a picture goes to the browser.
    """
    colours, (n_queries, n_keys) = theme(dark), picture.values.shape
    shown = picture.visible & np.isfinite(picture.values)
    low, high, unit = _scale(picture, shown)
    figure = go.Figure(
        go.Heatmap(
            z=np.where(shown, picture.values, np.nan),
            name=labels.safe(picture.quantity.noun),
            text=_texts(picture),
            zmin=low,
            zmax=high,
            colorscale=scale(SEQUENTIAL) if picture.quantity.is_probability else scale(colours.diverging),
            colorbar=dict(title=dict(text=unit, side="right")),
            hoverongaps=True,
            hovertemplate=words("figure_cell", query="%{y}", key="%{x}", value="%{text}") + "<extra></extra>",
        )
    )
    cell = min(LARGEST_CELL, WIDEST / max(n_keys, 1), TALLEST / max(n_queries, 1))
    note = labels.wrapped(labels.joined(picture.below_title) if picture.below_title else "", 720.0)
    amber = {"color": colours.second} if picture.is_unsure else {}
    figure.update_layout(
        title=dict(text=labels.safe(say(picture.title)), subtitle=dict(text=note, font=amber)),
        width=max(320, round(cell * n_keys)) + 240,
        height=max(60, round(cell * n_queries)) + 240,
        plot_bgcolor=colours.masked,
        xaxis=_axis(picture.keys, words("figure_key", text=picture.keys.name), side="top"),
        yaxis=_axis(picture.queries, words("figure_query", text=picture.queries.name), autorange="reversed"),
    )
    if not picture.values.size:
        nothing = dict(showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
        figure.add_annotation(text=words("figure_no_tokens"), **nothing)
    return ink(figure, colours)


def _scale(picture: Picture, shown: np.ndarray) -> tuple[float, float, str]:
    """The lowest and highest number that have a colour, and what the colour bar says."""
    values, unit = picture.values[shown], labels.safe(picture.unit)
    if picture.quantity.is_probability:
        return 0.0, 1.0, unit
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    limit = max(abs(low), abs(high)) or 1.0
    return -limit, limit, f"{unit}<br>{words('figure_centred', low=low, high=high)}"


def _texts(picture: Picture) -> list[list[str]]:
    """What each cell says on hover."""
    noun, masked = picture.quantity.noun, words("figure_masked_cell")

    def text(value: float, visible: bool) -> str:
        if not visible:
            return masked
        if not np.isfinite(value):
            return words("figure_not_finite_value", value=f"{value:.6g}")
        return words("figure_value", quantity=noun, number=f"{value:.6g}")

    return [
        [text(value, visible) for value, visible in zip(row, shown, strict=True)]
        for row, shown in zip(picture.values.tolist(), picture.visible.tolist(), strict=True)
    ]


def _axis(axis: Axis, title: str, **more: Any) -> dict[str, Any]:
    """Every position is named by its label, which is unique; hover says it whole."""
    return dict(title=labels.safe(title), showgrid=False, **labels.whole(axis), **more)
