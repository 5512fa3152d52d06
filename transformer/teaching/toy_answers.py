"""The answers to questions that need no trained model, each by a function of its question's name.

They are computed from the toys of the lessons, from formulas, and from a small training.
"""

from dataclasses import replace

import numpy as np
import torch

from ..attention.measures import entropy
from ..lessons import masks
from ..lessons.attention import Recipe, growth, temperature_curve
from ..lessons.masks import toy_batch
from ..lessons.positions import Variant, likeness, position_table, rotation_errors
from ..lessons.run import Run, in_float64
from ..lessons.sentences import toy_layers, toy_transformer
from ..nn.masks import Mask
from ..training.snapshots import Learning
from ..training.tasks import Settings
from .case import EXACT, Between, Case, Live, Table, answer, choice, comparison

BESIDE, LONGER = "zwei Hunde rennen", "ein Mann fährt ein rotes Fahrrad"
"""The targets of the batch that the lesson about masks begins with."""

WIDE, HOT = 64, 4.0
"""The size of a head at which the gradient is asked for, and the temperature that is asked about."""

LENGTH, WIDTH = 40, 64
"""Rows and columns of the tables of positions that are compared."""

TABLES: tuple[Variant, ...] = ("paper", "doubled", "halves")
PLACES = ((0, 5), (10, 15), (20, 25))
"""Pairs of positions at the same distance, whose dot products are shown before the prediction."""

EVERY, LAST = 25, 1_000
"""Updates between two looks at a training, and the last of them."""

RIGHT, SHARP = 0.99, 0.9
"""Share of unseen sequences that counts as learnt, and the mean weight of a head that counts as sharp."""


def hidden_cells(live: Live) -> Case:
    """Cells of the causal mask that are hidden, of a decoder that reads as many tokens as the toy."""
    labels = live.toy[1].labels
    hidden = ~masks.table(Mask(causal=True), len(labels), len(labels), 0)
    return answer(hidden.sum(), {"n": len(labels)}, shown=Table(labels, labels, hidden.astype(float), 0))


def score_by_hand(live: Live) -> Case:
    """One dot product of a query and a key."""
    board = live.board()
    q, k, scores = board["Q0"], board["K0"], board["S0"].values
    row, column = min(1, len(scores) - 1), min(2, len(scores) - 1)
    query, key = q.rows[row], k.rows[column]
    given = Table((f"q({query})", f"k({key})"), q.columns, np.stack([q.values[row], k.values[column]]))
    return answer(scores[row, column], {"query": query, "key": key}, given=given)


def keys_in_order(live: Live) -> Case:
    """The keys of one row, by the weight that they get, most first."""
    found, row = drawn_row(live), Table.of(live.board()["A0"], 1)
    order = np.argsort(-np.array(found.answer), kind="stable").astype(float)
    return replace(found, answer=tuple(order.tolist()), cells=(row.rows, row.columns))


def drawn_row(live: Live) -> Case:
    """The weights of one row, from its scores."""
    board = live.board()
    given, shown = Table.of(board["D0"], 1), Table.of(board["A0"], 1)
    return Case(tuple(shown.values[0].tolist()), given.columns, {"query": given.rows[0]}, given=given, shown=shown)


def most_flattened_row(live: Live) -> Case:
    """The row whose entropy rises most when scores are divided by a temperature."""
    board = live.board(8)
    cold, hot = temperature_curve(board, 0, Recipe(), (1.0, HOT))
    rows = board["A0"].rows
    shown = Table(rows, ("T = 1", f"T = {HOT:g}"), np.stack([cold, hot], axis=1))
    return choice(rows, hot - cold, {"hot": HOT}, given=Table.of(board["A0"]), shown=shown, cells=(rows, ("",)))


def plus_five(live: Live) -> Case:
    """What adding one number to all scores of a row does to its weights."""
    given = Table.of(live.board()["D0"], 1)
    row = given.values[0]
    was, now = _softmax(row), _softmax(row + 5)
    drawn = [Table(rows, given.columns, np.stack(of)) for rows, of in ((("s",), [row]), (("s", "s + 5"), [was, now]))]
    results = {"largest": float(np.abs(now - was).max())}
    return comparison(now.max(), was.max(), results=results, given=drawn[0], shown=drawn[1])


