"""The screen of the lesson "Masks" that shows one mask as each library wants it, and converts between them."""

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.conventions import CONVENTIONS, HIDDEN, VISIBLE, conversion, converted, holds, part_of
from transformer.lessons.expressions.board import Board
from transformer.lessons.masks import MaskView, mask_view
from ui.lessons import shared
from ui.lessons.masks import controls
from ui.lessons.masks.drawing import draw, matrix
from ui.lessons.masks.example import Example
from ui.shared.address import choice
from ui.texts import plain, said, t

FACTS = ("api", "visible", "hidden", "dtype", "axes")
"""What is told of a convention."""


def conventions_panel(shown: Example, bar: DeltaGenerator) -> None:
    """The same mask as each library wants it."""
    with bar:
        kind, sentence = controls.kind(), controls.row(shown.batch)
    views = [mask_view(shown.batch, kind, i) for i in range(len(shown.batch))]
    visible = np.stack([view.visible for view in views])
    left, right = shared.columns()
    with left:
        _side_by_side(visible, views[sentence], sentence, shown.n_heads)
    with right:
        note = "" if holds(visible, "key_padding") else f" {t('masks.key_padding_note')}"
        shared.explain(f"{t('masks.look_conventions')}{note}")
        _converter()
    _facts(visible)


def _side_by_side(visible: np.ndarray, view: MaskView, sentence: int, n_heads: int) -> None:
    """The mask of one sentence of the batch, in every convention; those with two axes as a whole."""
    board, titles = [], {}
    for name, convention in CONVENTIONS.items():
        made = converted(visible, name, n_heads)
        values, index = part_of(made, sentence, name, n_heads)
        rows, columns = (tuple(f"[{i}]" for i in range(n)) for n in values.shape)
        board.append(matrix(name, f"M{index}", values, rows, columns, values == HIDDEN[convention.hidden]))
        titles[name] = f"{said(convention.api)} · {convention.dtype} {made.shape}"
    explained = [one.name for one in board if one.values.shape == view.visible.shape and one.name != "attn_2d"]
    draw(Board.of(board), view, titles, explained=explained)


def _facts(visible: np.ndarray) -> None:
    """What each convention calls visible and hidden, its type and its shape, and whether it can hold this mask."""
    table = [
        [
            *(said(getattr(convention, fact)) for fact in FACTS),
            plain("masks.yes" if holds(visible, name) else "masks.no"),
        ]
        for name, convention in CONVENTIONS.items()
    ]
    names = [plain(f"masks.convention_{fact}") for fact in (*FACTS, "holds")]
    st.dataframe(pd.DataFrame(table, columns=names), hide_index=True, width="content", key="conventions")


def _converter() -> None:
    """Code that makes one convention's mask of another's."""
    st.markdown(f"**{t('masks.converter')}**")
    given = choice(
        t("masks.given"), [VISIBLE, *CONVENTIONS], key="given", form="list", width=320,
        text=lambda name: plain("masks.table") if name == VISIBLE else said(CONVENTIONS[name].api),
    )  # fmt: skip
    wanted = choice(
        t("masks.convention"), list(CONVENTIONS), key="convention", form="list", width=320,
        text=lambda name: said(CONVENTIONS[name].api),
    )  # fmt: skip
    st.code(conversion(given, wanted), language="python", wrap_lines=True)
    shared.explain(t("masks.convention_code"))
