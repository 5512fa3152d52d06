"""The panel of the lesson "Attention, step by step" that compares rows of weights before and after a change."""

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from transformer.attention.measures import entropy
from transformer.lessons.attention import temperature_curve, temperature_formulas
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.recipe import COLDEST, HOTTEST, Recipe
from transformer.plots.curves import curves
from transformer.plots.export import plot_config
from transformer.plots.file_names import file_name
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.attention_steps import controls
from ui.lessons.attention_steps.panels import about
from ui.lessons.working import number_text
from ui.texts import plain, t

TEMPERATURES = np.geomspace(COLDEST, HOTTEST, 41).tolist()
"""Where the entropy curve is computed."""

Entropies = Float[np.ndarray, " query"]


def rows_panel(example: controls.Example, board: Board, changed: Recipe, head_place: DeltaGenerator) -> None:
    """The weights before and after the change, row by row: entropy, row sum, what temperature does.

    All heads are shown where the change is their number.
    """
    standard = example.board(controls.STANDARD)
    counts = {"standard": shared.n_heads(standard), "now": shared.n_heads(board)}
    split = counts["standard"] != counts["now"]
    head = 0
    if not split:
        with head_place:
            head = controls.head(board, example.first_head)
    made = {"standard": standard, "now": board}
    shown = {
        f"{name}{one}": (name, one, _used(made[name], one))
        for name, count in counts.items()
        for one in (range(count) if split else [head])
    }
    both = Board.of(
        Matrix(name, matrix.symbol, "softmax", matrix.values, matrix.rows, matrix.columns, Given(), None, matrix.hidden)
        for name, (_, _, matrix) in shown.items()
    )
    titles = {
        name: plain("attention_steps.of_head", which=plain(f"attention_steps.{which}"), head=one)
        for name, (which, one, _) in shown.items()
    }
    st.markdown(t("attention_steps.look_rows"))
    told = about(example, plain("attention_steps.screen_rows"))
    name = file_name(example.kind, "rows", text=example.sentences[0])
    matrices(
        both, list(both), None, key="rows", weights=list(both), titles=titles, elided=True, about=told, file_name=name
    )
    st.latex(r"\mathcal{H}_i = -\sum_j A[i,j] \ln A[i,j]")
    spread = {name: _entropy(both[name].values) for name in both}
    table = _heads_table(both, spread, titles) if split else _table(both, spread, head)
    texts = table.map(lambda value: number_text(value) if isinstance(value, float) else value)
    st.dataframe(texts, hide_index=True, width="content", key="entropies")
    if changed.dropout:
        st.markdown(t("attention_steps.entropy_of_dropped"))
    _most(both, spread, shown)
    if not split:
        _temperature(board, head, changed)
    told_to_files = [told.title, *told.lines]
    shared.matrix_downloads(both, list(both), {"entropies": table}, titles=titles, about=told_to_files, name=name)


def _table(both: Board, spread: dict[str, Entropies], head: int) -> pd.DataFrame:
    """A row a query: its entropy before and after, and what its weights sum to."""
    before, now = f"standard{head}", f"now{head}"
    return pd.DataFrame(
        {
            t("attention_steps.query"): list(both[now].rows),
            t("attention_steps.entropy_standard"): spread[before],
            t("attention_steps.entropy_now"): spread[now],
            t("attention_steps.row_sum"): both[now].values.sum(axis=1),
        }
    )


def _heads_table(both: Board, spread: dict[str, Entropies], titles: dict[str, str]) -> pd.DataFrame:
    """A row a query, a column a head: entropies."""
    queries = list(next(iter(both.values())).rows)
    return pd.DataFrame({t("attention_steps.query"): queries, **{titles[name]: spread[name] for name in both}})


def _most(both: Board, spread: dict[str, Entropies], shown: dict[str, tuple[str, int, Matrix]]) -> None:
    """What equal weights would have, and the means before and after."""
    n_keys = len(next(iter(both.values())).columns)
    means = {
        which: number_text(_mean(np.concatenate([spread[name] for name in both if shown[name][0] == which])))
        for which in ("standard", "now")
    }
    st.markdown(t("attention_steps.most", n=n_keys, value=float(np.log(n_keys)), **means))


def _mean(entropies: Entropies) -> float:
    """The mean over queries that see something; NaN where none does."""
    known = entropies[~np.isnan(entropies)]
    return float(known.mean()) if known.size else float("nan")


def _entropy(weights: Float[np.ndarray, "query key"]) -> Entropies:
    """Entropy of each row's shares: after dropout a row need not sum to 1; NaN where nothing is left of it."""
    sums = weights.sum(axis=1, keepdims=True)
    return entropy(np.divide(weights, sums, where=sums > 0, out=np.zeros_like(weights)))


def _used(board: Board, head: int) -> Matrix:
    """The weights that mix the values: after dropout, if there is any."""
    return board[f"B{head}"] if f"B{head}" in board else board[f"A{head}"]


def _temperature(board: Board, head: int, changed: Recipe) -> None:
    """The entropy of every row at other temperatures, the present one marked."""
    st.markdown(f"**{t('attention_steps.curve')}**")
    st.markdown(t("attention_steps.look_curve", temperature=changed.temperature))
    for formula in temperature_formulas(board, head, changed):
        st.latex(formula)
    found = temperature_curve(board, head, changed, TEMPERATURES)
    lines = dict(zip(board[f"Q{head}"].rows, found.T, strict=True))
    figure = curves(
        lines, plain("attention_steps.temperature_axis"), plain("attention_steps.entropy"), x=TEMPERATURES, log_x=True,
        mark=changed.temperature, dark=st.context.theme.type == "dark",
    )  # fmt: skip
    st.plotly_chart(figure, key="curve", config=plot_config("entropy", "svg"))
