"""The lesson "Attention, step by step": one layer as matrices, from which a cell is picked and worked out."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from heedmap.attention.measures import entropy
from heedmap.lessons import attention as lesson
from heedmap.lessons.attention import COLDEST, FILLS, HOTTEST, Recipe
from heedmap.lessons.board import Board, Matrix
from heedmap.lessons.operations import START
from heedmap.plots.canvas.views import About
from heedmap.plots.charts import curves
from heedmap.plots.export import file_name, plot_config
from ui.lessons import shared
from ui.lessons.attention_example import LayerExample
from ui.lessons.shared import listed
from ui.shared.address import choice, put, switch, tenths
from ui.shared.bars import is_dark
from ui.store.cache import cached_result
from ui.texts import as_text, plain, t

STANDARD = Recipe()
OWN = "0"

CHANGES = ("scaled", "temperature", "split", "hiding", "blind", "dropout")
"""The controls that change the computation, one a field of a recipe."""

TRY: dict[str, dict[str, Any]] = {
    "try_softmax": {"stage": "softmax", "cell": "A0.1.2"},
    "try_scale": {"d_model": "16", "n_heads": "1", "scaled": False, "screen": "rows"},
    "try_hot": {"d_model": "8", "temperature": 4.0, "screen": "rows"},
    "try_heads": {"d_model": "8", "n_heads": "4", "split": "1", "screen": "rows"},
    "try_undefined": {"attention": "decoder", "blind": "2", "hiding": "infinity", "stage": "softmax", "cell": "A0.1.0"},
    "try_dropout": {"dropout": 0.3, "screen": "rows"},
    "try_cross": {"attention": "cross", "stage": "scores", "cell": "S0.0.2"},
    "try_recurrent": {"attention": "additive", "made": "shipped", "stage": "softmax"},
}
"""Settings worth seeing, by their text."""


def recipe(chosen: LayerExample) -> Recipe:
    """What is changed in the computation, said with what it does; the standard one where nothing can be changed."""
    if not chosen.can_change:
        return STANDARD
    board = chosen.board(STANDARD)
    width, queries = board["Q0"].values.shape[1] * n_heads(board), board["S0"].rows
    with st.popover(t("attention_steps.change"), icon=":material/tune:"):
        scaled = switch(t("attention_steps.scaled"), True, key="scaled")
        temperature = tenths(t("attention_steps.temperature"), COLDEST, HOTTEST, 1.0, key="temperature")
        own = plain("attention_steps.split_own")
        counts = [OWN, *(str(n) for n in (1, 2, 4, 8) if width % n == 0)]
        split = listed("attention_steps.split", counts, key="split", text=lambda n: own if n == OWN else n)
        hiding = listed("attention_steps.hiding", list(FILLS), key="hiding")
        names = {str(i): one for i, one in enumerate([plain("attention_steps.blind_none"), *queries])}
        blind = int(listed("attention_steps.blind", list(names), key="blind", text=names.__getitem__))
        dropout = tenths(t("attention_steps.dropout"), 0.0, 0.9, 0.0, key="dropout")
    return Recipe(scaled, temperature, int(split), hiding, blind - 1 if blind else None, dropout)


def changed(chosen: LayerExample, recipe: Recipe) -> None:
    """What is changed now, with what it does, and one button that takes all of it back; nothing where nothing is."""
    pairs = zip(CHANGES, astuple(recipe), astuple(STANDARD), strict=True)
    names = [name for name, now, usual in pairs if now != usual]
    if not names:
        return
    fields: dict[str, dict[str, object]] = {
        "temperature": {"value": recipe.temperature},
        "split": {"count": recipe.n_heads},
        "hiding": {"value": plain(f"attention_steps.hiding_{recipe.hiding}")},
        "blind": {"query": chosen.board(STANDARD)["S0"].rows[recipe.blind or 0]},
        "dropout": {"p": recipe.dropout},
    }
    changes = [plain(f"attention_steps.changed_{name}", **fields.get(name, {})) for name in names]
    notes = " ".join(t(f"attention_steps.{name}_note") for name in names)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(t("attention_steps.changed", changes=" · ".join(changes)), width="content", help=notes)
        st.button(
            t("attention_steps.reset"), key="reset", on_click=lambda: put(**dict.fromkeys(CHANGES)),
            icon=":material/undo:", type="tertiary",
        )  # fmt: skip


def chosen_head(board: Board, first: int = 0) -> int:
    """Which head is looked at, `first` at first, if there is one; no control where there is but one."""
    count = n_heads(board)
    if count == 1:
        return 0
    return shared.counted(
        "lessons.head", count, key="at_head", default=first if first < count else 0, width=100, bare=True,
        text=lambda head: plain("attention_steps.head", head=head),
    )  # fmt: skip


def n_heads(board: Board) -> int:
    """Heads of a board's attention."""
    return sum(matrix.stage == "mix" for matrix in board.values())


