"""The controls of the lesson "Attention, step by step"."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import DecodingOptions
from transformer.lessons.expressions.board import Board
from transformer.lessons.recipe import COLDEST, FILLS, HOTTEST, Hiding, Recipe
from transformer.lessons.toy import toy_sentences
from transformer.sites import Site
from ui.lessons import shared
from ui.shared import controls, heads, subject
from ui.shared.address import belong_to, choice, line, put, switch, tenths, whole
from ui.store import runs
from ui.texts import plain, t

STANDARD = Recipe()
SENTENCES = "A man rides a bicycle.", "Ein Mann fährt Fahrrad."
SITES = {"encoder": ("encoder", "self"), "decoder": ("decoder", "self"), "cross": ("decoder", "cross")}
RECURRENT = ("additive", "location")
SIDES: dict[str, tuple[Literal["source", "target"], ...]] = {
    "encoder": ("source",),
    "decoder": ("target",),
    "cross": ("source", "target"),
    "single": ("target",),
    "additive": ("source", "target"),
    "location": ("source", "target"),
}
"""Whose words each attention reads."""

KINDS = ("encoder", "decoder", "cross", "single", *RECURRENT)
WIDTHS = ("2", "4", "6", "8", "12", "16")
NOBODY = OWN = "0"

DEFAULTS: dict[str, Any] = {
    "attention": "encoder", "made": "toy", "d_model": "4", "n_heads": "2", "n_tokens": 4, "source_words": "",
    "target_words": "", "seed": 1,
    "norm_first": False, "at_step": 1, "scaled": True, "temperature": 1.0, "split": OWN, "hiding": "library",
    "mask_first": False, "blind": NOBODY, "dropout": 0.0, "draw": 0, "screen": "steps",
    "stage": "input", "at_head": "0",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

CHANGES = ("scaled", "temperature", "mask_first", "split", "hiding", "blind", "dropout", "draw")
"""The controls that change the computation."""

TRY: dict[str, dict[str, Any]] = {
    "try_softmax": {"stage": "softmax", "cell": "A0.1.2"},
    "try_scale": {"d_model": "16", "n_heads": "1", "scaled": False, "screen": "rows"},
    "try_hot": {"d_model": "8", "temperature": 4.0, "screen": "rows"},
    "try_cold": {"d_model": "8", "temperature": 0.2, "screen": "rows"},
    "try_heads": {"d_model": "8", "n_heads": "4", "split": "1", "screen": "rows"},
    "try_blind": {"attention": "decoder", "blind": "2", "hiding": "large", "screen": "rows"},
    "try_undefined": {"attention": "decoder", "blind": "2", "hiding": "infinity", "stage": "softmax", "cell": "A0.1.0"},
    "try_dropout": {"dropout": 0.3, "draw": 1, "screen": "rows"},
    "try_causal": {"attention": "single", "stage": "mask", "cell": "M0.1.2"},
    "try_cross": {"attention": "cross", "stage": "scores", "cell": "S0.0.2"},
    "try_own_values": {"attention": "encoder", "made": "shipped", "screen": "rows", "temperature": 2.0},
    "try_why": {"screen": "why"},
    "try_additive": {"attention": "additive", "stage": "scores", "cell": "S.0.1"},
    "try_recurrent": {"attention": "additive", "made": "shipped", "stage": "softmax"},
}
"""Settings worth seeing, by their text."""


@dataclass(frozen=True)
class Example:
    """What is worked out: which attention, of which model, on which words; `layer` counts from 0.

    `first_head` is shown at first: in a trained cross-attention the one that was measured to name the deciding word.
    """

    kind: str
    make: Callable[[Recipe], Board]
    can_change: bool
    layer: int = 0
    sentences: tuple[str, ...] = ()
    first_head: int = 0

    def board(self, recipe: Recipe) -> Board:
        """The matrices, computed by `recipe`."""
        return self.make(recipe)


def kind() -> str:
    """Which attention is worked out."""
    return choice(
        t("attention_steps.kind"), KINDS, key="attention", form="list", width=168, bare=True,
        text=lambda kind: plain(f"attention_steps.kind_{kind}"),
    )  # fmt: skip


def example(kind: str) -> Example | None:
    """Choose the model; None, with an explanation, when there is no trained model to show."""
    made = "toy"
    if kind != "single":
        made = choice(
            t("lessons.model"), ("toy", "shipped"), key="made", form="list", width=112, bare=True,
            text=lambda made: plain(f"attention_steps.made_{made}"),
        )  # fmt: skip
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
        words = shared.toy_words(*SIDES[kind])
        read, written = toy_sentences(*words)
        seed = whole(t("attention_steps.seed"), 0, 9_999, 1, key="seed")
        norm_first = kind not in RECURRENT and switch(t("attention_steps.norm_first"), False, key="norm_first")
        step = whole(t("attention_steps.step"), 1, len(written.ids), 1, key="at_step") if kind in RECURRENT else 1
    sentences = tuple(" ".join(sentence.labels) for sentence in (read, written))
    if kind in RECURRENT:
        attention = cast(Literal["additive", "location"], kind)
        return Example(
            kind, lambda _: shared.toy_recurrent_board(width, words, seed, attention, step - 1), False,
            sentences=sentences,
        )  # fmt: skip
    site = _site(kind, 0)
    return Example(
        kind, lambda recipe: shared.toy_board(width, n_heads, words, seed, norm_first, site, recipe), True,
        sentences=sentences,
    )  # fmt: skip


def _site(kind: str, layer: int) -> Site:
    stack, attention = SITES.get(kind, SITES["decoder"])
    return Site.of(stack, layer, attention)


def _shipped(kind: str) -> Example | None:
    name = controls.checkpoint_choice("seq2seq")
    if name is None:
        return None
    stack, _ = SITES[kind]
    known = heads.agreement(name) if kind == "cross" else None
    best = (known.best.layer, known.best.head) if known is not None and known.rows else (0, 0)
    with _settings():
        source, target = _sentences(kind != "encoder", name)
        subject.show(name, source)
        layers = [str(layer) for layer in range(shared.n_layers(name, stack))]
        layer = int(choice(t("lessons.layer"), layers, key="at_layer", default=str(best[0]), text=str))
    site = _site(kind, layer)
    return Example(
        kind, lambda recipe: shared.shipped_board(name, source, target, site, recipe), True, layer,
        (source,) if target is None else (source, target), best[1] if layer == best[0] else 0,
    )  # fmt: skip


def _shipped_recurrent(kind: str) -> Example | None:
    names = shared.recurrent_names(kind)
    if not names:
        st.info(t(f"attention_steps.no_{kind}"), icon=":material/info:")
        return None
    with _settings():
        name = choice(t("lessons.checkpoint"), names, key="rnn", form="list", width="stretch", text=str)
        source, target = _sentences(with_target=True)
        step = whole(t("attention_steps.step"), 1, shared.n_steps(name, target or ""), 1, key="at_step")
    return Example(
        kind, lambda _: shared.shipped_recurrent_board(name, source, target or "", step - 1), False,
        sentences=(source, target or ""),
    )  # fmt: skip


def _settings() -> DeltaGenerator:
    """Where the sentence and the layer of a trained model are chosen."""
    return st.popover(t("attention_steps.sentence"), icon=":material/edit:")


def _sentences(with_target: bool, name: str | None = None) -> tuple[str, str | None]:
    """The source, and the target where it is read: at first what the model of this name writes for another source.

    About other sentences no cell is picked.
    """
    source, usual = line(t("lessons.source"), SENTENCES[0], key="source"), SENTENCES[1]
    belong_to(source, "target", shared.CELL)
    if not with_target:
        return source, None
    if name is not None and source != SENTENCES[0]:
        usual = runs.translation(name, source, DecodingOptions(), None).text
    return source, line(t("lessons.target"), usual, key="target")


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
            text=lambda hiding: plain(f"attention_steps.hiding_{hiding}"),
        )  # fmt: skip
        blind = _blind(board["S0"].rows)
        dropout = tenths(t("attention_steps.dropout"), 0.0, 0.9, 0.0, key="dropout")
        draw = whole(t("attention_steps.seed"), 0, 9_999, 0, key="draw") if dropout else 0
    return Recipe(scaled, temperature, n_heads, cast(Hiding, hiding), not mask_first, blind, dropout, draw)


def changed(chosen: Example, recipe: Recipe) -> None:
    """What is changed now, with what it does, and one button that takes all of it back; nothing where nothing is."""
    found = {
        "scaled": not recipe.scaled,
        "temperature": recipe.temperature != 1.0,
        "split": recipe.n_heads > 0,
        "order": not recipe.scale_first,
        "hiding": recipe.hiding != "library",
        "blind": recipe.blind is not None,
        "dropout": recipe.dropout > 0,
    }
    fields: dict[str, dict[str, object]] = {
        "temperature": {"value": recipe.temperature},
        "split": {"count": recipe.n_heads},
        "hiding": {"value": plain(f"attention_steps.hiding_{recipe.hiding}")},
        "blind": {} if recipe.blind is None else {"query": chosen.board(STANDARD)["S0"].rows[recipe.blind]},
        "dropout": {"p": recipe.dropout},
    }
    names = [name for name, is_changed in found.items() if is_changed]
    if not names:
        return
    told = [plain(f"attention_steps.changed_{name}", **fields.get(name, {})) for name in names]
    notes = " ".join(t(f"attention_steps.{name}_note") for name in names)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(t("attention_steps.changed", changes=" · ".join(told)), width="content", help=notes)
        st.button(t("attention_steps.reset"), key="reset", on_click=_reset, icon=":material/undo:", type="tertiary")


def _reset() -> None:
    put(**dict.fromkeys(CHANGES))


def _split(width: int) -> int:
    """Into how many heads `width` dimensions are split; 0 for as many as the layer has."""
    options = [OWN, *(str(n) for n in (1, 2, 4, 8) if width % n == 0)]
    own = plain("attention_steps.split_own")
    return int(
        choice(t("attention_steps.split"), options, key="split", form="list", text=lambda n: own if n == OWN else n)
    )


def _blind(queries: Sequence[str]) -> int | None:
    """The query from which every key is hidden; None for none."""
    options = [NOBODY, *(str(i + 1) for i in range(len(queries)))]
    nobody = plain("attention_steps.blind_none")
    found = choice(
        t("attention_steps.blind"), options, key="blind", form="list",
        text=lambda number: nobody if number == NOBODY else queries[int(number) - 1],
    )  # fmt: skip
    return None if found == NOBODY else int(found) - 1


def screen(can_change: bool) -> str:
    """Which of the page's screens is open; rows before and after a change only where something can be changed."""
    screens = ["steps", "board", *(["rows"] if can_change else []), "why"]
    return choice(
        t("attention_steps.screen"), screens, key="screen", form="list", width=150, bare=True,
        text=lambda screen: plain(f"attention_steps.screen_{screen}"),
    )  # fmt: skip


def head(board: Board, first: int = 0) -> int:
    """Which head is looked at, `first` at first, if there is one; no control where there is but one."""
    numbers = [str(head) for head in range(shared.n_heads(board))]
    if len(numbers) == 1:
        return 0
    return int(
        choice(
            t("lessons.head"),
            numbers,
            key="at_head",
            default=str(first if first < len(numbers) else 0),
            form="list",
            width=100,
            bare=True,
            text=lambda head: plain("attention_steps.head", head=head),
        )
    )


def stages_of(board: Board) -> list[str]:
    """The steps of this board, in the order of its computation."""
    return list(dict.fromkeys(matrix.stage for matrix in board.values()))


def stage(board: Board) -> str:
    """Which step is looked at."""
    return shared.stage("attention_steps", stages_of(board))