def blind_row(live: Live) -> Case:
    """A weight in a row in which every key is hidden by a large negative number."""
    shown = Table.of(live.board(side="decoder", recipe=Recipe(blind=0, hiding="large"))["A0"], 0)
    asked = {"n": len(shown.columns), "query": shown.rows[0]}
    return answer(shown.values[0, 0], asked, shown=shown, possible=Between(0.0, 1.0))


def one_head_instead(live: Live) -> Case:
    """Mean entropy of one head as wide as four together, beside that of the four."""
    boards = {heads: live.board(8, 4, Recipe(n_heads=heads)) for heads in (4, 1)}
    four, one = (np.mean([entropy(of[f"A{i}"].values) for i in range(heads)]) for heads, of in boards.items())
    return comparison(four, one, results={"four": four, "one": one}, given=Table.of(boards[4]["A0"]))


def columns_read(live: Live) -> Case:
    """Columns of X that the second head's queries depend on: those whose row of its matrix W is not all zeros."""
    board = live.board()
    shown = Table.of(board["W_Q1"], digits=1)
    d_model, d_k = shown.values.shape
    read = shown.values.any(axis=1).sum()
    return answer(read, {"d_model": d_model, "d_k": d_k}, given=Table.of(board["X"]), shown=shown)


def gradient_without_root(live: Live) -> Case:  # noqa: ARG001  (drawn vectors, no sentence)
    """Gradient of the softmax at d_k = 64 without the root: mean of the largest entry of its Jacobian."""
    found = growth()
    without, with_root = found.gradient[:, found.sizes.index(WIDE)].tolist()
    given = Table(("√d_k",), tuple(f"d_k = {size}" for size in found.sizes), found.gradient[1:])
    return answer(without, {"with_root": with_root, "d_k": WIDE}, given=given, possible=Between(0.0, 0.25))


def visible_words(live: Live) -> Case:
    """The tokens that one token of the shorter target sees, in the decoder of a padded batch."""
    texts = [BESIDE, live.typed or LONGER]
    view = masks.mask_view(toy_batch(texts, texts)[0], "both", 0)
    query = min(2, len(view.queries) - 1)
    seen = tuple(np.flatnonzero(view.visible[query]).astype(float).tolist())
    shown = Table((view.queries[query],), view.keys, view.visible[[query]].astype(float), 0)
    asked, results = {"query": view.queries[query], "n": len(view.keys)}, {"count": len(seen)}
    return Case(seen, view.keys, asked, results, shown=shown, cells=(shown.rows, view.keys))


def table_with_a_slip(live: Live) -> Case:
    """Which of three tables was made with the exponent doubled; in what order they stand depends on the sentence."""
    turn = sum(map(ord, live.typed)) % len(TABLES)
    tables = [position_table(one, LENGTH, WIDTH) for one in (*TABLES[turn:], *TABLES[:turn])]
    products = [one @ one.T for one in tables]
    letters, values = tuple("ABC"), np.array([[one[pair] for pair in PLACES] for one in products])
    given, distance = Table(letters, tuple(f"p{i}·p{j}" for i, j in PLACES), values, 2), PLACES[0][1]
    spreads = [likeness(one).spread for one in products]
    return choice(letters, spreads, {"distance": distance}, given=given, cells=(letters, ("",)))


def rotation_and_place(live: Live) -> Case:  # noqa: ARG001  (a formula, no sentence)
    """Whether the matrix that leads from position p to p + 3 is the same for all p: how far it misses the table."""
    worst = float(rotation_errors(position_table("paper", LENGTH, WIDTH), 3).max())
    return answer(worst < EXACT, results={"worst": worst, "rows": LENGTH - 3})


def answers_or_diagonal(live: Live) -> Case:  # noqa: ARG001  (letters, no sentence)
    """Whether right answers come before a sharp head (0) or after it (1), where a run learns to reverse letters."""
    run = Learning(Settings())
    accuracy = weight = 0.0
    while accuracy < RIGHT and weight <= SHARP and run.update < LAST:
        run.advance(run.update + EVERY)
        found = run.snapshot(keeps=False).measures
        accuracy, weight = found.accuracy, found.sharpest[2] if found.sharpest else 0.0
    unseen = run.settings.held_out()
    asked = {"length": unseen.shape[1]}
    results = {"update": run.update, "accuracy": accuracy, "weight": weight, "n": len(unseen)}
    given = Table.empty((f"{RIGHT:.0%}", f"{SHARP:g}"), tuple(map(str, range(EVERY, 10 * EVERY, EVERY))))
    return answer(accuracy < RIGHT, asked, results=results, given=given)


