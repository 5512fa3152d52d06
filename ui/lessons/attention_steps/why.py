"""The panels of the lesson "Attention, step by step" that say why: the root, and the dot product."""

from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.scaling import Growth, cosines, growth
from transformer.plots.curves import curves
from transformer.plots.export import plot_config
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.attention_steps import controls
from ui.shared.address import choice
from ui.store.cache import cached
from ui.texts import plain, t

TOPICS = ("root", "cosine", "mean")


def why_panel(board: Board, head_place: DeltaGenerator) -> None:
    """One question, with what is computed to answer it."""
    topics = TOPICS[: 1 if "Q0" not in board else 3 if shared.n_heads(board) > 1 else 2]
    topic = choice(
        t("attention_steps.why"),
        topics,
        key="topic",
        bare=True,
        text=lambda topic: plain(f"attention_steps.why_{topic}"),
    )
    shared.explain(t(f"attention_steps.look_why_{topic}"))
    if topic == "root":
        _root()
    elif topic == "mean":
        _mean(board)
    else:
        with head_place:
            head = controls.head(board)
        _cosine(board, head)


@cached()
def _growth() -> Growth:
    return growth()


def _dark() -> bool:
    return st.context.theme.type == "dark"


def _root() -> None:
    """Variance of scores, and the softmax's largest gradient, over d_k."""
    found = _growth()
    sizes = list(map(float, found.sizes))
    st.latex(r"\mathrm{Var}(q \cdot k) = d_k \qquad \frac{\partial A[i,j]}{\partial S[i,j]} = A[i,j]\,(1 - A[i,j])")
    names = [plain(f"attention_steps.{name}") for name in ("without_root", "with_root")]
    sides = st.columns(2, gap="medium")
    pictures = {
        "variance": (found.variance, found.measured_variance),
        "gradient": (found.gradient, found.measured_gradient),
    }
    for side, (what, (formula, measured)) in zip(sides, pictures.items(), strict=True):
        figure = curves(
            dict(zip(names, formula, strict=True)), "d_k", plain(f"attention_steps.{what}"), x=sizes, log_x=True,
            log_y=what == "variance", dark=_dark(), points=dict(zip(names, measured, strict=True)),
            points_name=plain("attention_steps.measured"),
        )  # fmt: skip
        side.plotly_chart(figure, key=f"why.{what}", config=plot_config(what, "svg"))
    last = found.sizes.index(64)
    st.markdown(t("attention_steps.root_found", without=found.gradient[0, last], with_=found.gradient[1, last]))


def _cosine(board: Board, head: int) -> None:
    """Dot products beside cosines, and which key is the strongest by each."""
    q, k, scores = (board[f"{name}{head}"] for name in "QKS")
    cosine = cosines(q.values, k.values)
    lengths = (np.linalg.norm(q.values, axis=1)[:, None], np.linalg.norm(k.values, axis=1)[None])
    made = (
        ("S", f"S_{head}", scores.values, scores.rows, scores.columns),
        ("C", "G", cosine, scores.rows, scores.columns),
        ("q", "|q|", lengths[0], scores.rows, ("",)),
        ("k", "|k|", lengths[1], ("",), scores.columns),
    )
    compared = Board.of(Matrix(name, symbol, "why", values, a, b, Given()) for name, symbol, values, a, b in made)
    formula = rf"S_{head}[i,j] = q_i \cdot k_j = |q_i|\,|k_j|\,G[i,j] \qquad G[i,j] = \cos(q_i, k_j)"
    st.latex(formula)
    titles = {name: plain(f"attention_steps.title_why_{name}") for name in compared}
    about = shared.about("attention_steps.screen_why", formulas=[formula])
    matrices(compared, list(compared), None, key="cosines", titles=titles, elided=True, about=about)
    known = np.nan_to_num(cosine, nan=-2.0).argmax(axis=1)
    columns = {
        t("attention_steps.query"): list(scores.rows),
        t("attention_steps.strongest_dot"): [scores.columns[j] for j in scores.values.argmax(axis=1)],
        t("attention_steps.strongest_cosine"): [scores.columns[j] for j in known],
    }
    st.dataframe(pd.DataFrame(columns), hide_index=True, width="content", key="strongest")
    differ = int((known != scores.values.argmax(axis=1)).sum())
    st.markdown(t("attention_steps.cosine_found", differ=differ, count=len(scores.rows)))
    shared.matrix_downloads(compared, list(compared), titles=titles)


def _mean(board: Board) -> None:
    """Every head's weights, and their mean, which the model never uses."""
    heads = [replace(board[f"A{head}"], operation=Given()) for head in range(shared.n_heads(board))]
    mean, first = np.mean([head.values for head in heads], axis=0), heads[0]
    average = Matrix("A", r"\bar A", "why", mean, first.rows, first.columns, Given(), None, first.hidden)
    shown = Board.of([*heads, average])
    titles = {head.name: plain("attention_steps.head", head=i) for i, head in enumerate(heads)}
    titles["A"] = plain("attention_steps.title_why_mean")
    formula = rf"\bar A = \frac{{1}}{{{len(heads)}}} \sum_h A_h"
    about = shared.about("attention_steps.screen_why", formulas=[formula])
    left, right = shared.columns()
    with left:
        matrices(shown, list(shown), None, key="mean", weights=list(shown), titles=titles, elided=True, about=about)
        shared.matrix_downloads(shown, list(shown), titles=titles)
    with right:
        st.latex(formula)
        largest = np.array([head.values.max(axis=1) for head in heads])
        strongest = np.array([head.values.argmax(axis=1) for head in heads])
        differ = int((strongest != mean.argmax(axis=1)).any(axis=0).sum())
        own, count = float(largest.mean()), len(first.rows)
        fields = {"own": own, "mean": float(mean.max(axis=1).mean()), "differ": differ, "count": count}
        st.markdown(t("attention_steps.mean_found", **fields))
