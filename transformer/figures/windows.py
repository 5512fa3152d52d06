"""A head over windows: the heatmap of all windows, with the groups of each width marked."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from transformer.figures import labels
from transformer.figures.heatmap import heatmap
from transformer.pictures.picture import Picture, block_length

NARROWEST = 220.0
"""Pixels that all keys have on a narrow screen. The map shrinks there but its labels do not, so that only as many
windows are named as have room even then; pointing at a cell names any."""

CAPITALS = 28
"""Pixels more that a label of letters takes: they are capitals, which are wider than other letters."""


def window_heatmap(
    picture: Picture, widths: Sequence[int], n_windows: int, *, relative: bool = False, dark: bool = False
) -> go.Figure:
    """The heatmap with a line where one width ends and the next begins; `widths[i]` is the width of window i."""
    figure = heatmap(picture, relative=relative, dark=dark)
    figure.update_layout(
        xaxis2=labels.ticks(picture.keys, min(1.0 * labels.DISTANCE, NARROWEST / max(1, len(picture.keys)))),
        margin_t=figure.layout.margin.t + CAPITALS,
        height=figure.layout.height + CAPITALS,
    )
    pools = picture.queries.texts != picture.keys.texts  # then a query is no window, but one of a decision
    for side, axis in (("x", picture.keys), ("y", picture.queries)):
        if pools and side == "y":
            continue
        block = block_length(n_windows, len(axis)) if len(axis) < n_windows else 1
        for edge in np.flatnonzero(np.diff(widths)) + 1:
            edge_position = float(edge) / block - 0.5
            for line in (dict(color="black", width=3), dict(color="white", width=1)):
                (figure.add_vline if side == "x" else figure.add_hline)(edge_position, line=line)
    return figure
