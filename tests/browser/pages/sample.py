"""The numbers that the demonstration page draws, so that a test can compute them again."""

import numpy as np
from jaxtyping import Bool, Float

from heedmap.lessons.board import Board, Matrix
from heedmap.lessons.operations import product
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
            Matrix("A", "A^Q_0", "input", a, rows, inner, hidden=hidden),
            Matrix("B", "B", "input", b, inner, columns),
            Matrix("C", "C_1", "output", a @ b, rows, columns, product("A", "B")),
        ]
    )


def lines_sent(weights, visible, queries, keys, head=0, mean=False):
    """What lines are sent for a head of these weights of one layer, or for their mean, without a record."""

    def side(texts, name):
        attached, special = ([i % 3 == 2 for i in range(len(texts))], [text is texts[-1] for text in texts])
        return {"texts": list(texts), "name": name, "attached": attached, "special": special}

    decided = [[(i * 5) % len(keys) if i % 4 else -1, 0.5 + i] for i in range(len(queries))] if len(keys) else []
    header = {
        "shape": [len(queries), len(keys)],
        "head": "L1 M" if mean else f"L1 H{head}",
        "within": False,
        "how": "D1",
        "decided": decided,
        "query": side(queries, "T"),
        "key": side(keys, "S"),
        "file_name": "lines",
        "about": {"title": "", "lines": []},
    }
    shown = np.where(visible, weights, -np.inf).astype(np.float32)
    one = shown.mean(axis=0) if mean else shown[head] if len(shown) else np.zeros((0, 0), dtype=np.float32)
    return header, {"weights": one, **({"all": shown} if mean else {})}
