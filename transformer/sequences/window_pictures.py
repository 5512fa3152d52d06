"""A head over windows as a picture: all of them, or blocks where there are many."""

import numpy as np

from transformer.attention.record import AttentionMap
from transformer.pictures.picture import Picture, block_length

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
