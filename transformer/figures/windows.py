"""A head over windows: the heatmap of all windows, with the groups of each width marked."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from transformer.figures.heatmap import heatmap
from transformer.record import AttentionMap, Picture, block_length

LARGEST = 256
"""Windows along one side that are drawn one by one; more are drawn in blocks."""


def window_picture(attention: AttentionMap, head: int | str) -> Picture:
    """One head (or `mean`) over windows; above `LARGEST` windows, the maximum of each block, never held whole.

    The mean of all heads is the mean of their block maxima then, and the notes say so.
    """
    n_queries, n_keys = attention.shape
    if max(n_queries, n_keys) <= LARGEST:
        return attention.picture("mean" if head == "mean" else int(head))
    tall, wide = block_length(n_queries, LARGEST), block_length(n_keys, LARGEST)
    heads = range(attention.n_heads) if head == "mean" else [int(head)]
    values = np.mean([attention.overview(one, LARGEST) for one in heads], axis=0)
    note = f"blocks of {tall} x {wide} windows are shown by their largest weight, and named by their first window"
    return Picture(
        site=attention.site,
        head=f"mean of {attention.n_heads} heads" if head == "mean" else f"head {head}",
        values=values,
        visible=attention.overview_mask(LARGEST),
        queries=attention.queries.kept(range(0, n_queries, tall)),
        keys=attention.keys.kept(range(0, n_keys, wide)),
        notes=(note + ("; their mean over heads" if head == "mean" else ""),),
    )


def window_heatmap(
    picture: Picture, widths: Sequence[int], n_windows: int, *, relative: bool = False, dark: bool = False
) -> go.Figure:
    """The heatmap with a line where one width ends and the next begins; `widths[i]` is the width of window i."""
    figure = heatmap(picture, relative=relative, dark=dark)
    for side, axis in (("x", picture.keys), ("y", picture.queries)):
        if axis.name != "window":  # the questions of a pooling
            continue
        block = block_length(n_windows, len(axis)) if len(axis) < n_windows else 1
        for edge in np.flatnonzero(np.diff(widths)) + 1:
            place = float(edge) / block - 0.5
            for line in (dict(color="black", width=3), dict(color="white", width=1)):
                (figure.add_vline if side == "x" else figure.add_hline)(place, line=line)
    return figure