_WHOLE = ("sE", "EP", "s", "e", "v", "y", "j", "r", "u", "n", "next")
"""Matrices whose name is no letter with a head's number."""

_PARAMETERS = {"b": "bias", "g": "gain", "W": "W"}


def worked_panel(
    example: LayerExample, board: Board, recipe: Recipe, head_place: DeltaGenerator, by_step: bool
) -> None:
    """Matrices of one head, those of one step (`by_step`) or all: beside them what to look at, and one cell's equation.

    A step has the formulas of what is made on it, too.
    """
    stages = list(dict.fromkeys(one.stage for one in board.values()))
    stage = shared.stage("attention_steps", stages) if by_step else None
    several = any(one.head == 1 for one in board.values() if stage in {None, one.stage})
    with head_place:
        head = chosen_head(board, example.first_head) if several else 0
    names = made = [one.name for one in board.values() if stage in {None, one.stage} and one.head in {None, head}]
    screen, first, said = "screen_board", "S" if "S" in board else f"S{head}", t("attention_steps.look_board")
    of_step, of_all = [], []
    if stage is not None:
        needed = {operand for name in made for operand in board[name].operation.operands}
        names = [name for name in board if name in needed or name in made]
        kind = plain(f"attention_steps.kind_{example.kind}_note") if stage == "input" else ""
        screen, first = f"stage_{stage}", made[-1]
        said = as_text(f"{kind} {_what_is_shown(board, stage, head, recipe, example.layer)}".strip())
        of_step, of_all = ([formula for name in some for formula in board.formulas(name)] for some in (made, names))
    title = f"{plain(f'attention_steps.{screen}')}, {plain('attention_steps.head', head=head)}"
    shared.step_panel(
        board, names, stage, first, said, _about(example, title, of_all), head=head, formulas=of_step,
        titles={name: _title_of(board, name) for name in names},
        file_name=file_name(example.kind, title, text=example.sentences[0]),
        weights=[name for name in names if board[name].stage == "softmax"],
    )  # fmt: skip


def _about(example: LayerExample, title: str, formulas: Sequence[str] = ()) -> About:
    """What a saved picture says of itself: attention, step and head; the sentence; formulas and the equation."""
    return About(f"{plain(f'attention_steps.kind_{example.kind}')}: {title}", [" / ".join(example.sentences)], formulas)


def _what_is_shown(board: Board, stage: str, head: int, recipe: Recipe, layer: int) -> str:
    """What to look at on a step of this board; heads and layers count from 0."""
    texts = (_recurrent(board) if "s" in board else _transformer(board, head, recipe))[stage]
    hidden = "\N{MINUS SIGN}10⁹" if recipe.hiding == "large" else "\N{MINUS SIGN}∞"
    fields: dict[str, object] = {
        "layer": layer - 1, "hidden": hidden, "p": recipe.dropout, "temperature": recipe.temperature
    }  # fmt: skip
    if texts.get("project_columns"):
        d_model, d_k = board[f"W_Q{head}"].values.shape
        fields |= {"head": head, "d_model": d_model, "d_k": d_k}
    if texts.get("scale_query"):
        q, k, scaled = (board[f"{name}{head}"].values for name in "QKD")
        divided = (q / (np.sqrt(q.shape[1]) * recipe.temperature)) @ k.T
        fields["gap"] = float(np.abs(divided - scaled).max())
    return shared.composed("attention_steps.look_", texts, **fields)


