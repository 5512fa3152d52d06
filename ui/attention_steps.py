"""The controls and panels of the lesson "Attention, step by step"."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
import streamlit as st

from transformer.lessons.attention import STAGES
from transformer.lessons.matrices import Board, Matrix
from transformer.lessons.operations import Given
from transformer.lessons.recipe import FILLS, Hiding, Recipe, entropy
from transformer.lessons.rowwise import Softmax
from transformer.lessons.toy import MAX_TOKENS
from ui import controls, lessons
from ui.address import choice, line, share, switch, whole
from ui.components.matrices import matrices
from ui.texts import t

STANDARD = Recipe()
SITES = {"encoder": "encoder.{}.self", "decoder": "decoder.{}.self", "cross": "decoder.{}.cross"}
RECURRENT = ("additive", "location")
KINDS = ("encoder", "decoder", "cross", "single", *RECURRENT)
WIDTHS = ("2", "4", "6", "8", "12", "16")
NOBODY = OWN = "0"

DEFAULTS: dict[str, Any] = {
    "attention": "encoder", "made": "toy", "d_model": "4", "n_heads": "2", "n_tokens": 4, "seed": 1,
    "norm_first": False, "at_step": 1, "scaled": True, "split": OWN, "hiding": "library", "mask_first": False,
    "blind": NOBODY, "dropout": 0.0, "draw": 0, "screen": "steps", "stage": "scores", "at_head": "0",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_softmax": {"stage": "softmax", "cell": "A0:2,3"},
    "try_scale": {"d_model": "16", "n_heads": "1", "scaled": False, "screen": "rows"},
    "try_heads": {"d_model": "8", "n_heads": "4", "split": "1", "screen": "rows"},
    "try_blind": {"attention": "decoder", "blind": "2", "hiding": "large", "screen": "rows"},
    "try_undefined": {"attention": "decoder", "blind": "2", "hiding": "infinity", "stage": "softmax", "cell": "A0:2,1"},
    "try_dropout": {"dropout": 0.3, "draw": 1, "screen": "rows"},
    "try_causal": {"attention": "single", "stage": "mask", "cell": "M0:2,3"},
    "try_cross": {"attention": "cross", "stage": "scores", "cell": "S0:1,3"},
    "try_additive": {"attention": "additive", "stage": "scores", "cell": "S:1,2"},
}
"""Settings worth seeing, by their text."""


@dataclass(frozen=True)
class Example:
    """What is worked out: which attention, of which model, on which words."""

    kind: str
    make: Callable[[Recipe], Board]
    can_change: bool

    def board(self, recipe: Recipe) -> Board:
        """The matrices, computed by `recipe`."""
        return self.make(recipe)


def kind() -> str:
    """Which attention is worked out."""
    return choice(
        t("attention_steps.kind"), KINDS, key="attention", bare=True,
        text=lambda kind: t(f"attention_steps.kind_{kind}"),
    )  # fmt: skip


def example(kind: str) -> Example | None:
    """Choose the model; None, with an explanation, when there is no trained model to show."""
    made = "toy"
    if kind in SITES:
        made = choice(
            t("lessons.model"), ("toy", "shipped"), key="made", bare=True, text=lambda made: t(f"lessons.{made}")
        )
    return _shipped(kind) if made == "shipped" else _toy(kind)


def _toy(kind: str) -> Example:
    with st.popover(t("attention_steps.size"), icon=":material/straighten:"):
        width = int(choice(t("attention_steps.d_model"), WIDTHS, key="d_model", default="4", text=str))
        n_heads = 1
        if kind in SITES:
            options = [heads for heads in ("1", "2", "4") if width % int(heads) == 0]
            n_heads = int(choice(t("attention_steps.n_heads"), options, key="n_heads", default="2", text=str))
        n_tokens = whole(t("attention_steps.n_tokens"), 1, MAX_TOKENS, 4, key="n_tokens")
        seed = whole(t("attention_steps.seed"), 0, 9_999, 1, key="seed")
        norm_first = kind not in RECURRENT and switch(t("attention_steps.norm_first"), False, key="norm_first")
    if kind in RECURRENT:
        step = whole(t("attention_steps.step"), 1, n_tokens, 1, key="at_step", width=180)
        attention = cast(Literal["additive", "location"], kind)
        return Example(kind, lambda _: lessons.toy_recurrent_board(width, n_tokens, seed, attention, step - 1), False)
    site = SITES.get(kind, SITES["decoder"]).format(0)
    return Example(
        kind, lambda recipe: lessons.toy_board(width, n_heads, n_tokens, seed, norm_first, site, recipe), True
    )


def _shipped(kind: str) -> Example | None:
    name = controls.checkpoint_choice("seq2seq")
    if name is None:
        return None
    source = line(t("lessons.source"), "A man rides a bicycle.", key="source", width=260)
    target = line(t("lessons.target"), "Ein Mann fährt Fahrrad.", key="target", width=260)
    layers = [str(layer) for layer in range(lessons.n_layers(name, SITES[kind].split(".")[0]))]
    layer = choice(t("lessons.layer"), layers, key="at_layer", text=str)
    site = SITES[kind].format(layer)
    return Example(kind, lambda recipe: lessons.shipped_board(name, source, target, site, recipe), True)


def recipe(chosen: Example) -> Recipe:
    """What is changed in the computation; the standard one where nothing can be changed."""
    if not chosen.can_change:
        return STANDARD
    board = chosen.board(STANDARD)
    queries = board["S0"].rows
    width = sum(board[f"Q{head}"].values.shape[1] for head in range(_heads(board)))
    splits = [OWN, *(str(n) for n in (1, 2, 4, 8) if width % n == 0)]
    places = [NOBODY, *(str(i + 1) for i in range(len(queries)))]
    own, nobody = t("attention_steps.split_own"), t("attention_steps.blind_none")
    with st.popover(t("attention_steps.change"), icon=":material/tune:"):
        scaled = switch(t("attention_steps.scaled"), True, key="scaled")
        mask_first = switch(t("attention_steps.order"), False, key="mask_first")
        split = choice(
            t("attention_steps.split"), splits, key="split", form="list",
            text=lambda n: own if n == OWN else n,
        )  # fmt: skip
        hiding = choice(
            t("attention_steps.hiding"), list(FILLS), key="hiding", form="list",
            text=lambda hiding: t(f"attention_steps.hiding_{hiding}"),
        )  # fmt: skip
        blind = choice(
            t("attention_steps.blind"), places, key="blind", form="list",
            text=lambda place: nobody if place == NOBODY else queries[int(place) - 1],
        )  # fmt: skip
        dropout = share(t("attention_steps.dropout"), 0.9, 0.0, key="dropout")
        draw = whole(t("attention_steps.seed"), 0, 9_999, 0, key="draw") if dropout else 0
    query = None if blind == NOBODY else int(blind) - 1
    return Recipe(scaled, int(split), cast(Hiding, hiding), not mask_first, query, dropout, draw)


def notes(chosen: Example, changed: Recipe) -> None:
    """What the choices mean, in words."""
    st.caption(t(f"attention_steps.kind_{chosen.kind}_note"))
    told = {
        "scaled": not changed.scaled,
        "split": changed.n_heads > 0,
        "hiding": changed.blind is not None or changed.hiding != "library",
        "order": not changed.scale_first,
        "dropout": changed.dropout > 0,
    }
    for name, tell in told.items():
        if tell:
            st.caption(t(f"attention_steps.{name}_note"))


def screen() -> str:
    """Which of the page's screens is open."""
    return choice(
        t("attention_steps.screen"), ("steps", "board", "rows"), key="screen", bare=True,
        text=lambda screen: t(f"attention_steps.screen_{screen}"),
    )  # fmt: skip


