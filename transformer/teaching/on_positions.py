"""Answers to questions about positions: of fixed tables, and of a trained translator's encoder."""

import numpy as np

from transformer.lessons.positions import (
    Variant,
    likeness,
    norm_shares,
    position_table,
    rotation_errors,
    shuffle_gaps,
    similarity,
)
from transformer.nn.seq2seq import Seq2Seq
from transformer.teaching.case import Case, Live, Table, choice, truth

LENGTH, WIDTH = 40, 64
"""Rows and columns of the tables that are compared."""

TABLES: tuple[Variant, ...] = ("paper", "doubled", "halves")
PAIRS = ((0, 5), (10, 15), (20, 25))
"""Pairs of positions at the same distance, whose dot products are shown before the prediction."""

DRAW = 1
"""The shuffle that is asked about, with which the lesson begins."""

EXACT = 1e-9
"""A change below this is rounding."""


@truth
def shuffled(live: Live) -> Case:
    """Outputs of the encoder that move when its tokens are shuffled, without positions and with them."""
    model, sentence = live.checkpoint.model_as(Seq2Seq), live.source
    order = np.random.default_rng(DRAW).permutation(len(sentence.ids)).tolist()
    without, with_them = (shuffle_gaps(model, sentence, order, positions) for positions in (False, True))
    fields = {"n": len(order)}
    shown = Table(sentence.labels, ("no positions", "positions"), np.stack([without, with_them], axis=1))
    told = {**fields, "most": float(with_them.max())}
    given = Table.empty(tuple(sentence.labels[i] for i in order), ("Δ",))
    return Case((float((without > EXACT).sum()),), asked=fields, told=told, given=given, shown=shown)


@truth
def table_with_a_slip(live: Live) -> Case:
    """Which of three tables was made with the exponent doubled; in what order they stand depends on the sentence."""
    turn = sum(map(ord, live.typed)) % len(TABLES)
    order = (*TABLES[turn:], *TABLES[:turn])
    products = [similarity(position_table(one, LENGTH, WIDTH)) for one in order]
    spreads = [likeness(one).spread for one in products]
    letters = tuple("ABC")
    given = Table(
        letters, tuple(f"p{i}·p{j}" for i, j in PAIRS), np.array([[one[pair] for pair in PAIRS] for one in products]), 2
    )
    worst = int(np.argmax(spreads))
    found = choice(letters, spreads, worst, letter=letters[worst], spread=spreads[worst])
    asked = {"distance": PAIRS[0][1]}
    return Case(found.answer, letters, asked, found.told, found.scores, given, cells=(letters, ("",)))


@truth
def rotation_and_place(live: Live) -> Case:  # noqa: ARG001  (a formula, no sentence)
    """Whether the matrix that leads from position p to p + 3 is the same for all p: how far it misses the table."""
    worst = float(rotation_errors(position_table("paper", LENGTH, WIDTH), 3).max())
    return Case((float(worst < EXACT),), told={"worst": worst, "rows": LENGTH - 3})


@truth
def share_of_position(live: Live) -> Case:
    """What part of the squared length of a token's vector its position is, in percent, on average."""
    shares = norm_shares(live.checkpoint.model_as(Seq2Seq), live.source)
    told = {"unscaled": 100 * float(shares["unscaled"].mean())}
    shown = Table(live.source.labels, ("%",), 100 * shares["share"][:, None], 1)
    given = Table.empty(shown.rows, shown.columns)
    return Case((100 * float(shares["share"].mean()),), told=told, given=given, shown=shown)
