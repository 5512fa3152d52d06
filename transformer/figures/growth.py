"""How costs grow with the length of a sentence: one line for each of several models, one mark for a sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from transformer.figures import labels
from transformer.figures.theme import ink, legend, theme
from transformer.messages import words


@dataclass(frozen=True)
class Line:
    """A model's name, and its value at each length."""

    name: str
    lengths: Sequence[int]
    values: Sequence[float]


def growth(
    lines: Sequence[Line], quantity: str, *, length: int | None = None, length_name: str = "", axis: str = "",
    dots: bool = False, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Values (`quantity`, with its unit) over length, both on logarithmic scales: n^2 is a line twice as steep as n.

    `length` is marked by an upright line called `length_name`; `axis` names what
    is counted (tokens, if empty); `dots` mark what was measured.
    """
    colours, axis = theme(dark), axis or words("figure_tokens")
    figure = go.Figure()
    for line, colour, dash in zip(lines, (colours.accent, colours.second), ("solid", "dash"), strict=False):
        figure.add_trace(
            go.Scatter(
                x=list(line.lengths),
                y=list(line.values),
                name=labels.short(line.name, 48),
                mode="lines+markers" if dots else "lines",
                line=dict(color=colour, dash=dash, width=2.5),
                hovertemplate=f"%{{x}} {axis}<br>%{{y:.4~s}}<extra>{labels.short(line.name, 48)}</extra>",
            )
        )
    if length is not None:
        figure.add_vline(x=length, line=dict(color=colours.chosen, width=1.5, dash="dot"))
        figure.add_annotation(
            x=math.log10(length),  # on a logarithmic axis Plotly wants exponents for annotations, values for lines
            y=1,
            yref="paper",
            yanchor="bottom",
            text=labels.safe(length_name),
            showarrow=False,
            font=dict(color=colours.chosen),
        )
    lengths = [n for line in lines for n in line.lengths] + ([] if length is None else [length])
    ticks = [2**power for power in range(1, 13) if power % 2 == 0 or max(lengths) <= 512]
    ends = [math.log10(min(lengths) / 1.15), math.log10(max(lengths) * 1.15)]
    figure.update_layout(
        height=340,
        margin=dict(l=64, r=16, t=36, b=96),
        hovermode="x",
        legend=legend(y=-0.3, yanchor="top"),
        xaxis=dict(
            type="log", range=ends, tickangle=0, title=axis, tickvals=ticks, ticktext=[str(tick) for tick in ticks]
        ),
        yaxis=dict(type="log", title=quantity, exponentformat="SI", dtick=1),
    )
    return ink(figure, colours)
