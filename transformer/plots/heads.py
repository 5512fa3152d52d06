"""Figures of heads over a corpus: the profile of one, and all of a kind in a tree."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from transformer.plots import labels
from transformer.plots.theme import ink, legend, theme


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


def tree_of_heads(
    tree: Float[np.ndarray, "merge 4"],
    names: Sequence[str],
    notes: Sequence[str],
    groups: Int[np.ndarray, " head"],
    cut: float,
    *,
    axis: str,
    dark: bool = False,
) -> go.Figure:
    """The tree of average linkage, the height of each join on the axis, with the cut as a line.

    A leaf says its note, and holds the number of its head.
    """
    from scipy.cluster.hierarchy import dendrogram  # late: it would hold up the start of every page

    colours = theme(dark)
    drawn = dendrogram(tree, no_plot=True)
    figure = go.Figure()
    for heights, places in zip(drawn["dcoord"], drawn["icoord"], strict=True):
        figure.add_scatter(
            x=heights, y=places, mode="lines", line=dict(color=colours.faint, width=1.5),
            hovertemplate="%{x:.3f}<extra></extra>",
        )  # fmt: skip
    figure.add_vline(x=cut, line=dict(color=colours.second, dash="dash", width=1.5))
    places, top = [5 + 10 * i for i in range(len(names))], max(float(tree[:, 2].max()), cut)
    order = drawn["leaves"]
    figure.add_scatter(
        x=[0.0] * len(names), y=places, mode="markers", customdata=order, cliponaxis=False,
        hovertext=[labels.safe(notes[i]) for i in order], hovertemplate="%{hovertext}<extra></extra>",
        marker=dict(size=11, color=[colours.series[groups[i] % len(colours.series)] for i in order]),
    )  # fmt: skip
    figure.update_layout(
        height=max(260, 80 + 24 * len(names)), margin=dict(l=130, r=16, t=16, b=48),
        showlegend=False, xaxis=dict(title=axis, range=[-0.02 * top, 1.03 * top]),
        yaxis=dict(
            tickvals=places, ticktext=[labels.safe(names[i]) for i in order], ticklabelstandoff=10, showgrid=False,
        ),
    )  # fmt: skip
    return ink(figure, colours)
