"""Answers to questions about scores and weights: of the toy that the lesson about attention draws."""

from dataclasses import replace

import numpy as np

from transformer.attention.measures import entropy
from transformer.lessons.attention import temperature_curve
from transformer.lessons.expressions.board import Matrix
from transformer.lessons.masks import mask_view, table
from transformer.lessons.recipe import Recipe
from transformer.lessons.scaling import growth
from transformer.lessons.toy import toy_batch
from transformer.nn.masks import Mask
from transformer.teaching.case import Case, Live, Table, choice, truth, verdict

BESIDE = "zwei Hunde rennen"
"""The shorter target of the batch in which a mask is asked about."""

LONGER = "ein Mann fährt ein rotes Fahrrad"
"""The longer one, unless the reader types a sentence."""

WIDE = 64
"""The size of a head at which the gradient is asked for."""

HOT = 4.0
"""The temperature that is asked about."""


@truth
def hidden_cells(live: Live) -> Case:
    """Cells of the causal mask that are hidden, of a decoder that reads as many tokens as the toy."""
    n = len(live.toy[1].ids)
    hidden = ~table(Mask(causal=True), n, n, 0)
    labels = live.toy[1].labels
    return Case(
        (float(hidden.sum()),), asked={"n": n}, told={"n": n}, shown=Table(labels, labels, hidden.astype(float), 0)
    )


@truth
def score_by_hand(live: Live) -> Case:
    """One dot product of a query and a key."""
    board = live.board()
    q, k, scores = board["Q0"], board["K0"], board["S0"].values
    row, column = min(1, len(scores) - 1), min(2, len(scores) - 1)
    query, key = q.rows[row], k.rows[column]
    given = Table((f"q({query})", f"k({key})"), q.columns, np.stack([q.values[row], k.values[column]]))
    names = {"query": query, "key": key}
    return Case((float(scores[row, column]),), asked=names, told=names, given=given)


@truth
def keys_in_order(live: Live) -> Case:
    """The keys of one row, by the weight that they get, most first."""
    board = live.board()
    scaled, weights = board["D0"], board["A0"].values
    row = min(1, len(weights) - 1)
    order = tuple(np.argsort(-weights[row], kind="stable").astype(float).tolist())
    shown = Table((scaled.rows[row],), scaled.columns, weights[[row]])
    given = Table((scaled.rows[row],), scaled.columns, scaled.values[[row]])
    cells = ((scaled.rows[row],), scaled.columns)
    return Case(order, scaled.columns, asked={"query": scaled.rows[row]}, given=given, shown=shown, cells=cells)


@truth
def drawn_row(live: Live) -> Case:
    """The weights of one row, from its scores."""
    found, weights = keys_in_order(live), live.board()["A0"].values
    row = weights[min(1, len(weights) - 1)]
    return replace(found, answer=tuple(row.tolist()), cells=None)


@truth
def most_flattened_row(live: Live) -> Case:
    """The row whose entropy rises most when scores are divided by a temperature."""
    board = live.board(8)
    cold, hot = temperature_curve(board, 0, Recipe(), (1.0, HOT))
    rise = hot - cold
    weights = board["A0"]
    found = choice(
        weights.rows, rise, int(rise.argmax()), query=weights.rows[int(rise.argmax())], rise=float(rise.max())
    )
    given = Table(weights.rows, weights.columns, weights.values)
    shown = Table(weights.rows, ("T = 1", f"T = {HOT:g}"), np.stack([cold, hot], axis=1))
    cells = (weights.rows, ("",))
    return Case(found.answer, found.options, {"hot": HOT}, found.told, found.scores, given, shown, cells)


@truth
def entropy_without_root(live: Live) -> Case:
    """Mean entropy of the rows of a wide head whose scores are not divided by the root of d_k."""
    with_root, without = (_entropy(live, 16, 1, Recipe(scaled=scaled)) for scaled in (True, False))
    fields = {"with_root": with_root, "d_k": 16}
    return Case((without,), asked=fields, told=fields)


