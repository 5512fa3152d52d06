"""How far two alignments agree, word by word."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.figures import labels
from transformer.figures.theme import ink, theme
from transformer.pictures.axes import Axis

_COLUMN = 34.0
"""Pixels for each word."""


def agreement_bars(
    queries: Axis,
    agreement: Float[np.ndarray, " query"],
    mean: float,
    notes: Sequence[str],
    *,
    quantity: str,
    mean_name: str,
    dark: bool = False,
) -> go.Figure:
    """One bar from 0 to 1 for each target word, and the mean as a line; `notes` is said of each word on hover.

    A word without an answer (NaN) has no bar.
    """
    colours = theme(dark)
    hovers = [
        f"{labels.isolated(text)}<br>{labels.safe(note)}" for text, note in zip(queries.labels, notes, strict=True)
    ]
    figure = go.Figure(
        go.Bar(
            x=list(range(len(queries))),
            y=agreement,
            marker=dict(color=[colours.faint if mark else colours.accent for mark in queries.special]),
            hovertext=hovers,
            hovertemplate="%{hovertext}<br>%{y:.4f}<extra></extra>",
        )
    )
    if np.isfinite(mean):
        figure.add_hline(
            y=mean,
            line=dict(color=colours.second, dash="dash", width=1.5),
            annotation=dict(text=f"{labels.safe(mean_name)} {mean:.2f}", font=dict(color=colours.second)),
            annotation_position="top right",
        )
    upright = labels.width(queries.texts) > _COLUMN
    figure.update_layout(
        height=300,
        width=max(320, round(90 + _COLUMN * len(queries))),
        margin=dict(l=60, r=24, t=24, b=100 if upright else 50),
        bargap=0.25,
        showlegend=False,
        xaxis=dict(**labels.ticks(queries, _COLUMN), tickangle=-60 if upright else 0, showgrid=False),
        yaxis=dict(title=quantity, range=[0, 1.05], tickvals=[0, 0.25, 0.5, 0.75, 1]),
    )
    return ink(figure, colours)
