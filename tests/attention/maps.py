"""Maps of drawn queries and keys, and their softmax by the book; records of maps."""

import math

import numpy as np
import torch

from heedmap.attention.record import AttentionMap, Record
from heedmap.attention.softmax_inputs import AttentionInputs
from heedmap.nn.masks import Mask
from heedmap.plots.axes import Axis
from heedmap.sites import Site

D_K = 5
SCALE = D_K**-0.5


def numbered(name: str, count: int) -> Axis:
    return Axis.of_tokens(name, [f"{name}{i}" for i in range(count)])


def attention(
    n_queries: int = 13,
    n_keys: int = 11,
    causal: bool = False,
    real: int | None = None,
    site: str = "decoder.0.cross",
    heads: int = 3,
    dtype: torch.dtype = torch.float64,
) -> AttentionMap:
    """A random map of the second of a batch; with `real`, only that many of its keys are no padding."""
    keys = None if real is None else torch.stack([torch.ones(n_keys).bool(), torch.arange(n_keys) < real])
    q, k = (2 * torch.randn(2, heads, count, D_K, dtype=dtype) for count in (n_queries, n_keys))
    source = AttentionInputs(q, k, Mask(keys=keys, causal=causal), SCALE)
    return AttentionMap(Site(site), numbered("q", n_queries), numbered("k", n_keys), source, batch=1)


def by_the_book(found: AttentionMap, head: int, hidden: float = 0.0) -> np.ndarray:
    """exp(score) / sum of exp(score) over visible keys, row by row; `hidden` where the mask hides."""
    source, mask = found.source, found.mask()
    q, k = source.q[found.batch, head].double().numpy(), source.k[found.batch, head].double().numpy()
    exponentials = np.exp(q @ k.T * source.scale) * mask
    sums = exponentials.sum(axis=1, keepdims=True)
    return np.where(mask, np.divide(exponentials, sums, where=sums > 0, out=np.zeros_like(exponentials)), hidden)


def blocks(cells: np.ndarray, size: int) -> np.ndarray:
    """The largest of each of at most `size` x `size` blocks, one by one: the plain meaning of an overview."""
    tall, wide = (math.ceil(n / size) for n in cells.shape)
    rows, columns = (range(0, n, block) for n, block in zip(cells.shape, (tall, wide), strict=True))
    return np.array([[cells[i : i + tall, j : j + wide].max() for j in columns] for i in rows])


def record_of(*maps: AttentionMap) -> Record:
    return Record({one.site: one for one in maps})
