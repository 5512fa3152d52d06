"""The screens of the lesson "Positions" that put attention to the test: ways to tell positions, order, the end."""

from typing import cast

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.positions import (
    LATER,
    Later,
    example_weights,
    norm_shares,
    past_the_end,
    shuffle_gaps,
    stored_table,
    trained_table,
)
from transformer.lessons.sentences import Sentence
from transformer.plots.bars import grouped_bars
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.positions.controls import model, variant
from ui.lessons.positions.drawing import dark, plot, table_downloads, table_plot
from ui.shared.address import tenths, whole
from ui.texts import plain, t

SAME = 1e-9
"""Movements up to this are rounding."""

WORDS = ("the", "cat", "saw", "the", "mouse")
"""What ways to tell positions are compared on: one word stands twice."""


def later_panel(bar: DeltaGenerator) -> None:
    """Attention on the same words with each way to tell positions."""
    with bar:
        how = cast(Later, variant("how", LATER, "paper"))
        slope = tenths(t("positions.slope"), 0.0, 2.0, 0.5, key="slope", width=260) if how == "alibi" else 0.5
    sentence = Sentence.of(_numbers(WORDS), WORDS)
    board = Board.of(
        Matrix(name, "A", "softmax", example_weights(name, sentence.ids, 6, 1, slope), sentence.labels,
               sentence.labels, Given())
        for name in dict.fromkeys(("none", how))
    )  # fmt: skip
    titles = {name: plain(f"positions.variant_{name}") for name in board}
    formula = {
        "rotary": r"S_{ij} = (R_i q_i) \cdot (R_j k_j) \big/ \sqrt{d} = q_i^\top R_{j-i}\, k_j \big/ \sqrt{d}",
        "alibi": r"S_{ij} = q_i \cdot k_j \big/ \sqrt{d} - m\,|i - j|",
        "none": r"S_{ij} = q(x_i) \cdot k(x_j) \big/ \sqrt{d}",
    }.get(how, r"S_{ij} = q(x_i + t_i) \cdot k(x_j + t_j) \big/ \sqrt{d}")
    said = f"m = {slope:g}" if how == "alibi" else ""
    about = shared.about("positions.screen_later", said, formulas=[formula])
    left, right = shared.columns()
    with left:
        matrices(board, list(board), None, key="later", weights=list(board), titles=titles, about=about)
        shared.matrix_downloads(board, list(board))
    with right:
        st.latex(formula)
        shared.explain(t("positions.look_later"))
        shared.explain(t(f"positions.note_{how}"))


def order_panel(bar: DeltaGenerator) -> None:
    """Shuffled words through an encoder, with and without positions: how far the output of each word moves."""
    with bar:
        found = model("made", "toy")
        draw = whole(t("positions.draw"), 0, 99, 1, key="draw", width=260)
    if found is None:
        return
    chosen, sentence = found
    order = np.random.default_rng(draw).permutation(len(sentence.ids)).tolist()
    gaps = {name: shuffle_gaps(chosen, sentence, order, name == "with") for name in ("without", "with")}
    words = " ".join(sentence.labels[i] for i in order)
    bars = {plain(f"positions.{name}"): gap for name, gap in gaps.items()}
    largest = {name: float(gap.max()) for name, gap in gaps.items()}
    now = {place: i for i, place in enumerate(order)}
    columns = {
        plain("positions.token"): sentence.labels,
        plain("positions.before"): list(range(len(order))),
        plain("positions.after"): [now[i] for i in range(len(order))],
    }
    left, right = shared.columns()
    with left:
        st.text(plain("positions.shuffled", before=" ".join(sentence.labels), after=words))
        plot(grouped_bars(bars, sentence.labels, plain("positions.moved"), dark=dark()))
        shared.matrix_downloads(Board.of([]), [], {"shuffle": pd.DataFrame({**columns, **bars})})
    with right:
        st.latex(r"\frac{\lVert\, y_i - y'_i \,\rVert}{\lVert\, y_i \,\rVert}")
        if largest["without"] < SAME:
            st.markdown(t("positions.set", moved=largest["with"]))
        shared.explain(t("positions.look_order"))


def end_panel(bar: DeltaGenerator) -> None:
    """A fixed and a learned table past their end."""
    known = trained_table().table
    with bar:
        ready = whole(t("positions.rows_ready"), 1, len(known), 16, key="ready", width=260)
        asked = whole(t("positions.rows_asked"), 1, 2 * len(known), 24, key="asked", width=260)
    fixed = past_the_end("sinusoidal", ready, known.shape[1], asked)
    left, right = st.columns(2)
    with left:
        table_plot(fixed, plain("positions.fixed_table"), "fixed")
        if asked > ready:
            st.success(t("positions.goes_on", position=asked - 1), icon=":material/check:")
    with right:
        table_plot(known[: min(ready, asked)], plain("positions.learned_table"), "learned")
        if asked > ready:
            st.error(t("positions.ends", last=ready - 1, position=asked - 1), icon=":material/block:")
        else:
            st.success(t("positions.reaches"), icon=":material/check:")
    st.markdown(t("positions.look_end"))
    table_downloads({"fixed": fixed, "learned": known[: min(ready, asked)]})


def share_panel(bar: DeltaGenerator) -> None:
    """How much of each vector's length is position."""
    with bar:
        found = model("of", "shipped")
    if found is None:
        return
    chosen, sentence = found
    shares = norm_shares(chosen, sentence)
    bars = {plain(f"positions.{name}_norm"): shares[name] for name in ("word", "position", "sum")}
    scaled = chosen.config.scale_embedding
    word = r"\sqrt{d}\,E" if scaled else "E"
    columns = pd.DataFrame(
        {plain("positions.token"): sentence.labels, **bars, plain("positions.share"): shares["share"]}
    )
    numbers = {name: st.column_config.NumberColumn(format="%.3f") for name in columns.columns[1:]}
    left, right = shared.columns()
    with left:
        plot(grouped_bars(bars, sentence.labels, plain("positions.norm"), dark=dark()))
        if (table := stored_table(chosen)) is not None:
            table_plot(table, plain("positions.screen_table"), "stored")
        st.dataframe(columns, hide_index=True, width="content", column_config=numbers)
        shared.matrix_downloads(Board.of([]), [], {"norms": columns})
    with right:
        st.latex(rf"\frac{{\lVert P \rVert^2}}{{\lVert {word} \rVert^2 + \lVert P \rVert^2}}")
        st.markdown(t("positions.mean_share", share=float(shares["share"].mean())))
        if scaled:
            st.markdown(t("positions.without_root", share=float(shares["unscaled"].mean())))
        shared.explain(t("positions.look_share"))


def _numbers(words: tuple[str, ...]) -> list[int]:
    known = {word: i for i, word in enumerate(dict.fromkeys(words))}
    return [known[word] for word in words]
