"""What is left when heads are removed: one line for each order, over the share of heads that is off."""

from collections.abc import Sequence

import plotly.graph_objects as go

from transformer.figures import labels
from transformer.figures.growth import Line
from transformer.figures.theme import ink, legend, theme
from transformer.messages import say, words

DASHES = ("solid", "dash", "dot", "dashdot")


def removal_curves(lines: Sequence[Line], quantity: str, dark: bool = False) -> go.Figure:
    """Values (`quantity`, with its unit) over the share of heads that is off, in percent."""
    colours = theme(dark)
    figure = go.Figure()
    for number, line in enumerate(lines):
        shown = labels.short(say(line.name), 48)
        colour = colours.series[number % len(colours.series)]
        figure.add_trace(
            go.Scatter(
                x=list(line.lengths),
                y=list(line.values),
                name=shown,
                mode="lines+markers",
                line=dict(color=colour, dash=DASHES[number % len(DASHES)], width=2),
                hovertemplate=f"%{{x}} %: %{{y:.3f}}<extra>{shown}</extra>",
            )
        )
    figure.layout = dict(
        height=400,
        margin=dict(l=64, r=16, t=16, b=110),
        hovermode="closest",
        legend=legend(y=-0.25, yanchor="top"),
        showlegend=True,
        xaxis=dict(title=words("figure_heads_off"), ticksuffix=" %", tickangle=0, dtick=10),
        yaxis=dict(title=labels.safe(quantity)),
    )
    return ink(figure, colours)
