"""Pictures for the tests of figures."""

import numpy as np

from heedmap.plots.axes import Axis
from heedmap.plots.picture import Picture, Quantity

HOSTILE = (
    "<b>bold</b>",
    "<script>alert(1)</script>",
    "a&lt;b",
    "$x^2$",
    "%{z}",
    "",
    "  ",
    "\n\x00\x1b",
    "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f600",
    "</script>",
)
"""Tokens that must be drawn as they are."""


def picture(
    n_queries: int = 5,
    n_keys: int = 7,
    causal: bool = False,
    texts: tuple[str, ...] = (),
    dtype: type = np.float32,
    quantity: Quantity = Quantity.WEIGHT,
    notes: tuple[str, ...] = (),
) -> Picture:
    """A random map of weights (or of another quantity); `texts` are the tokens of both axes."""
    n_queries, n_keys = (len(texts), len(texts)) if texts else (n_queries, n_keys)
    random = np.random.default_rng(0)
    visible = np.tri(n_queries, n_keys, dtype=bool) if causal else np.ones((n_queries, n_keys), dtype=bool)
    if quantity is Quantity.WEIGHT:
        values = random.random((n_queries, n_keys)) ** 3 * visible
        values /= values.sum(axis=1, keepdims=True)
    else:
        values = random.normal(size=(n_queries, n_keys))
    queries = Axis.of_tokens("target (German)", texts or [f"▁q{i}" for i in range(n_queries)])
    keys = Axis.of_tokens("source (English)", texts or [f"▁k{i}" for i in range(n_keys)])
    return Picture("decoder.1.cross", "head 2", values.astype(dtype), visible, queries, keys, quantity, notes)
