"""Bars: the histogram of a tensor's numbers, and groups of bars side by side."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from transformer.messages import words
from transformer.plots import labels
from transformer.plots.theme import ink, legend, theme


def histogram(
    counts: Int[np.ndarray, " bin"],
    edges: Float[np.ndarray, " edge"],
    title: str,
    x_name: str = "",
    y_name: str = "",
    *,
    dark: bool = False,
) -> go.Figure:
    """Bars of `counts` between `edges`, each as wide as its bin; axes without a name are called value and numbers."""
    ranges = [f"{low:.4g} … {high:.4g}" for low, high in pairwise(edges.tolist())]
    bars = go.Bar(
        x=(edges[:-1] + edges[1:]) / 2, y=counts, width=np.diff(edges), customdata=ranges,
        hovertemplate="%{customdata}<br>%{y:,}<extra></extra>", marker=dict(color=theme(dark).accent, line_width=0),
    )  # fmt: skip
    heading = labels.wrapped(title, labels.NARROW, 14.0)
    layout = dict(
        height=280, margin=dict(l=8, r=8, t=40 + 18 * heading.count("<br>"), b=8), bargap=0, showlegend=False,
        title=dict(text=heading, font=dict(size=14)),
        xaxis=dict(title=x_name or words("figure_value_axis")), yaxis=dict(title=y_name or words("figure_count_axis")),
    )  # fmt: skip
    return ink(go.Figure(bars, layout=layout), theme(dark))


def grouped_bars(
    groups: Mapping[str, Float[np.ndarray, " item"]], items: Sequence[str], y_name: str, *, dark: bool = False
) -> go.Figure:
    """Bars side by side, one group an item."""
    colours, positions = theme(dark), list(range(len(items)))
    bars = [
        go.Bar(x=positions, y=values, name=labels.safe(name), marker_color=colours.series[i % len(colours.series)])
        for i, (name, values) in enumerate(groups.items())
    ]
    names, crowded = [labels.safe(item) for item in items], sum(map(len, items)) > 30
    layout = dict(
        height=420, margin=dict(l=60, r=20, t=30, b=50), modebar=dict(orientation="v"), barmode="group",
        showlegend=True, legend=legend(y=1.02, yanchor="bottom"), yaxis=dict(title=labels.safe(y_name)),
        xaxis=dict(tickmode="array", tickvals=positions, ticktext=names, tickangle=-40 if crowded else 0),
    )  # fmt: skip
    return ink(go.Figure(bars, layout=layout), colours)
