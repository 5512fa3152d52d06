"""Queries and keys of one head over many sentences as points in a plane, with the weights of one of them as lines."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float, Int

from transformer.plots import labels
from transformer.plots.theme import ink, legend, theme

FAINT, CLEAR = 0.07, 0.72
"""The opacity of a point that is not meant, and of one that is."""


def plane_of_vectors(
    places: Float[np.ndarray, "point 2"],
    is_key: Bool[np.ndarray, " point"],
    colours: Int[np.ndarray, " point"],
    names: Sequence[str],
    hovers: Sequence[str],
    ids: Sequence[str],
    *,
    meant: Bool[np.ndarray, " point"] | None = None,
    kept: int | None = None,
    weights: Sequence[tuple[int, float]] = (),
    texts: Sequence[str] = (),
    dark: bool = False,
) -> go.Figure:
    """Queries as circles, keys as squares, both axes on one scale; a trace for each colour, called as `names` says.

    `hovers` are HTML. The points carry their `ids` as `customdata`, for clicks. Points that are not `meant` are faint.
    From the point `kept`, a line leads to each of `weights` (a point's number, 0 to 1), as thick as its weight; `texts`
    name that point and those.
    """
    look = theme(dark)
    figure = go.Figure()
    clear = np.ones(len(places), bool) if meant is None else meant
    for number, name in enumerate(names):
        here = np.flatnonzero(colours == number)
        figure.add_scatter(
            x=places[here, 0], y=places[here, 1], mode="markers", name=labels.safe(name),
            customdata=[ids[int(i)] for i in here],
            hovertext=[hovers[int(i)] for i in here],
            hovertemplate="%{hovertext}<extra></extra>",
            marker=dict(
                size=5 if meant is None else np.where(clear[here], 9, 5),
                symbol=np.where(is_key[here], "square", "circle"), color=look.series[number % len(look.series)],
                opacity=np.where(clear[here], CLEAR, FAINT),
            ),
        )  # fmt: skip
    if kept is not None:
        for other, weight in weights:
            x, y = places[[kept, other]].T
            line = dict(color=look.ink, width=1 + 3 * weight)
            figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)
        ends = [kept, *(other for other, _ in weights)]
        figure.add_scatter(
            x=places[ends, 0], y=places[ends, 1], mode="markers+text", textposition="middle right",
            text=[f"<b>{labels.safe(text)}</b>" for text in texts], hoverinfo="skip", showlegend=False,
            marker=dict(size=11, color=look.ink, symbol=np.where(is_key[ends], "square", "circle")),
        )  # fmt: skip
    plain = dict(showticklabels=False, title=None, showgrid=False)
    figure.update_layout(
        height=560, margin=dict(l=16, r=16, t=40, b=16), hovermode="closest", showlegend=True,
        hoverlabel=dict(align="left"), legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(**plain, scaleanchor="y"), yaxis=plain,
    )  # fmt: skip
    return ink(figure, look)
