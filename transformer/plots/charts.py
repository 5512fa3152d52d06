"""Charts: one matrix as a heatmap for notebooks, lines over the same positions, the history of a training, bars."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..distribution import extra
from ..messages import Message, say, words
from . import labels
from .picture import UNSURE, Picture
from .theme import ink, legend, theme

with extra("plots"):
    import plotly.graph_objects as go

DASHES = ("solid", "dash", "dot", "dashdot")

LARGE = 1e4
"""Numbers from here on are written with a letter for thousands, millions and so on."""

CROWDED = 6
"""Names of more positions are written upright."""

FIRST_UPDATE = 5
"""Where update 0 stands on a logarithmic scale of updates."""


def heatmap(picture: Picture) -> go.Figure:
    """One head, large: rows are queries (the first on top), columns are keys; masked cells are empty.

    Probabilities have the scale 0 to 1, any other quantity one that is centred at 0. What was changed and what has to
    be known stands below the title, in amber where it is an assumption. Every cell goes to the browser.
    """
    colours, is_probability = theme(dark=False), picture.quantity.is_probability
    values = np.where(picture.visible, picture.values, np.nan)
    scales = json.loads((Path(__file__).parent / "canvas/shared/scales.json").read_text("utf-8"))  # those of the views
    stops = scales["sequential"] if is_probability else scales["diverging"]["light"]
    largest = 1.0 if is_probability else float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0
    queries, keys = (
        dict(tickvals=[*range(len(axis))], ticktext=[*map(labels.isolated, axis.labels)], showgrid=False,
             title=labels.safe(words(code, text=axis.name)))
        for axis, code in ((picture.queries, "figure_query"), (picture.keys, "figure_key"))
    )  # fmt: skip
    below = (*picture.changes, *picture.notes)
    is_unsure = any(isinstance(note, Message) and note.code in UNSURE for note in below)
    font = dict(color=colours.second if is_unsure else colours.ink)
    subtitle = dict(text="<br>".join(map(labels.safe, below)), font=font)
    figure = go.Figure(
        go.Heatmap(
            z=values, zmin=0.0 if is_probability else -largest, zmax=largest,
            colorscale=[[i / (len(stops) - 1), f"#{bytes(stop).hex()}"] for i, stop in enumerate(stops)],
            colorbar=dict(title=dict(text=labels.safe(picture.unit), side="right")),
            hovertemplate=words("figure_cell", query="%{y}", key="%{x}", value="%{z:.6g}") + "<extra></extra>",
        ),
        layout=dict(
            title=dict(text=labels.safe(say(picture.title)), subtitle=subtitle),
            width=min(720, 24 * len(picture.keys)) + 280, height=min(600, 24 * len(picture.queries)) + 240,
            xaxis=keys | dict(side="top"), yaxis=queries | dict(autorange="reversed"),
        ),
    )  # fmt: skip
    return ink(figure, colours)


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


def offset_profile(
    offsets: Sequence[int],
    share: Float[np.ndarray, " offset"],
    error: Float[np.ndarray, " offset"],
    chance: Float[np.ndarray, " offset"],
    *,
    names: tuple[str, str],
    axis: str,
    quantity: str,
    dark: bool = False,
) -> go.Figure:
    """The mean weight at each offset as bars, its standard error as whiskers, the chance level as a line."""
    colours = theme(dark)
    whiskers = dict(type="data", array=np.nan_to_num(error), color=colours.faint, thickness=1, width=2)
    figure = go.Figure(
        [
            go.Bar(x=list(offsets), y=share, error_y=whiskers, name=names[0], marker_color=colours.accent),
            go.Scatter(
                x=list(offsets), y=chance, name=names[1], mode="lines",
                line=dict(color=colours.second, dash="dash", width=1.5),
            ),
        ]
    )  # fmt: skip
    figure.update_traces(hovertemplate="%{x}: %{y:.4f}<extra></extra>")
    figure.update_layout(
        height=320, margin=dict(l=60, r=16, t=36, b=48), bargap=0.2,
        legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(title=axis, dtick=4), yaxis=dict(title=quantity, rangemode="tozero"),
    )  # fmt: skip
    return ink(figure, colours)
