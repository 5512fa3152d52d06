"""The controls of the lesson "Attention, step by step"."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import streamlit as st

from transformer.lessons.expressions.board import Board
from transformer.lessons.recipe import COLDEST, FILLS, HOTTEST, Hiding, Recipe
from transformer.lessons.toy import MAX_TOKENS
from transformer.sites import Site
from ui.lessons import shared
from ui.shared import controls
from ui.shared.address import choice, line, switch, tenths, whole
from ui.texts import t

STANDARD = Recipe()
SITES = {"encoder": ("encoder", "self"), "decoder": ("decoder", "self"), "cross": ("decoder", "cross")}
RECURRENT = ("additive", "location")
KINDS = ("encoder", "decoder", "cross", "single", *RECURRENT)
WIDTHS = ("2", "4", "6", "8", "12", "16")
NOBODY = OWN = "0"

DEFAULTS: dict[str, Any] = {
    "attention": "encoder", "made": "toy", "d_model": "4", "n_heads": "2", "n_tokens": 4, "seed": 1,
    "norm_first": False, "at_step": 1, "scaled": True, "temperature": 1.0, "split": OWN, "hiding": "library",
    "mask_first": False, "blind": NOBODY, "dropout": 0.0, "draw": 0, "screen": "steps",
    "stage": "scores", "at_head": "0",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_softmax": {"stage": "softmax", "cell": "A0:2,3"},
    "try_scale": {"d_model": "16", "n_heads": "1", "scaled": False, "screen": "rows"},
    "try_hot": {"d_model": "8", "temperature": 4.0, "screen": "rows"},
    "try_cold": {"d_model": "8", "temperature": 0.2, "screen": "rows"},
    "try_heads": {"d_model": "8", "n_heads": "4", "split": "1", "screen": "rows"},
    "try_blind": {"attention": "decoder", "blind": "2", "hiding": "large", "screen": "rows"},
    "try_undefined": {"attention": "decoder", "blind": "2", "hiding": "infinity", "stage": "softmax", "cell": "A0:2,1"},
    "try_dropout": {"dropout": 0.3, "draw": 1, "screen": "rows"},
    "try_causal": {"attention": "single", "stage": "mask", "cell": "M0:2,3"},
    "try_cross": {"attention": "cross", "stage": "scores", "cell": "S0:1,3"},
    "try_own_values": {"attention": "encoder", "made": "shipped", "screen": "rows", "temperature": 2.0},
    "try_additive": {"attention": "additive", "stage": "scores", "cell": "S:1,2"},
    "try_recurrent": {"attention": "additive", "made": "shipped", "stage": "softmax"},
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
    if kind != "single":
        made = choice(
            t("lessons.model"), ("toy", "shipped"), key="made", bare=True, text=lambda made: t(f"lessons.{made}")
        )
    if made == "toy":
        return _toy(kind)
    return _shipped_recurrent(kind) if kind in RECURRENT else _shipped(kind)


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
        return Example(kind, lambda _: shared.toy_recurrent_board(width, n_tokens, seed, attention, step - 1), False)
    site = _site(kind, 0)
    return Example(
        kind, lambda recipe: shared.toy_board(width, n_heads, n_tokens, seed, norm_first, site, recipe), True
    )


def _site(kind: str, layer: int) -> Site:
    stack, attention = SITES.get(kind, SITES["decoder"])
    return Site.of(stack, layer, attention)


def _shipped(kind: str) -> Example | None:
    name = controls.checkpoint_choice("seq2seq")
    if name is None:
        return None
    source, target = _sentences()
    stack, _ = SITES[kind]
    layers = [str(layer) for layer in range(shared.n_layers(name, stack))]
    layer = choice(t("lessons.layer"), layers, key="at_layer", text=str)
    site = _site(kind, int(layer))
    return Example(kind, lambda recipe: shared.shipped_board(name, source, target, site, recipe), True)


def _shipped_recurrent(kind: str) -> Example | None:
    names = shared.recurrent_names(kind)
    if not names:
        st.info(t(f"attention_steps.no_{kind}"), icon=":material/info:")
        return None
    name = choice(t("lessons.checkpoint"), names, key="rnn", form="list", width=260, text=str)
    source, target = _sentences()
    step = whole(t("attention_steps.step"), 1, shared.n_steps(name, target), 1, key="at_step", width=180)
    return Example(kind, lambda _: shared.shipped_recurrent_board(name, source, target, step - 1), False)


def _sentences() -> tuple[str, str]:
    return (
        line(t("lessons.source"), "A man rides a bicycle.", key="source", width=260),
        line(t("lessons.target"), "Ein Mann fährt Fahrrad.", key="target", width=260),
    )


def recipe(chosen: Example) -> Recipe:
    """What is changed in the computation; the standard one where nothing can be changed."""
    if not chosen.can_change:
        return STANDARD
    board = chosen.board(STANDARD)
    width = sum(board[f"Q{head}"].values.shape[1] for head in range(shared.n_heads(board)))
    with st.popover(t("attention_steps.change"), icon=":material/tune:"):
        scaled = switch(t("attention_steps.scaled"), True, key="scaled")
        temperature = tenths(t("attention_steps.temperature"), COLDEST, HOTTEST, 1.0, key="temperature")
        mask_first = switch(t("attention_steps.order"), False, key="mask_first")
        n_heads = _split(width)
        hiding = choice(
            t("attention_steps.hiding"), list(FILLS), key="hiding", form="list",
            text=lambda hiding: t(f"attention_steps.hiding_{hiding}"),
        )  # fmt: skip
        blind = _blind(board["S0"].rows)
        dropout = tenths(t("attention_steps.dropout"), 0.0, 0.9, 0.0, key="dropout")
        draw = whole(t("attention_steps.seed"), 0, 9_999, 0, key="draw") if dropout else 0
    return Recipe(scaled, temperature, n_heads, cast(Hiding, hiding), not mask_first, blind, dropout, draw)


def _split(width: int) -> int:
    """Into how many heads `width` dimensions are split; 0 for as many as the layer has."""
    options = [OWN, *(str(n) for n in (1, 2, 4, 8) if width % n == 0)]
    own = t("attention_steps.split_own")
    return int(
        choice(t("attention_steps.split"), options, key="split", form="list", text=lambda n: own if n == OWN else n)
    )


def _blind(queries: Sequence[str]) -> int | None:
    """The query from which every key is hidden; None for none."""
    options = [NOBODY, *(str(i + 1) for i in range(len(queries)))]
    nobody = t("attention_steps.blind_none")
    found = choice(
        t("attention_steps.blind"), options, key="blind", form="list",
        text=lambda number: nobody if number == NOBODY else queries[int(number) - 1],
    )  # fmt: skip
    return None if found == NOBODY else int(found) - 1


def notes(chosen: Example, changed: Recipe) -> None:
    """What the choices mean, in words."""
    st.caption(t(f"attention_steps.kind_{chosen.kind}_note"))
    told = {
        "scaled": not changed.scaled,
        "temperature": changed.temperature != 1.0,
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