@truth
def plus_five(live: Live) -> Case:
    """What adding one number to all scores of a row does to its weights."""
    board = live.board()
    row = board["D0"].values[min(1, len(board["D0"].values) - 1)]
    was, now = _softmax(row), _softmax(row + 5)
    largest = float(np.abs(now - was).max())
    moved = verdict(float(now.max()), float(was.max()))
    shown = Table(("s", "s + 5"), board["D0"].columns, np.stack([was, now]))
    return Case(moved, told={"largest": largest}, given=Table(("s",), board["D0"].columns, row[None]), shown=shown)


@truth
def keys_twice(live: Live) -> Case:
    """What keys of twice the length do to the entropy of the rows."""
    board = live.board()
    scores = board["D0"].values
    was, now = (float(entropy(_softmax(factor * scores)).mean()) for factor in (1, 2))
    return Case(verdict(now, was), asked={"was": was}, told={"was": was, "now": now})


@truth
def blind_row(live: Live) -> Case:
    """A weight in a row in which every key is hidden by a large negative number."""
    board = live.board(side="decoder", recipe=Recipe(blind=0, hiding="large"))
    weights = board["A0"]
    fields = {"n": len(weights.columns), "query": weights.rows[0]}
    return Case((float(weights.values[0, 0]),), asked=fields, told=fields, shown=_rows(weights, 0))


@truth
def one_head_instead(live: Live) -> Case:
    """Mean entropy of one head as wide as four together, beside that of the four."""
    four, one = (_entropy(live, 8, 4, Recipe(n_heads=heads)) for heads in (4, 1))
    weights = live.board(8, 4)["A0"]
    given = Table(weights.rows, weights.columns, weights.values)
    return Case(verdict(four, one), told={"four": four, "one": one}, given=given)


@truth
def columns_read(live: Live) -> Case:
    """Columns of X that the second head's queries depend on: those whose row of its matrix W is not all zeros."""
    board = live.board()
    weight = board["W_Q1"].values
    fields = {"d_model": weight.shape[0], "d_k": weight.shape[1]}
    shown = Table(board["W_Q1"].rows, board["W_Q1"].columns, weight, 1)
    x = board["X"]
    given = Table(x.rows, x.columns, x.values)
    return Case((float(np.abs(weight).any(axis=1).sum()),), asked=fields, told=fields, given=given, shown=shown)


@truth
def gradient_without_root(live: Live) -> Case:  # noqa: ARG001  (drawn vectors, no sentence)
    """Gradient of the softmax at d_k = 64 without the root: mean of the largest entry of its Jacobian."""
    found = growth()
    without, with_root = found.gradient[:, found.sizes.index(WIDE)].tolist()
    fields = {"with_root": with_root, "d_k": WIDE}
    given = Table(("√d_k",), tuple(f"d_k = {size}" for size in found.sizes), found.gradient[1:])
    return Case((without,), asked=fields, told=fields, given=given)


@truth
def visible_words(live: Live) -> Case:
    """The tokens that one token of the shorter target sees, in the decoder of a padded batch."""
    texts = [BESIDE, live.typed or LONGER]
    view = mask_view(toy_batch(texts, texts)[0], "both", 0)
    query = min(2, len(view.queries) - 1)
    seen = tuple(np.flatnonzero(view.visible[query]).astype(float).tolist())
    fields = {"query": view.queries[query], "count": len(seen), "n": len(view.keys)}
    shown = Table((view.queries[query],), view.keys, view.visible[[query]].astype(float), 0)
    asked = {name: fields[name] for name in ("query", "n")}
    return Case(seen, view.keys, asked=asked, told=fields, shown=shown, cells=(shown.rows, view.keys))


def _entropy(live: Live, d_model: int, n_heads: int, recipe: Recipe) -> float:
    """Mean entropy of all rows of all heads, in nats."""
    board = live.board(d_model, n_heads, recipe)
    heads = recipe.n_heads or n_heads
    return float(np.mean([entropy(board[f"A{head}"].values) for head in range(heads)]))


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _rows(matrix: Matrix, row: int) -> Table:
    return Table((matrix.rows[row],), matrix.columns, matrix.values[[row]])
