"""Pictures of weights as numbers: the histogram of a tensor. They know NumPy arrays and labels alone."""

from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from transformer.figures.labels import safe
from transformer.figures.theme import ink, theme
from transformer.messages import words


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
    colour = theme(dark).accent
    x_name, y_name = x_name or words("figure_value_axis"), y_name or words("figure_count_axis")
    ranges = [f"{low:.4g} … {high:.4g}" for low, high in pairwise(edges.tolist())]
    bars = go.Bar(
        x=(edges[:-1] + edges[1:]) / 2, y=counts, width=np.diff(edges), marker=dict(color=colour, line=dict(width=0)),
        customdata=ranges, hovertemplate="%{customdata}<br>%{y:,}<extra></extra>",
    )  # fmt: skip
    layout = dict(
        height=280, margin=dict(l=8, r=8, t=40, b=8), title=dict(text=safe(title)),
        xaxis=dict(title=dict(text=x_name)), yaxis=dict(title=dict(text=y_name)), bargap=0, showlegend=False,
    )  # fmt: skip
    return ink(go.Figure(bars, layout=layout), theme(dark))
