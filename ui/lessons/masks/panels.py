"""The screens of the lesson "Masks" that build a mask and show what it does to scores."""

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.masks import attended, mask_view
from ui.lessons import shared
from ui.lessons.masks import controls
from ui.lessons.masks.drawing import draw, matrix
from ui.lessons.masks.example import Example
from ui.lessons.shared import in_formula
from ui.texts import t


def build_panel(shown: Example, bar: DeltaGenerator) -> None:
    """One mask, from its parts."""
    with bar:
        kind, sentence = controls.kind(), controls.row(shown.batch)
    view = mask_view(shown.batch, kind, sentence)
    parts: list[Matrix] = []
    if kind != "causal":
        real = view.keys_real[None, :]
        parts.append(matrix("real", "e", real, ("",), view.keys, ~real))
    if kind in {"causal", "both"}:
        past = np.tri(len(view.queries), len(view.keys), dtype=bool)
        parts.append(matrix("triangle", "T", past, view.queries, view.keys, ~past))
    parts.append(matrix("result", "M", view.visible, view.queries, view.keys, ~view.visible))
    formula = {
        "padding": r"M_{ij} = e_j, \qquad e_j = 1 \enspace " + in_formula("masks.formula_padding", j="j"),
        "causal": r"M_{ij} = 1 \enspace " + in_formula("masks.formula_causal", condition=r"j \le i"),
        "both": r"M_{ij} = T_{ij} \wedge e_j",
        "cross": "M_{ij} = e_j",
    }[kind]
    left, right = shared.columns()
    with left:
        draw(Board.of(parts), view, formula=formula)
    with right:
        st.latex(formula)
        shared.explain(t("masks.look_build"))


def scores_panel(shown: Example, bar: DeltaGenerator) -> None:
    """Scores before the mask, after it, and the weights."""
    with bar:
        site, head, sentence = controls.site(shown), controls.head(shown), controls.row(shown.batch)
    found = attended(shown.run("right"), shown.batch, site, head, sentence)
    view = mask_view(shown.batch, controls.kind_of(site), sentence)
    hidden = ~view.visible
    board = Board.of(
        [
            matrix("before", "S'", found.before, view.queries, view.keys, None),
            matrix("after", "S''", found.after, view.queries, view.keys, hidden),
            matrix("weights", "A", found.weights, view.queries, view.keys, hidden),
        ]
    )
    formula = r"A = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}} + \log M\right)"
    left, right = shared.columns()
    with left:
        draw(board, view, said=f"{site} · {head}", formula=formula)
    with right:
        st.latex(formula)
        shared.explain(t("masks.look_scores"))
