"""The screens of the lesson "Positions" that put attention to the test: ways to tell positions, order, the end."""

from typing import cast

import numpy as np
import pandas as pd
import streamlit as st

from transformer.errors import InputError
from transformer.figures.lessons import grouped_bars
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.positions import (
    LATER,
    Later,
    example_weights,
    norm_shares,
    past_the_end,
    shuffle_gap,
    stored_table,
)
from transformer.lessons.sentences import Sentence
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.positions.controls import model, variant
from ui.lessons.positions.drawing import dark, plot, table_downloads, table_plot
from ui.shared import controls
from ui.shared.address import tenths, whole
from ui.texts import plain, t

WORDS = ("the", "cat", "saw", "the", "mouse")
"""What ways to tell positions are compared on: one word stands twice."""


def later_panel() -> None:
    """Attention on the same words with each way to tell positions."""
    st.caption(t("positions.look_later"))
    how = cast(Later, variant("how", LATER, "paper"))
    st.latex(
        {
            "rotary": r"S_{ij} = (R_i q_i) \cdot (R_j k_j) \big/ \sqrt{d} = q_i^\top R_{j-i}\, k_j \big/ \sqrt{d}",
            "alibi": r"S_{ij} = q_i \cdot k_j \big/ \sqrt{d} - m\,|i - j|",
            "none": r"S_{ij} = q(x_i) \cdot k(x_j) \big/ \sqrt{d}",
        }.get(how, r"S_{ij} = q(x_i + t_i) \cdot k(x_j + t_j) \big/ \sqrt{d}")
    )
    slope = tenths(t("positions.slope"), 0.0, 2.0, 0.5, key="slope") if how == "alibi" else 0.5
    sentence = Sentence.of(_numbers(WORDS), WORDS)
    board = Board.of(
        Matrix(name, "A", "softmax", example_weights(name, sentence.ids, 6, 1, slope), sentence.labels,
               sentence.labels, Given())
        for name in dict.fromkeys(("none", how))
    )  # fmt: skip
    titles = {name: t(f"positions.variant_{name}") for name in board}
    matrices(board, list(board), None, key="later", weights=list(board), titles=titles)
    shared.matrix_downloads(board, list(board))


def order_panel() -> None:
    """Shuffled words through an encoder, with and without positions."""
    st.caption(t("positions.look_order"))
    found = model("made", "toy")
    if found is None:
        return
    chosen, sentence = found
    draw = whole(t("positions.draw"), 0, 99, 1, key="draw")
    order = np.random.default_rng(draw).permutation(len(sentence.ids)).tolist()
    st.text(plain("positions.shuffled", words=" ".join(sentence.labels[i] for i in order)))
    st.latex(r"\max\left|\,\mathrm{encoder}(\pi x) - \pi\,\mathrm{encoder}(x)\,\right|")
    gaps = {name: shuffle_gap(chosen, sentence, order, name == "with") for name in ("without", "with")}
    for column, (name, gap) in zip(st.columns(2), gaps.items(), strict=True):
        column.metric(t(f"positions.{name}"), f"{gap:.2e}")
    words = [sentence.labels[i] for i in order]
    columns = {t("positions.token"): words, t("positions.was"): [i + 1 for i in order]}
    table = pd.DataFrame({**columns, **{t(f"positions.{name}"): gap for name, gap in gaps.items()}})
    shared.matrix_downloads(Board.of([]), [], {"shuffle": table})


def end_panel() -> None:
    """A fixed and a learned table past their end."""
    st.caption(t("positions.look_end"))
    ready = whole(t("positions.rows_ready"), 1, 64, 16, key="ready")
    asked = whole(t("positions.rows_asked"), 1, 128, 24, key="asked")
    fixed = past_the_end("sinusoidal", ready, 32, asked)
    st.markdown(f"**{t('positions.fixed_table')}**")
    table_plot(fixed, "fixed")
    if asked > ready:
        st.success(t("positions.goes_on", position=asked - 1), icon=":material/check:")
    st.markdown(f"**{t('positions.learned_table')}**")
    try:
        past_the_end("learned", ready, 32, asked)
    except InputError as error:
        st.error(controls.sentence(error.message), icon=":material/block:")
    else:
        st.success(t("positions.reaches"), icon=":material/check:")
    table_downloads(fixed=fixed)


def share_panel() -> None:
    """How much of each vector's length is position."""
    st.caption(t("positions.look_share"))
    found = model("of", "shipped")
    if found is None:
        return
    chosen, sentence = found
    st.latex(r"\frac{\lVert P \rVert^2}{\lVert \sqrt{d}\,E \rVert^2 + \lVert P \rVert^2}")
    shares = norm_shares(chosen, sentence)
    bars = {t(f"positions.{name}_norm"): shares[name] for name in ("word", "position", "sum")}
    plot(grouped_bars(bars, sentence.labels, t("positions.norm"), dark=dark()))
    st.caption(t("positions.mean_share", share=float(shares["share"].mean())))
    if (table := stored_table(chosen)) is not None:
        table_plot(table)
    columns = pd.DataFrame({t("positions.token"): sentence.labels, **bars, t("positions.share"): shares["share"]})
    numbers = {name: st.column_config.NumberColumn(format="%.3f") for name in columns.columns[1:]}
    st.dataframe(columns, hide_index=True, width="content", column_config=numbers)
    shared.matrix_downloads(Board.of([]), [], {"norms": columns})


def _numbers(words: tuple[str, ...]) -> list[int]:
    known = {word: i for i, word in enumerate(dict.fromkeys(words))}
    return [known[word] for word in words]
