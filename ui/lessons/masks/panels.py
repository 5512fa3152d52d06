"""The screens of the lesson "Masks": how a mask is built, what it does to scores, and what a broken one does."""

import numpy as np
import pandas as pd
import streamlit as st

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.masks import attended, mask_view
from ui.lessons.masks import controls
from ui.lessons.masks.drawing import draw, matrix
from ui.lessons.masks.example import Example, ToyModel, tested
from ui.lessons.masks.leaks import verdict
from ui.lessons.shared import in_formula
from ui.texts import t


def build_panel(shown: Example) -> None:
    """One mask, from its parts."""
    st.caption(t("masks.look_build"))
    kind = controls.kind()
    view = mask_view(shown.batch, kind, controls.row(shown.batch))
    parts: list[Matrix] = []
    if kind != "causal":
        real = view.keys_real[None, :]
        parts.append(matrix("real", "r", real, ("",), view.keys, ~real))
    if kind in {"causal", "both"}:
        past = np.tri(len(view.queries), len(view.keys), dtype=bool)
        parts.append(matrix("triangle", "C", past, view.queries, view.keys, ~past))
    parts.append(matrix("result", "M", view.visible, view.queries, view.keys, ~view.visible))
    st.latex(
        {
            "padding": r"M_{ij} = r_j, \qquad r_j = 1 \enspace " + in_formula("masks.formula_padding", j="j"),
            "causal": r"M_{ij} = 1 \enspace " + in_formula("masks.formula_causal", condition=r"j \le i"),
            "both": r"M_{ij} = C_{ij} \wedge r_j",
            "cross": r"M_{ij} = r_j \enspace " + in_formula("masks.formula_cross", i="i"),
        }[kind]
    )
    draw(Board.of(parts), view)


def scores_panel(shown: Example) -> None:
    """Scores before the mask, after it, and the weights."""
    st.caption(t("masks.look_scores"))
    st.latex(r"A = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}} + \log M\right)")
    site, head, sentence = controls.site(), controls.head(shown), controls.row(shown.batch)
    found = attended(shown.run("right"), shown.batch, site, head, sentence)
    view = mask_view(shown.batch, controls.kind_of(site), sentence)
    hidden = ~view.visible
    board = Board.of(
        [
            matrix("before", "S", found.before, view.queries, view.keys, None),
            matrix("after", "S'", found.after, view.queries, view.keys, hidden),
            matrix("weights", "A", found.weights, view.queries, view.keys, hidden),
        ]
    )
    draw(board, view)


def break_panel(shown: Example) -> None:
    """A mask broken on purpose: weights, leak test, loss and translations."""
    st.caption(t("masks.look_break"))
    how = controls.how()
    site, head, sentence = controls.site(), controls.head(shown), controls.row(shown.batch)
    view = mask_view(shown.batch, controls.kind_of(site), sentence)
    right = attended(shown.run("right"), shown.batch, site, head, sentence).weights
    found = attended(shown.run(how), shown.batch, site, head, sentence)
    board = Board.of(
        [
            matrix("right", "A", right, view.queries, view.keys, ~view.visible),
            matrix("broken", "B", found.weights, view.queries, view.keys, ~found.visible),
        ]
    )
    verdict(tested(shown.model, how))
    draw(board, view)
    if isinstance(shown.model, ToyModel):
        st.caption(t("masks.only_shipped"))
        return
    right_mask, broken_mask = shown.damage("right"), shown.damage(how)
    st.markdown(t("masks.loss", right=right_mask.loss, broken=broken_mask.loss))
    texts = {
        t("masks.translation_right"): right_mask.translations,
        t("masks.translation_broken"): broken_mask.translations,
    }
    st.dataframe(pd.DataFrame(texts), hide_index=True, key="translations")
    st.caption(t("masks.loss_note"))