def steps_panel(board: Board, chosen: Example) -> None:
    """One step of the computation: its matrices, what to look at, the picked cell's equation."""
    stages = [stage for stage in STAGES if any(matrix.stage == stage for matrix in board.values())]
    stage = choice(
        t("attention_steps.stage"), stages, key="stage", default="scores", bare=True,
        text=lambda stage: t(f"attention_steps.stage_{stage}"),
    )  # fmt: skip
    head = _head(board)
    made = [matrix.name for matrix in board.values() if matrix.stage == stage and matrix.head in {None, head}]
    needed = {operand for name in made for operand in board[name].operation.operands}
    names = [name for name in board if name in needed or name in made]
    given = stage == "input" and all(isinstance(board[name].operation, Given) for name in made)
    st.caption(t(f"attention_steps.look_{stage}{'_given' if given else ''}"))
    for latex in _formula(stage, chosen.kind, board, head):
        st.latex(latex)
    _draw(board, names)
    st.markdown(f"**{t('attention_steps.equation')}**")
    _equation(board)


def board_panel(board: Board) -> None:
    """Every matrix of one head."""
    st.caption(t("attention_steps.look_board"))
    head = _head(board)
    _equation(board)
    _draw(board, [matrix.name for matrix in board.values() if matrix.head in {None, head}])


