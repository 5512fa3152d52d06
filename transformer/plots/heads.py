"""Figures of heads over a corpus: the profile of one, all in a plane and in a tree, and two models side by side."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from transformer.plots import labels
from transformer.plots.theme import SEQUENTIAL, ink, legend, theme

LARGEST_DISTANCE = float(np.sqrt(np.log(2)))
"""The largest distance that two heads can have, as the root of a Jensen-Shannon divergence in nats."""

_RING = "#ff1f6b"
"""Marks a cell; no colour of the scale is near it."""

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
        height=320, margin=dict(l=60, r=16, t=36, b=48), bargap=0.2,
        legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(title=axis, dtick=4), yaxis=dict(title=quantity, rangemode="tozero"),
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
        height=_SIZE, margin=dict(l=16, r=16, t=24, b=16), showlegend=False,
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
        height=max(260, 80 + 24 * len(names)), margin=dict(l=70, r=16, t=16, b=48),
        showlegend=False, xaxis=dict(title=axis, rangemode="tozero"),
        yaxis=dict(tickvals=places, ticktext=[labels.safe(name) for name in drawn["ivl"]], showgrid=False),
    )  # fmt: skip
    return ink(figure, colours)


def distance_map(
    distances: Float[np.ndarray, "first second"],
    rows: Sequence[str],
    columns: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    *,
    axes: tuple[str, str],
    quantity: str,
    matched: str,
    dark: bool = False,
) -> go.Figure:
    """The distance of each head of one model from each of another, dark where they are alike; pairs have a ring."""
    colours = theme(dark)
    figure = go.Figure(
        [
            go.Heatmap(
                z=distances, x=list(range(len(columns))), y=list(range(len(rows))), zmin=0, zmax=LARGEST_DISTANCE,
                colorscale=SEQUENTIAL, colorbar=dict(title=labels.safe(quantity), len=0.9),
                customdata=[[f"{row} · {column}" for column in columns] for row in rows],
                hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
            ),
            go.Scatter(
                x=[column for _, column in pairs], y=[row for row, _ in pairs], mode="markers",
                name=labels.safe(matched), hoverinfo="skip", showlegend=True,
                marker=dict(size=14, symbol="circle-open", color=_RING, line=dict(width=3)),
            ),
        ]
    )  # fmt: skip
    side = max(24, min(34, 560 // max(len(rows), len(columns), 1)))
    figure.update_layout(
        width=190 + max(6, len(columns)) * side, height=150 + max(4, len(rows)) * side,
        margin=dict(l=90, r=16, t=44, b=90), legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(
            title=labels.safe(axes[1]), tickvals=list(range(len(columns))),
            ticktext=[labels.safe(name) for name in columns], tickangle=-90, showgrid=False,
        ),
        yaxis=dict(
            title=labels.safe(axes[0]), tickvals=list(range(len(rows))), ticktext=[labels.safe(name) for name in rows],
            autorange="reversed", showgrid=False,
        ),
    )  # fmt: skip
    return ink(figure, colours)
