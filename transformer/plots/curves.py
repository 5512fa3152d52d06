"""Curves: costs over length, what is left when heads are removed, a training's history, calibration."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.messages import words
from transformer.plots import labels
from transformer.plots.theme import ink, legend, theme

DASHES = ("solid", "dash", "dot", "dashdot")


FIRST_UPDATE = 5
"""Where update 0 stands on a logarithmic scale of updates."""


@dataclass(frozen=True)
class Line:
    """A model's name, and its value at each length."""

    name: str
    lengths: Sequence[int]
    values: Sequence[float]


def growth(
    lines: Sequence[Line], quantity: str, *, length: int | None = None, length_name: str = "", axis: str = "",
    dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Values (`quantity`, with its unit) over length, both on logarithmic scales: n^2 is a line twice as steep as n.

    `length` is marked by an upright line called `length_name`; `axis` names what is counted (tokens, if empty).
    """
    colours, axis = theme(dark), axis or words("figure_tokens")
    pairs = (colours.accent, colours.second)
    figure = go.Figure(list(_lines(lines[:2], pairs, f"%{{x}} {axis}<br>%{{y:.4~s}}")))
    if length is not None:
        figure.add_vline(x=length, line=dict(color=colours.chosen, width=1.5, dash="dot"))
        figure.add_annotation(
            x=math.log10(length),  # on a logarithmic axis Plotly wants exponents for annotations, values for lines
            y=1, yref="paper", yanchor="bottom", text=labels.safe(length_name), showarrow=False,
            font=dict(color=colours.chosen),
        )  # fmt: skip
    lengths = [n for line in lines for n in line.lengths] + ([] if length is None else [length])
    ticks = [2**power for power in range(1, 13) if power % 2 == 0 or max(lengths) <= 512]
    ends = [math.log10(min(lengths) / 1.15), math.log10(max(lengths) * 1.15)]
    figure.update_layout(
        height=340, margin=dict(l=64, r=16, t=36, b=96), hovermode="x", legend=legend(y=-0.3, yanchor="top"),
        xaxis=dict(
            type="log", range=ends, tickangle=0, title=axis, tickvals=ticks, ticktext=[str(tick) for tick in ticks]
        ),
        yaxis=dict(type="log", title=quantity, exponentformat="SI", dtick=1),
    )  # fmt: skip
    return ink(figure, colours)


def removal_curves(lines: Sequence[Line], quantity: str, dark: bool = False) -> go.Figure:
    """Values (`quantity`, with its unit) over the share of heads that is off, in percent."""
    colours = theme(dark)
    figure = go.Figure(list(_lines(lines, colours.series, "%{x} %: %{y:.3f}", dots=True)))
    figure.update_layout(
        height=460, margin=dict(l=64, r=16, t=90, b=48), hovermode="closest", showlegend=True,
        legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(title=words("figure_heads_off"), ticksuffix=" %", tickangle=0, nticks=6),
        yaxis=dict(title=labels.safe(quantity)),
    )  # fmt: skip
    return ink(figure, colours)


FLAT = 6
"""Names of more moments are written upright."""


def histories(
    moments: Sequence[str],
    series: Mapping[str, Float[np.ndarray, " moment"]],
    *,
    axis: str,
    quantity: str,
    dark: bool = False,
) -> go.Figure:
    """A line for each measure over the moments of a training."""
    colours = theme(dark)
    figure = go.Figure()
    for i, (name, values) in enumerate(series.items()):
        figure.add_scatter(
            x=list(moments), y=values, name=labels.safe(name), mode="lines+markers",
            line=dict(color=colours.series[i % len(colours.series)], width=2),
            hovertemplate="%{x}: %{y:.3f}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.update_layout(
        height=340, margin=dict(l=60, r=16, t=60, b=72), legend=legend(y=1.02, yanchor="bottom"),
        yaxis=dict(title=quantity, rangemode="tozero"),
        xaxis=dict(title=axis, type="category", tickangle=-90 if len(moments) > FLAT else 0),
    )  # fmt: skip
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
        yaxis2=dict(domain=[0, 0.4], rangemode="tozero", title=words("figure_tracks_unit")),
        yaxis3=dict(overlaying="y2", side="right", rangemode="tozero", showgrid=False, title=labels.safe(rate[0])),
    )  # fmt: skip
    return ink(figure, colours)


def _lines(lines: Sequence[Line], colours: Sequence[str], hover: str, dots: bool = False) -> Iterator[go.Scatter]:
    for number, line in enumerate(lines):
        name = labels.short(line.name, 48)
        look = dict(color=colours[number % len(colours)], dash=DASHES[number % len(DASHES)], width=2.5)
        yield go.Scatter(
            x=list(line.lengths), y=list(line.values), name=name, mode="lines+markers" if dots else "lines",
            line=look, hovertemplate=f"{hover}<extra>{name}</extra>",
        )  # fmt: skip