def rows_panel(standard: Board, board: Board) -> None:
    """The weights before and after the change, row by row: entropy and row sum."""
    st.caption(t("attention_steps.look_rows"))
    head = _head(board)
    now = _used(board, head)
    before = standard["A" if "A" in standard else f"A{min(head, _heads(standard) - 1)}"]
    both = Board.of(
        Matrix(name, symbol, "softmax", matrix.values, matrix.rows, matrix.columns, Given(), None, matrix.hidden)
        for name, symbol, matrix in (("standard", before.symbol, before), ("now", now.symbol, now))
    )
    titles = {name: t(f"attention_steps.{name}") for name in both}
    matrices(both, list(both), None, key="rows", weights=list(both), words=lessons.words(titles))
    spread = {"standard": entropy(before.values), "now": entropy(_weights(board, head).values)}
    st.latex(r"H_i = -\sum_j A_{ij} \ln A_{ij}")
    table = pd.DataFrame(
        {
            t("attention_steps.query"): list(now.rows),
            t("attention_steps.entropy_standard"): spread["standard"],
            t("attention_steps.entropy_now"): spread["now"],
            t("attention_steps.row_sum"): now.values.sum(axis=1),
        }
    )
    st.dataframe(table, hide_index=True, width="content", key="entropies")
    means = {name: float(values.mean()) for name, values in spread.items()}
    n_keys = len(now.columns)
    st.caption(t("attention_steps.most", n=n_keys, value=float(np.log(n_keys)), **means))
    lessons.matrix_downloads(both, list(both))


def _draw(board: Board, names: list[str]) -> None:
    """The picked cell's equation, and the matrices."""
    cell = lessons.picked_cell(board)
    matrices(
        board,
        names,
        cell,
        key="matrices",
        weights=[name for name in names if board[name].stage == "softmax"],
        words=lessons.words({name: t(f"attention_steps.title_{_kind_of(name)}") for name in names}),
        on_pick=lessons.pick_cell,
    )
    lessons.matrix_downloads(board, names)


def _equation(board: Board) -> None:
    """The picked cell worked out: its equation, and every term."""
    cell = lessons.picked_cell(board)
    if cell is None:
        st.caption(t("attention_steps.equation_none"))
        return
    worked = board.equation(cell.matrix, cell.row, cell.column)
    st.latex(worked.latex)
    if isinstance(board[cell.matrix].operation, Softmax):
        _softmax_table(board[cell.matrix], cell.row, worked.terms)
    elif len(worked.terms) > 1:
        with st.expander(t("attention_steps.terms", count=len(worked.terms))):
            columns = [t("attention_steps.term"), t("attention_steps.value")]
            st.dataframe(pd.DataFrame(worked.terms, columns=columns), hide_index=True, width="content")