def _title_of(board: Board, name: str) -> str:
    """What a matrix is, in words."""
    if name in _WHOLE:
        return plain(f"attention_steps.title_{name}")
    if name in {"c", "r_in", "u_in", "n_in", "n_kept"}:
        return plain("attention_steps.title_I")
    kind = name.split("_", maxsplit=1)[0].rstrip("0123456789")
    if kind == "b" and name in {"b_X", "b_N", "b_Y"}:
        return plain("attention_steps.title_shift")
    if kind == "A" and not np.allclose(board[name].values.sum(axis=1), 1.0):
        return plain("attention_steps.title_A_blind")
    return plain(f"attention_steps.title_{_PARAMETERS.get(kind, kind)}")


def _transformer(board: Board, head: int, recipe: Recipe) -> dict[str, dict[str, bool]]:
    """The texts of each step, and whether they hold of what is on the board."""
    several, hidden, blind = "Z1" in board, board[f"M{head}"].hidden, recipe.blind is not None
    has_hidden = hidden is not None and bool(hidden.any())
    of_words, scaled, cross = "E" in board, "sE" in board, "H" in board
    return {
        "input": {
            "input": of_words, "input_scaled": of_words and scaled, "input_plain": of_words and not scaled,
            "input_normed": "EP" in board, "input_cross": cross and not of_words,
            "input_layer": not of_words and not cross, "input_norm_first": "N" in board,
        },
        "project": {
            "project": True, "project_columns": several, "project_cross": cross, "project_bias": f"b_Q{head}" in board,
            "split": recipe.n_heads > 0,
        },
        "scores": {"scores": True},
        "scale": {
            "scale": recipe.scaled, "scale_off": not recipe.scaled, "scale_query": recipe.scaled,
            "scale_temperature": recipe.temperature != 1.0,
        },
        "mask": {"mask": has_hidden, "mask_blind": has_hidden and blind, "mask_none": not has_hidden},
        "softmax": {"softmax": not blind, "softmax_but": blind, f"softmax_{recipe.hiding}": blind},
        "dropout": {"dropout": True},
        "mix": {"mix_dropout": recipe.dropout > 0, "mix": not recipe.dropout},
        "concatenate": {"concatenate": several, "concatenate_one": not several},
        "output": {"output": several, "output_one": not several},
        "residual": {"residual": "Y" in board, "residual_norm_first": "Y" not in board},
    }  # fmt: skip


def _recurrent(board: Board) -> dict[str, dict[str, bool]]:
    kind = "location" if "b" in board else "additive"
    own = {stage: {f"{stage}_{kind}": True} for stage in ("input", "project", "scores")}
    return {**own, "softmax": {"softmax_one": True}, "mix": {"mix_recurrent": True}, "next": {"next": True}}


TEMPERATURES = np.geomspace(COLDEST, HOTTEST, 41).tolist()
"""Where the entropy curve is computed."""

Entropies = Float[np.ndarray, " query"]


def rows_panel(example: LayerExample, board: Board, changed: Recipe, head_place: DeltaGenerator) -> None:
    """The weights before and after the change, row by row: entropy, row sum, what temperature does.

    All heads are shown where the change is their number.
    """
    made = {"standard": example.board(STANDARD), "now": board}
    counts = {which: n_heads(one) for which, one in made.items()}
    split, head = counts["standard"] != counts["now"], 0
    if not split:
        with head_place:
            head = chosen_head(board, example.first_head)
    shown: dict[str, Matrix] = {}
    titles, of = {}, defaultdict[str, list[Entropies]](list)
    for which, count in counts.items():
        for one in range(count) if split else [head]:
            name = f"{which}{one}"
            used = made[which].get(f"B{one}") or made[which][f"A{one}"]  # after dropout, if there is any
            shown[name] = replace(used, name=name, stage="softmax", operation=START, head=None, axes=("", ""))
            titles[name] = plain("attention_steps.of_head", which=plain(f"attention_steps.{which}"), head=one)
            of[which].append(_entropy(used.values))
    first = next(iter(shown.values()))
    if split:
        columns = dict(zip(titles.values(), [*of["standard"], *of["now"]], strict=True))
    else:
        columns = {t(f"attention_steps.entropy_{which}"): of[which][0] for which in counts}
        columns[t("attention_steps.row_sum")] = shown[f"now{head}"].values.sum(axis=1)
    table = pd.DataFrame({t("attention_steps.query"): list(first.rows), **columns})
    st.markdown(t("attention_steps.look_rows"))
    shared.draw(
        Board(shown), "rows", _about(example, plain("attention_steps.screen_rows")), weights=list(shown), titles=titles,
        tables={"entropies": table}, file_name=file_name(example.kind, "rows", text=example.sentences[0]), elided=True,
    )  # fmt: skip
    st.latex(r"\mathcal{H}_i = -\sum_j A[i,j] \ln A[i,j]")
    texts = table.map(lambda value: shared.number_text(value) if isinstance(value, float) else value)
    st.dataframe(texts, hide_index=True, width="content", key="entropies")
    if changed.dropout:
        st.markdown(t("attention_steps.entropy_of_dropped"))
    known = {which: pd.Series(np.concatenate(found)).mean() for which, found in of.items()}  # of queries that see a key
    means, n_keys = {which: shared.number_text(mean) for which, mean in known.items()}, len(first.columns)
    st.markdown(t("attention_steps.most", n=n_keys, value=float(np.log(n_keys)), **means))
    if not split:
        _temperature(board, head, changed)


