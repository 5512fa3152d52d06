"""The numbers that the demonstration page draws, so that a test can compute them again."""

import numpy as np
from jaxtyping import Bool, Float

HOSTILE = (
    "<script>window.executed = 1</script>",
    "<img src=x onerror='window.executed = 1'>",
    "שלום עולם",
    "👩‍👩‍👧‍👦🇩🇪",
    "long" * 50,
    "",
    "a\tb\u0007",
    "</text><script>window.executed = 1</script>",
    "\ud800",
)
"""Token texts that a careless page would execute, break at, or draw over its neighbours."""


def attention(
    layers: int, heads: int, queries: int, keys: int, *, causal: bool = False
) -> tuple[Float[np.ndarray, "layer head query key"], Bool[np.ndarray, "query key"]]:
    """Weights with a clear diagonal, the same for the same sizes, and the mask that they obey."""
    random = np.random.default_rng(0)
    visible = np.tri(queries, keys, dtype=bool) if causal else np.ones((queries, keys), dtype=bool)
    scores = 2 * random.normal(size=(layers, heads, queries, keys))
    scores += 4.0 * (np.arange(queries)[:, None] * keys // max(queries, 1) == np.arange(keys))
    raised = np.where(visible, np.exp(scores), 0.0)
    return (raised / raised.sum(axis=-1, keepdims=True)).astype(np.float32), visible