def _kind_of(name: str) -> str:
    """What a matrix is, whichever head's: `Q` of `Q0`, `W` of `W_Q0`."""
    return name if name in _WHOLE else name.split("_", maxsplit=1)[0].rstrip("0123456789")


_WHOLE = ("sE", "EP", "s", "e", "v")
"""Matrices whose name is no letter with a head's number."""


def _softmax_table(matrix: Matrix, row: int, terms: tuple[tuple[str, float], ...]) -> None:
    """exp, sum, quotient of one row."""
    table = pd.DataFrame(
        {
            t("attention_steps.key"): [*matrix.columns, t("attention_steps.sum")],
            t("attention_steps.exponential"): [*(value for _, value in terms), sum(value for _, value in terms)],
            t("attention_steps.quotient"): [*matrix.values[row], float(matrix.values[row].sum())],
        }
    )
    st.dataframe(table, hide_index=True, width="content", key="softmax-row")


def _heads(board: Board) -> int:
    return sum(matrix.stage == "mix" for matrix in board.values())


def _head(board: Board) -> int:
    heads = _heads(board)
    if heads == 1:
        return 0
    return int(choice(t("lessons.head"), [str(head) for head in range(heads)], key="at_head", text=str))


def _weights(board: Board, head: int) -> Matrix:
    """The softmax's rows."""
    return board["A"] if "A" in board else board[f"A{head}"]


def _used(board: Board, head: int) -> Matrix:
    """The weights that mix the values: after dropout, if there is any."""
    return board[f"B{head}"] if f"B{head}" in board else _weights(board, head)


def _formula(stage: str, kind: str, board: Board, head: int) -> list[str]:
    """The step as an equation between matrices."""
    if kind == "additive":
        return {
            "project": [r"Q = s\,W^Q + b, \qquad K = H\,W^K + b"],
            "scores": [r"T_j = \tanh(Q + K_j), \qquad S_j = v \cdot T_j + b"],
            "softmax": [r"A_j = e^{S_j} \big/ \textstyle\sum_k e^{S_k}"],
            "mix": [r"c = \textstyle\sum_j A_j H_j"],
        }.get(stage, [])
    if kind == "location":
        return {
            "project": [r"[e; s]"],
            "scores": [r"S = [e; s]\,W + b"],
            "softmax": [r"A_j = e^{S_j} \big/ \textstyle\sum_k e^{S_k}"],
            "mix": [r"c = \textstyle\sum_j A_j H_j"],
        }.get(stage, [])
    ask = "\\hat X" if "N" in board else "X"
    answer = "H" if "H" in board else ask
    d_k = board[f"Q{head}"].values.shape[1]
    return {
        "input": [r"X = \sqrt{d}\,E + P"] if "sE" in board else [],
        "project": [rf"Q = {ask}\,W^Q, \qquad K = {answer}\,W^K, \qquad V = {answer}\,W^V"],
        "scores": [r"S = Q\,K^\top"],
        "scale": [rf"S \big/ \sqrt{{d_k}}, \qquad d_k = {d_k}"],
        "mask": [r"M_{ij} = -\infty \text{ where query } i \text{ may not see key } j"],
        "softmax": [r"A_{ij} = e^{M_{ij}} \big/ \textstyle\sum_k e^{M_{ik}}"],
        "mix": [r"Z_h = A_h\,V_h"],
        "concatenate": [r"Z = [Z_0; Z_1; \ldots]"],
        "output": [r"O = Z\,W^O"],
        "residual": [r"R = X + O" + (r", \qquad Y = \mathrm{LayerNorm}(R)" if "Y" in board else "")],
    }[stage]