def dot_and_cosine(live: Live) -> Case:
    """Whether some query has another best key by dot product than by cosine."""
    board = live.board()
    q, k, scores = board["Q0"].values, board["K0"].values, board["S0"].values
    lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(k, axis=1))
    by_angle = np.divide(scores, lengths, where=lengths > 0, out=np.full(lengths.shape, -2.0))
    rows = int((scores.argmax(1) != by_angle.argmax(1)).sum())
    return answer(rows > 0, results={"rows": rows, "n": len(scores)})


def one_input(live: Live) -> Case:
    """Whether Q, K and V are more than one X times their matrices: the largest difference is rounding, or not."""
    board = live.board()
    x = board["X"].values
    worst = max(np.abs(board[f"{one}0"].values - x @ board[f"W_{one}0"].values).max() for one in "QKV")
    return answer(worst > EXACT, results={"worst": float(worst)})


def zero_after(live: Live) -> Case:
    """The sum of the first row of a decoder's weights, if hidden ones were set to zero after the softmax, beside 1."""
    board = live.board(side="decoder")
    seen = ~np.isneginf(board["M0"].values[0])
    total = float(_softmax(board["D0"].values)[0][seen].sum())
    return comparison(total, 1.0, {"query": board["M0"].rows[0]}, results={"sum": total})


def padding_rows(live: Live) -> Case:  # noqa: ARG001  (the lesson's own batch)
    """Whether no row of padding, in a padded batch, sees a key."""
    view = masks.mask_view(toy_batch([BESIDE, LONGER], [BESIDE, LONGER])[0], "both", 0)
    padding = view.visible[~view.keys_real]
    rows = int(padding.any(axis=1).sum())
    return answer(rows == 0, {"n": len(padding)}, results={"rows": rows})


def rows_without_root(live: Live) -> Case:
    """Whether some row does not sum to 1 without the root; the sum of the one that is furthest from 1."""
    sums = live.board(recipe=Recipe(scaled=False))["A0"].values.sum(axis=1)
    furthest = float(sums[np.abs(sums - 1).argmax()])
    return answer(abs(furthest - 1) > EXACT, results={"sum": furthest})


def alone(live: Live) -> Case:
    """Whether outputs of a feed-forward network at other positions change when the first position changes."""
    net, reads = Run(in_float64(toy_layers(4, seed=1)), *live.toy).feed_forward("encoder", 0)
    other = reads.clone()
    other[0] += 1
    with torch.no_grad():
        moved = (net(other[None])[0] - net(reads[None])[0]).abs().amax(dim=1)
    rows = int((moved[1:] > EXACT).sum())
    return answer(rows > 0, {"n": len(reads)}, results={"rows": rows})


def parameters_of_heads(live: Live) -> Case:  # noqa: ARG001  (counted, no sentence)
    """Parameters of a toy of width 8 with four heads, beside those with one."""
    one, four = (sum(p.numel() for p in toy_transformer(8, heads, seed=1).parameters()) for heads in (1, 4))
    return comparison(float(four), float(one), {"one": one}, results={"four": four})


def column_sums(live: Live) -> Case:
    """Whether some column does not sum to 1; the sum of the one that is furthest from 1."""
    weights = live.board()["A0"]
    sums = weights.values.sum(axis=0)
    far = int(np.abs(sums - 1).argmax())
    results = {"key": weights.columns[far], "sum": float(sums[far])}
    return answer(abs(sums[far] - 1) > EXACT, results=results, shown=Table.of(weights))


def mean_of_heads(live: Live) -> Case:
    """Whether outputs move, and by what part of their length, when every head uses the mean of all heads' weights."""
    board = live.board()
    heads = [name for name in board if name.startswith("A")]
    mean = np.mean([board[name].values for name in heads], axis=0)
    mixed = np.concatenate([mean @ board[f"V{head}"].values for head in range(len(heads))], axis=1)
    own = board["O"].values
    moved = mixed @ board["W_O"].values - own
    most = float((np.linalg.norm(moved, axis=1) / np.linalg.norm(own, axis=1)).max())
    return answer(most > EXACT, results={"most": most})


def _softmax(scores: np.ndarray) -> np.ndarray:
    return torch.from_numpy(scores).softmax(-1).numpy()
