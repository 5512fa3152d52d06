"""What the lesson "Attention, step by step" works out: which attention, of which model, on which words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

import streamlit as st

from heedmap import DecodingOptions
from heedmap.lessons.attention import AttentionLayer, Recipe, recurrent_board
from heedmap.lessons.board import Board
from heedmap.lessons.sentences import source_sentence, target_sentence, toy_recurrent, toy_sentences, toy_transformer
from heedmap.nn.recurrent import Recurrent
from heedmap.nn.seq2seq import Seq2Seq
from heedmap.sites import Site
from ui.lessons import shared
from ui.lessons.shared import ToyWords, listed
from ui.shared import controls, heads, subject
from ui.shared.address import belong_to, choice, line, stop, switch, whole
from ui.store import runs, store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import t

SENTENCES = "A man rides a bicycle.", "Ein Mann fährt Fahrrad."
SITES = {"encoder": Site("encoder.0.self"), "decoder": Site("decoder.0.self"), "cross": Site("decoder.0.cross")}
RECURRENT = ("additive", "location")
KINDS = (*SITES, *RECURRENT)
SIDES: dict[str, tuple[Literal["source", "target"], ...]] = {"encoder": ("source",), "decoder": ("target",)}
"""Whose words an attention reads, where it does not read both."""


@dataclass(frozen=True)
class LayerExample:
    """What is worked out: which attention, of which model, on which words; `layer` counts from 0.

    `board` gives the matrices, computed by a recipe. `first_head` is shown at first: in a trained cross-attention the
    one that was measured to name the deciding word.
    """

    kind: str
    board: Callable[[Recipe], Board]
    sentences: tuple[str, ...]
    layer: int = 0
    first_head: int = 0

    @property
    def can_change(self) -> bool:
        """Whether the computation can be changed: that of a recurrent decoder cannot."""
        return self.kind not in RECURRENT


def example() -> LayerExample:
    """Choose the attention and the model; the page ends, with an explanation, where there is no trained one."""
    kind = listed("attention_steps.kind", KINDS, key="attention", width=142, bare=True)
    if shared.model_kind() == "toy":
        return _toy(kind)
    return _shipped_recurrent(kind) if kind in RECURRENT else _shipped(kind)


def _toy(kind: str) -> LayerExample:
    n_heads, norm_first, step = 1, False, 1
    with st.popover(t("attention_steps.size"), icon=":material/straighten:"):
        width = shared.toy_width()
        if kind in SITES:
            options = [heads for heads in ("1", "2", "4") if width % int(heads) == 0]
            n_heads = int(choice(t("attention_steps.n_heads"), options, key="n_heads", default="2", text=str))
        words, sides = shared.toy_words(*SIDES.get(kind, ("source", "target")))
        seed = shared.toy_seed()
        if kind in SITES:
            norm_first = switch(t("attention_steps.norm_first"), False, key="norm_first")
        else:
            step = whole(t("attention_steps.step"), 1, len(sides[1].ids), 1, key="at_step")

    def board(recipe: Recipe) -> Board:
        if kind in RECURRENT:
            return _toy_recurrent(width, words, seed, kind, step - 1)
        return _toy_layer(width, n_heads, words, seed, norm_first, SITES[kind]).board(recipe)

    return LayerExample(kind, board, tuple(" ".join(sentence.labels) for sentence in sides))


def _shipped(kind: str) -> LayerExample:
    name = controls.checkpoint_choice("seq2seq")
    first = SITES[kind]
    known = heads.agreement(name) if kind == "cross" else None
    best = (known.best.layer, known.best.head) if known is not None and known.rows else (0, 0)
    with st.popover(t("attention_steps.sentence"), icon=":material/edit:"):
        source, target = _sentences(name, kind != "encoder")
        subject.show(name, source)
        n_layers = len(getattr(store.checkpoint(name).model_as(Seq2Seq), first.stack))
        layers = [str(layer) for layer in range(n_layers)]
        layer = int(choice(t("lessons.layer"), layers, key="at_layer", default=str(best[0]), text=str))
    site = Site.of(first.stack, layer, first.kind)
    return LayerExample(
        kind, lambda recipe: shipped_layer(store.revision(name), source, target, site).board(recipe),
        (source,) if target is None else (source, target), layer, best[1] if layer == best[0] else 0,
    )  # fmt: skip


def _shipped_recurrent(kind: str) -> LayerExample:
    every = store.checkpoint_names("recurrent")
    names = [name for name in every if store.checkpoint(name).model_as(Recurrent).config.attention.kind == kind]
    if not names:
        st.info(t(f"attention_steps.no_{kind}"), icon=":material/info:")
        stop()
    with st.popover(t("attention_steps.sentence"), icon=":material/edit:"):
        name = listed("lessons.checkpoint", names, key="rnn", width="stretch", text=str)
        source, target = _sentences(None)
        n_steps = len(target_sentence(store.checkpoint(name), target or "").ids)
        step = whole(t("attention_steps.step"), 1, n_steps, 1, key="at_step")
    sentences = source, target or ""
    return LayerExample(kind, lambda _: _shipped_step(store.revision(name), *sentences, step - 1), sentences)


def _sentences(name: str | None, with_target: bool = True) -> tuple[str, str | None]:
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


@cached()
def _toy_layer(d_model: int, n_heads: int, words: ToyWords, seed: int, norm_first: bool, site: str) -> AttentionLayer:
    return AttentionLayer(toy_transformer(d_model, n_heads, seed, norm_first), *toy_sentences(*words), site)


@cached()
def _toy_recurrent(hidden: int, words: ToyWords, seed: int, attention: str, step: int) -> Board:
    model = toy_recurrent(hidden, cast(Literal["additive", "location"], attention), seed)
    return recurrent_board(model, *toy_sentences(*words), step)


@cached()
def shipped_layer(revision: Revision, text: str, target: str | None, site: str) -> AttentionLayer:
    """One attention layer of a checkpoint on a typed sentence pair; the encoder needs no target."""
    checkpoint = store.load(revision)
    read = None if target is None else target_sentence(checkpoint, target)
    return AttentionLayer(checkpoint.model_as(Seq2Seq), source_sentence(checkpoint, text), read, site)


@cached()
def _shipped_step(revision: Revision, text: str, target: str, step: int) -> Board:
    checkpoint = store.load(revision)
    source, read = source_sentence(checkpoint, text), target_sentence(checkpoint, target)
    return recurrent_board(checkpoint.model_as(Recurrent), source, read, step)
