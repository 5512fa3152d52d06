"""Pictures of the lessons: a table of numbers, curves, bars. They know NumPy arrays and labels alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots

from transformer.messages import words
from transformer.plots.labels import safe
from transformer.plots.theme import ink, legend, scale, theme


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


def curves(
    lines: Mapping[str, Float[np.ndarray, " point"]],
    x_name: str,
    y_name: str,
    *,
    x: Sequence[float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    mark: float | None = None,
    points: Mapping[str, Float[np.ndarray, " point"]] | None = None,
    points_name: str = "",
    dots: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Lines over the same positions, named in the legend, which stands below; `mark` is a position on the x axis.

    `points` are drawn as circles in the colour of the line of that name; in the legend they are called `points_name`
    too. `dots` are the positions of every line, by their place in it, that are marked.
    """
    traces = list[go.Scatter]()
    palette = theme(dark).series
    for i, (name, values) in enumerate(lines.items()):
        at = np.arange(len(values)) if x is None else np.asarray(x, dtype=float)  # a list is looked at number by number
        colour = palette[i % len(palette)]
        style = dict(color=colour, dash=("solid", "dash", "dot")[i // len(palette) % 3])
        line: dict[str, Any] = dict(y=np.asarray(values), name=safe(name), legendgroup=i)
        traces.append(go.Scatter(line, x=at, mode="lines", line=style))
        if dots:
            marked, heights = at[list(dots)], line["y"][list(dots)]
            dot = dict(color=colour, size=5)
            traces.append(go.Scatter(line | dict(y=heights), x=marked, mode="markers", marker=dot, showlegend=False))
        if points and name in points:
            circle = dict(color=colour, size=8, symbol="circle-open")
            title = f"{safe(name)}, {safe(points_name)}"
            traces.append(go.Scatter(x=at, y=points[name], mode="markers", name=title, marker=circle))
    # Below the axis: above the picture, the buttons of a narrow window would cover it.
    below = dict(showlegend=True, legend=legend(yref="container", y=0, yanchor="bottom"))
    layout = _layout(x_name, y_name)
    figure = go.Figure(traces, layout=layout | below | dict(margin=layout["margin"] | dict(b=90)))
    if log_x:
        ticks = [step * 10.0**power for power in range(-3, 6) for step in (1, 3)]
        figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    if log_y:
        figure.update_yaxes(type="log", dtick=1)
    if mark is not None:
        figure.add_vline(mark, line=dict(color=theme(dark).ink, dash="dash"))
    return ink(figure, theme(dark))


def grouped_bars(
    groups: Mapping[str, Float[np.ndarray, " item"]], items: Sequence[str], y_name: str, *, dark: bool = False
) -> go.Figure:
    """Bars side by side, one group an item."""
    figure = go.Figure(layout=_layout("", y_name))
    palette = theme(dark).series
    positions = list(range(len(items)))
    for i, (name, values) in enumerate(groups.items()):
        figure.add_trace(go.Bar(x=positions, y=values, name=safe(name), marker_color=palette[i % len(palette)]))
    names, crowded = [safe(item) for item in items], sum(map(len, items)) > 30
    figure.update_xaxes(tickmode="array", tickvals=positions, ticktext=names, tickangle=-40 if crowded else 0)
    figure.update_layout(barmode="group", showlegend=True, legend=legend(y=1.02, yanchor="bottom"))
    return ink(figure, theme(dark))


def _layout(x_name: str, y_name: str) -> dict[str, Any]:
    return dict(
        xaxis=dict(title=dict(text=x_name)),
        yaxis=dict(title=dict(text=y_name)),
        margin=dict(l=60, r=20, t=30, b=50),
        height=420,
        modebar=dict(orientation="v"),
    )
