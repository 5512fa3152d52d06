"""The numbers that the demonstration page draws, so that a test can compute them again."""

import numpy as np
from jaxtyping import Bool, Float

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.expressions.rowwise import Product
from transformer.messages import words
from ui.components.alignments.component import Moment, Panel

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


def alignment_moments() -> tuple[list[Moment], list[str]]:
    """Two moments of two panels of five target words, the second with a source word out of reach; source words."""
    columns = [f"s{i}" for i in range(4)]
    visible = np.ones((5, 4), dtype=bool)
    visible[:, 3] = False
    moments = []
    for number in range(2):
        (weights,), _ = attention(1, 2, 5, 4 + number)
        rows = tuple(f"t{i}" for i in range(5))
        panels = (Panel("M1", rows, weights[0, :, :4]), Panel("M2", rows, weights[1, :, :4], visible, "N2"))
        moments.append(Moment(f"m{number}", panels))
    return moments, columns


def product_board() -> Board:
    """C = A B, of 2 x 3 and 3 x 2 cells; A holds weights, one of them hidden, B a cell that is not a number."""
    a = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    b = np.array([[1.0, -2.0], [3.0, np.nan], [0.5, 0.0]])
    hidden = np.array([[False, False, False], [True, False, False]])
    rows, inner, columns = ("r1", "r2"), ("i1", "i2", "i3"), ("c1", "c2")
    return Board.of(
        [
            Matrix("A", "A^Q_0", "input", a, rows, inner, Given(), hidden=hidden),
            Matrix("B", "B", "input", b, inner, columns, Given()),
            Matrix("C", "C_1", "output", a @ b, rows, columns, Product("A", "B")),
        ]
    )


def lines_sent(weights, visible, queries, keys):
    """What a head view is sent for these weights of one layer, without a record: its header and arrays."""
    shown = np.broadcast_to(visible, weights.shape)
    header = {
        "shape": list(weights.shape),
        "heads": [f"H{head}" for head in range(len(weights))],
        "query_labels": list(queries),
        "key_labels": list(keys),
        "query_title": words("component_queries"),
        "key_title": words("component_keys"),
        "masked": not shown.all(),
        "file_name": "head-view",
        "about": {"title": "", "lines": []},
    }
    return header, {"weights": np.where(shown, weights, -np.inf).astype(np.float32)}
