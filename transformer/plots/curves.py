"""Curves: any number of lines over the same positions, and the history of a training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.messages import words
from transformer.plots import labels
from transformer.plots.theme import ink, legend, theme

DASHES = ("solid", "dash", "dot", "dashdot")

LARGE = 1e4
"""Numbers from here on are written with a letter for thousands, millions and so on."""

CROWDED = 6
"""Names of more positions are written upright."""

FIRST_UPDATE = 5
"""Where update 0 stands on a logarithmic scale of updates."""


def curves(
    lines: Mapping[str, Float[np.ndarray, " point"] | Sequence[float]],
    x_name: str,
    y_name: str,
    *,
    x: Sequence[float] | Sequence[int] | Sequence[str] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    mark: float | None = None,
    mark_name: str = "",
    points: Mapping[str, Float[np.ndarray, " point"]] | None = None,
    points_name: str = "",
    dots: Sequence[int] = (),
    dashed: bool = False,
    dark: bool = False,
) -> go.Figure:
    """Lines over the same positions, named in the legend, which stands below; `mark` is a position on the x axis.

    Positions are numbers, or names (one after the other). `points` are drawn as circles in the colour of the line of
    that name; in the legend they are called `points_name` too. `dots` are the positions of every line, by their place
    in it, that are marked. `dashed` lines differ in more than their colours.
    """
    colours, traces = theme(dark), list[go.Scatter]()
    palette, named = colours.series, x is not None and isinstance(x[0], str)
    large = any(np.nanmax(np.abs(values), initial=0.0) >= LARGE for values in lines.values())
    hover = f"%{{x}}: %{{y:{'.4~s' if large else '.4~g'}}}<extra>%{{fullData.name}}</extra>"
    for i, (name, values) in enumerate(lines.items()):
        at = np.asarray(range(len(values)) if x is None else x[: len(values)])  # a list is looked at number by number
        colour = palette[i % len(palette)]
        style = dict(color=colour, dash=DASHES[(i if dashed else i // len(palette)) % len(DASHES)])
        line: dict[str, Any] = dict(
            y=np.asarray(values), name=labels.short(name, 48), legendgroup=i, hovertemplate=hover
        )
        traces.append(go.Scatter(line, x=at, mode="lines", line=style))
        if dots:
            marked, heights = at[list(dots)], line["y"][list(dots)]
            dot = dict(color=colour, size=5)
            traces.append(go.Scatter(line | dict(y=heights), x=marked, mode="markers", marker=dot, showlegend=False))
        if points and name in points:
            circle = dict(color=colour, size=8, symbol="circle-open")
            title = f"{labels.safe(name)}, {labels.safe(points_name)}"
            traces.append(go.Scatter(x=at, y=points[name], mode="markers", name=title, marker=circle))
    figure = go.Figure(
        traces,
        layout=dict(
            height=420, margin=dict(l=60, r=20, t=30, b=90), modebar=dict(orientation="v"), showlegend=True,
            xaxis=dict(title=labels.safe(x_name)), yaxis=dict(title=labels.safe(y_name)),
            # Below the axis: above the picture, the buttons of a narrow window would cover it.
            legend=legend(yref="container", y=0, yanchor="bottom"),
        ),
    )  # fmt: skip
    if named and x is not None:
        figure.update_xaxes(type="category", tickangle=-90 if len(x) > CROWDED else 0)
    if log_x:
        ticks = [step * 10.0**power for power in range(-3, 6) for step in (1, 3)]
        figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    if log_y:
        figure.update_yaxes(type="log", dtick=1, exponentformat="SI" if large else None)
    if mark is not None:
        figure.add_vline(mark, line=dict(color=colours.ink, dash="dash"))
    if mark is not None and mark_name:
        where = float(np.log10(mark)) if log_x else mark  # on a logarithmic axis Plotly wants exponents for texts
        above = dict(x=where, y=1, yref="paper", yanchor="bottom", showarrow=False)
        figure.add_annotation(text=labels.safe(mark_name), **above)
    return ink(figure, colours)


def training(
    updates: Sequence[int],
    shares: Mapping[str, Sequence[float | None]],
    losses: Mapping[str, Sequence[float | None]],
    rate: tuple[str, Sequence[float]],
    *,
    at: int,
    axis: str,
    dark: bool = False,
) -> go.Figure:
    """What was measured over a training: shares of 1 above; losses (nats) and the learning rate below, by own scales.

    `at` is the update that is looked at.
    """
    colours = theme(dark)
    figure = go.Figure()
    places = [max(FIRST_UPDATE, update) for update in updates]
    ticks = [FIRST_UPDATE, *(n for n in (10, 30, 100, 300, 1_000, 3_000) if n <= max(places))]
    for i, (name, values) in enumerate({**shares, **losses, rate[0]: rate[1]}.items()):
        place = "y" if name in shares else "y2" if name in losses else "y3"
        figure.add_scatter(
            x=places, y=list(values), name=labels.safe(name), mode="lines+markers", yaxis=place, customdata=updates,
            line=dict(color=colours.series[i % len(colours.series)], width=2, dash="dot" if place == "y3" else "solid"),
            marker=dict(size=5), hovertemplate="%{customdata}: %{y:.4g}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.add_vline(x=max(FIRST_UPDATE, at), line=dict(color=colours.chosen, width=1.5, dash="dot"))
    figure.update_layout(
        height=400, margin=dict(l=48, r=64, t=8, b=8), legend=legend(y=0, yref="container", yanchor="bottom"),
        xaxis=dict(
            title=axis, type="log", anchor="y2", tickangle=0, tickvals=ticks, ticktext=["0", *map(str, ticks[1:])]
        ),
        yaxis=dict(range=[0, 1.04], domain=[0.48, 1], dtick=0.5),
        yaxis2=dict(domain=[0, 0.4], rangemode="tozero", title=words("figure_nats")),
        yaxis3=dict(overlaying="y2", side="right", rangemode="tozero", showgrid=False, title=labels.safe(rate[0])),
    )  # fmt: skip
    return ink(figure, colours)
