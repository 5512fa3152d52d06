"""The screen of the lesson "Masks" that shows one mask as each library wants it, and converts between them."""

import numpy as np
import pandas as pd
import streamlit as st

from transformer.lessons.conventions import CONVENTIONS, VISIBLE, conversion, converted, first_of
from transformer.lessons.expressions.board import Board, numbered
from transformer.lessons.masks import MaskView, mask_view
from ui.lessons.masks import controls
from ui.lessons.masks.drawing import draw, matrix
from ui.lessons.masks.example import Example
from ui.shared.address import choice
from ui.texts import said, t

FACTS = ("api", "visible", "hidden", "dtype", "shape")
"""What is told of a convention."""


def conventions_panel(shown: Example) -> None:
    """The same mask as each library wants it."""
    st.caption(t("masks.look_conventions"))
    kind = controls.kind()
    views = [mask_view(shown.batch, kind, i) for i in range(len(shown.batch))]
    _facts()
    _side_by_side(views, controls.row(shown.batch))
    if kind in {"causal", "both"}:
        st.caption(t("masks.key_padding_note"))
    _converter()


def _facts() -> None:
    """What each convention calls visible and hidden, its type and its shape."""
    table = [[said(getattr(convention, fact)) for fact in FACTS] for convention in CONVENTIONS.values()]
    names = [t(f"masks.convention_{fact}") for fact in FACTS]
    st.dataframe(pd.DataFrame(table, columns=names), hide_index=True, width="content")


def _side_by_side(views: list[MaskView], sentence: int) -> None:
    """The mask of one sentence of the batch, in every convention."""
    view, visible = views[sentence], np.stack([view.visible for view in views])
    made = {name: converted(visible, name) for name in CONVENTIONS}
    rows, columns = numbered(len(view.queries)), numbered(len(view.keys))
    shown = {name: first_of(made[name], sentence, name, len(view.queries)) for name in CONVENTIONS}
    board = Board.of(
        matrix(name, "M", values, rows, columns, values == 1 if name == "key_padding" else ~view.visible)
        for name, values in shown.items()
    )
    draw(board, view, {name: f"{said(CONVENTIONS[name].api)} · {made[name].dtype} {made[name].shape}" for name in made})


def _converter() -> None:
    """Code that makes one convention's mask of another's."""
    st.markdown(f"**{t('masks.converter')}**")
    with st.container(horizontal=True, gap="small"):
        given = choice(
            t("masks.given"), [VISIBLE, *CONVENTIONS], key="given", form="list", width=320,
            text=lambda name: t("masks.table") if name == VISIBLE else said(CONVENTIONS[name].api),
        )  # fmt: skip
        wanted = choice(
            t("masks.convention"), list(CONVENTIONS), key="convention", form="list", width=320,
            text=lambda name: said(CONVENTIONS[name].api),
        )  # fmt: skip
    st.caption(t("masks.convention_code"))
    st.code(conversion(given, wanted), language="python")
