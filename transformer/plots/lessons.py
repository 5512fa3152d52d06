"""Tables of numbers below each other, on one scale."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots

from transformer.messages import words
from transformer.plots.labels import safe
from transformer.plots.theme import ink, scale, theme


def table_grid(
    tables: Mapping[str, Float[np.ndarray, "row column"]],
    differences: Mapping[str, Float[np.ndarray, "row column"]],
    axes: tuple[str, str],
    *,
    dark: bool = False,
) -> go.Figure:
    """Tables below each other on one scale; beside each, on another, its difference from the first.

    `axes` names rows and columns. Tables of one width are zoomed together.
    """
    colours, first = theme(dark), safe(next(iter(tables)))
    titles = [(safe(name), words("figure_minus", first=first) if name in differences else "") for name in tables]
    figure = make_subplots(
        len(tables), 2, shared_yaxes=True, horizontal_spacing=0.05, vertical_spacing=0.085,
        subplot_titles=[title for pair in titles for title in pair],
    )  # fmt: skip
    scales, alike = {}, dict[int, str]()
    for column, group in enumerate((tables, differences), 1):
        largest = max((float(np.abs(values).max()) for values in group.values()), default=0.0) or 1.0
        bar = dict(orientation="h", thickness=10, len=0.46, x=(0.24, 0.76)[column - 1], y=-0.09, yanchor="top",
                   tickfont=dict(color=colours.ink))  # fmt: skip
        scales["coloraxis" + "2" * (column - 1)] = dict(
            cmin=-largest, cmax=largest, colorscale=scale(colours.diverging), colorbar=bar
        )
        for row, name in enumerate(tables, 1):
            if name in group:
                hover = f"{axes[0]} %{{y}}<br>{axes[1]} %{{x}}<br>%{{z:.4f}}<extra>{safe(name)}</extra>"
                heat = go.Heatmap(
                    z=group[name].astype(np.float32), coloraxis="coloraxis" + "2" * (column - 1), hovertemplate=hover
                )
                figure.add_trace(heat, row=row, col=column)
                axis = figure.data[-1].xaxis
                if (first_alike := alike.setdefault(group[name].shape[1], axis)) != axis:
                    figure.update_xaxes(matches=first_alike, row=row, col=column)
    height = 145 * len(tables) + 120
    figure.update_layout(height=height, margin=dict(l=40, r=30, t=30, b=90), showlegend=False, **scales)
    figure.update_yaxes(autorange="reversed")
    figure.update_annotations(font=dict(size=12))
    return ink(figure, colours)
