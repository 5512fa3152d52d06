"""Figures of heads over a corpus: the profile of one, its history over training, all in a plane and in a tree."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from transformer.figures import labels
from transformer.figures.theme import ink, legend, template, theme

_SIZE = 520


def offset_profile(
    offsets: Sequence[int],
    share: Float[np.ndarray, " offset"],
    spread: Float[np.ndarray, " offset"],
    chance: Float[np.ndarray, " offset"],
    *,
    names: tuple[str, str],
    axis: str,
    quantity: str,
    dark: bool = False,
) -> go.Figure:
    """The mean weight at each offset as bars, the spread between sentences as whiskers, the chance level as a line."""
    colours = theme(dark)
    whiskers = dict(type="data", array=np.nan_to_num(spread), color=colours.faint, thickness=1, width=2)
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
        template=template(dark), height=320, margin=dict(l=60, r=16, t=36, b=48), bargap=0.2,
        legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(title=axis, dtick=4), yaxis=dict(title=quantity, rangemode="tozero"),
    )  # fmt: skip
    return ink(figure, colours)


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
    figure = go.Figure(
        [
            go.Scatter(
                x=list(moments), y=values, name=labels.safe(name), mode="lines+markers",
                line=dict(color=colours.series[i % len(colours.series)], width=2),
                hovertemplate="%{x}: %{y:.3f}<extra>%{fullData.name}</extra>",
            )
            for i, (name, values) in enumerate(series.items())
        ]
    )  # fmt: skip
    figure.update_layout(
        template=template(dark), height=340, margin=dict(l=60, r=16, t=60, b=48),
        legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(title=axis, type="category"), yaxis=dict(title=quantity, rangemode="tozero"),
    )  # fmt: skip
    return ink(figure, colours)


def plane_of_heads(
    places: Float[np.ndarray, "head 2"],
    names: Sequence[str],
    groups: Int[np.ndarray, " head"],
    notes: Sequence[str],
    *,
    selected: int | None = None,
    dark: bool = False,
) -> go.Figure:
    """Each head as a point with its name; a group has its own colour and symbol, both axes have one scale."""
    colours = theme(dark)
    symbols = ("circle", "square", "diamond", "cross", "triangle-up", "star", "hexagon", "x")
    size = len(colours.series)
    hovers = [f"{labels.isolated(name)}<br>{labels.safe(note)}" for name, note in zip(names, notes, strict=True)]
    figure = go.Figure(
        go.Scatter(
            x=places[:, 0], y=places[:, 1], mode="markers+text", text=list(names), textposition="top center",
            customdata=list(range(len(names))),
            hovertext=hovers,
            hovertemplate="%{hovertext}<extra></extra>",
            marker=dict(
                size=12, color=[colours.series[group % size] for group in groups],
                symbol=[symbols[group // size % len(symbols)] for group in groups],
                line=dict(width=[3 if i == selected else 0 for i in range(len(names))], color=colours.ink),
            ),
        )
    )  # fmt: skip
    plain = dict(showticklabels=False, title=None)
    figure.update_layout(
        template=template(dark), height=_SIZE, margin=dict(l=16, r=16, t=24, b=16), showlegend=False,
        xaxis=dict(**plain, scaleanchor="y"), yaxis=plain,
    )  # fmt: skip
    return ink(figure, colours)


def tree_of_heads(
    tree: Float[np.ndarray, "merge 4"],
    names: Sequence[str],
    groups: Int[np.ndarray, " head"],
    cut: float,
    *,
    axis: str,
    dark: bool = False,
) -> go.Figure:
    """The tree of average linkage, the height of each join on the axis, with the cut as a line."""
    from scipy.cluster.hierarchy import dendrogram  # late: it would hold up the start of every page

    colours = theme(dark)
    drawn = dendrogram(tree, no_plot=True, labels=list(names))
    figure = go.Figure()
    for heights, places in zip(drawn["dcoord"], drawn["icoord"], strict=True):
        figure.add_scatter(
            x=heights, y=places, mode="lines", line=dict(color=colours.faint, width=1.5),
            hovertemplate="%{x:.3f}<extra></extra>",
        )  # fmt: skip
    figure.add_vline(x=cut, line=dict(color=colours.second, dash="dash", width=1.5))
    places = [5 + 10 * i for i in range(len(names))]
    order = [list(names).index(name) for name in drawn["ivl"]]
    figure.add_scatter(
        x=[0.0] * len(names), y=places, mode="markers", hoverinfo="skip",
        marker=dict(size=9, color=[colours.series[groups[i] % len(colours.series)] for i in order]),
    )  # fmt: skip
    figure.update_layout(
        template=template(dark), height=max(260, 80 + 24 * len(names)), margin=dict(l=70, r=16, t=16, b=48),
        showlegend=False, xaxis=dict(title=axis, rangemode="tozero"),
        yaxis=dict(tickvals=places, ticktext=[labels.safe(name) for name in drawn["ivl"]], showgrid=False),
    )  # fmt: skip
    return ink(figure, colours)