def _entropy(weights: Float[np.ndarray, "query key"]) -> Entropies:
    """Entropy of each row's shares: after dropout a row need not sum to 1; NaN where nothing is left of it."""
    sums = weights.sum(axis=1, keepdims=True)
    return entropy(np.divide(weights, sums, where=sums > 0, out=np.zeros_like(weights)))


def _temperature(board: Board, head: int, changed: Recipe) -> None:
    """The entropy of every row at other temperatures, the present one marked."""
    st.markdown(f"**{t('attention_steps.curve')}**")
    st.markdown(t("attention_steps.look_curve", temperature=changed.temperature))
    for name in "DMA":  # from the scores to the weights, with their mask
        for formula in board.formulas(f"{name}{head}"):
            st.latex(formula)
    found = lesson.temperature_curve(board, head, changed, TEMPERATURES)
    lines = dict(zip(board[f"Q{head}"].rows, found.T, strict=True))
    figure = curves(
        lines, plain("attention_steps.temperature_axis"), plain("attention_steps.entropy"), x=TEMPERATURES, log_x=True,
        mark=changed.temperature, dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="curve", config=plot_config("entropy", "svg"))


def why_panel(board: Board) -> None:
    """Why scores are divided by the root; and what the mean of the heads hides, where there are several."""
    topics = ["root", *(["mean"] if "A1" in board else [])]
    said = {topic: plain(f"attention_steps.why_{topic}") for topic in topics}
    topic = choice(t("attention_steps.why"), topics, key="topic", bare=True, text=said.__getitem__)
    shared.explain(t(f"attention_steps.look_why_{topic}"))
    if topic == "root":
        _root()
    else:
        _mean(board)


def _mean(board: Board) -> None:
    """Every head's weights, and their mean, which the model never uses."""
    heads = [replace(board[f"A{head}"], operation=START) for head in range(n_heads(board))]
    mean, formula = np.mean([head.values for head in heads], axis=0), rf"\bar A = \frac{{1}}{{{len(heads)}}} \sum_h A_h"
    shown = Board.of([*heads, replace(heads[0], name="A", symbol=r"\bar A", values=mean)])
    titles = {head.name: plain("attention_steps.head", head=i) for i, head in enumerate(heads)}
    titles["A"] = plain("attention_steps.title_why_mean")
    largest, strongest = (np.array([getattr(one.values, of)(axis=1) for one in heads]) for of in ("max", "argmax"))
    differ = int((strongest != mean.argmax(axis=1)).any(axis=0).sum())
    own, both = float(largest.mean()), float(mean.max(axis=1).mean())
    with shared.beside(formula) as words:
        about = shared.about("attention_steps.screen_why", formulas=[formula])
        shared.draw(shown, "mean", about, titles=titles, weights=list(shown), elided=True)
    words.markdown(t("attention_steps.mean_found", own=own, mean=both, differ=differ, count=len(mean)))


def _root() -> None:
    """The variance of scores, and the softmax's largest gradient, over d_k."""
    found = cached_result("growth", (), lesson.growth)
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
            log_y=what == "variance", dark=is_dark(), points=dict(zip(names, measured, strict=True)),
            points_name=plain("attention_steps.measured"),
        )  # fmt: skip
        side.plotly_chart(figure, key=f"why.{what}", config=plot_config(what, "svg"))
    last = found.sizes.index(64)
    st.markdown(t("attention_steps.root_found", without=found.gradient[0, last], with_=found.gradient[1, last]))
