"""A bar a written token: how much of what it came from is the source's, and how much the prefix's."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.figures import labels
from transformer.figures.theme import ink, theme
from transformer.messages import words
from transformer.pictures.axes import Axis

_COLUMN = 34.0
"""Pixels for each token."""


def source_share_bars(steps: Axis, share: Float[np.ndarray, " step"], *, dark: bool = False) -> go.Figure:
    """Two stacked bars for each step, which make 1 together: source below, prefix above.

    A step that received nothing (NaN) has no bar.
    """
    colours = theme(dark)
    figure = go.Figure()
    for name, part, colour in (
        (words("figure_share_source"), share, colours.accent),
        (words("figure_share_prefix"), 1 - share, colours.second),
    ):
        figure.add_trace(
            go.Bar(
                x=list(range(len(steps))),
                y=part,
                name=name,
                marker=dict(color=colour),
                hovertext=[labels.isolated(text) for text in steps.labels],
                hovertemplate="%{hovertext}<br>%{y:.3f}<extra>%{fullData.name}</extra>",
            )
        )
    upright = labels.width(steps.texts) > _COLUMN
    figure.layout = dict(
        barmode="stack",
        height=280,
        width=max(320, round(90 + _COLUMN * len(steps))),
        margin=dict(l=60, r=24, t=40, b=100 if upright else 50),
        bargap=0.25,
        legend=dict(orientation="h", x=0, y=1.02, yanchor="bottom"),
        xaxis=dict(**labels.ticks(steps, _COLUMN), tickangle=-60 if upright else 0, showgrid=False),
        yaxis=dict(title=words("figure_share_axis"), range=[0, 1], tickvals=[0, 0.25, 0.5, 0.75, 1]),
    )
    return ink(figure, colours)
