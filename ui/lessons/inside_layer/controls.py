"""The controls of the lesson "Inside a layer"."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from transformer.checkpoint.checkpoint import HUGGING_FACE
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.lessons.inside.boards import STAGES
from transformer.lessons.inside.norms import BESIDE, SHOWN
from transformer.lessons.inside.outputs import positions_of
from transformer.lessons.run import Run
from transformer.lessons.toy import toy_sentences
from transformer.nn.norms import norm_kind
from ui.lessons import shared
from ui.lessons.inside_layer.convolution import START
from ui.lessons.inside_layer.examples import Example, own_translation, run_of, toy_run
from ui.shared import controls, subject, writing
from ui.shared.address import belong_to, choice, line, switch, whole
from ui.store import store
from ui.texts import plain, t

WIDTHS = ("2", "4", "6", "8", "12", "16")
TAKEN_APART = ("seq2seq", "encoder", "decoder")
"""The architectures whose layers this lesson takes apart."""

LETTERS = "letters"
SAMPLE = 8
"""Ids that a checkpoint without examples starts with."""

DEFAULTS: dict[str, Any] = {
    "made": "toy", "d_model": "4", "n_tokens": 4, "source_words": "", "target_words": "",
    "seed": 1, "norm_first": False, "gelu": False, "tied": True,
    "side": "encoder", "at_layer": "0", "part": "self", "form": "torch", "position": "0", "stage": "embedding",
    "letters": START, "window": 3, "filters": 2,
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_scale": {"stage": "embedding", "made": "shipped"},
    "try_share": {"stage": "residual", "made": "shipped"},
    "try_gain": {"stage": "norm", "cell": "Y.0.1"},
    "try_small": {"stage": "norm", "d_model": "2", "form": BESIDE},
    "try_norms": {"stage": "norm", "made": "shipped", "form": BESIDE},
    "try_order": {"stage": "order", "part": "feed_forward"},
    "try_bend": {"stage": "feed_forward", "gelu": True, "cell": "B.0.1"},
    "try_asleep": {"stage": "feed_forward", "made": "shipped"},
    "try_letters": {"made": LETTERS},
    "try_next": {"stage": "output", "made": "shipped", "cell": "L.0.0"},
}
"""Settings worth seeing, by their text."""


@dataclass(frozen=True)
class Place:
    """Which sub-layer is looked at; the layer counts from 0."""

    stack: str
    layer: int
    part: str


def made() -> str:
    """What is taken apart: a toy, a trained model, or a convolution over a few letters."""
    return choice(
        t("lessons.model"), ("toy", "shipped", LETTERS), key="made", form="list", width=140, bare=True,
        text=lambda made: plain(f"inside_layer.made_{made}" if made == LETTERS else f"attention_steps.made_{made}"),
    )  # fmt: skip


def example(made: str) -> Example | None:
    """Choose the model and the sentence; None, with an explanation, where there is nothing to take apart.

    Raises:
        HeedmapError: what was typed cannot be read.
    """
    return _toy() if made == "toy" else _trained()


def _toy() -> Example:
    with st.popover(t("attention_steps.size"), icon=":material/straighten:"):
        width = int(choice(t("attention_steps.d_model"), WIDTHS, key="d_model", default="4", text=str))
        words = shared.toy_words("source", "target")
        seed = whole(t("attention_steps.seed"), 0, 9_999, 1, key="seed")
        norm_first = switch(t("inside_layer.norm_first"), False, key="norm_first")
        gelu = switch(t("inside_layer.gelu"), False, key="gelu")
        tied = switch(t("inside_layer.tied"), True, key="tied")
    sentences = tuple(" ".join(sentence.labels) for sentence in toy_sentences(*words))
    return Example(partial(toy_run, width, words, seed, norm_first, gelu, tied), sentences, is_toy=True)


def _trained() -> Example | None:
    families = [f"{HUGGING_FACE}{kind}" for kind in ("seq2seq", "encoder", "decoder")]
    name = controls.checkpoint_choice(*TAKEN_APART, "kmer", "recurrent", *families)
    if name is None:
        return None
    architecture = store.architecture(name) or ""
    if architecture not in TAKEN_APART:
        reason = architecture if architecture in {"kmer", "recurrent"} else "other"
        st.info(t(f"inside_layer.not_{reason}", name=name), icon=":material/info:")
        if architecture.startswith(HUGGING_FACE):
            writing.lead_to_map(name, store.checkpoint(name))
        return None
    checkpoint, typed, own = store.checkpoint(name), "", None
    writing.lead_to_map(name, checkpoint)
    with st.popover(t("inside_layer.sentence"), icon=":material/edit:"):
        start = checkpoint.examples[0] if checkpoint.examples else ""
        if not start and checkpoint.tokenizer is not None:
            start = checkpoint.tokenizer.decode(sample_ids(checkpoint.model.config, SAMPLE, len(checkpoint.tokenizer)))
        belong_to(name, "text")
        source = line(t("lessons.source"), start, key="text")
        subject.show(name, source)
        belong_to((name, source), "target", "position", shared.CELL)
        if checkpoint.translates:
            own = own_translation(name, source)
            typed = line(t("lessons.target"), own.text, key="target")
    is_own = own is not None and typed == own.text
    run = run_of(name, source, own if own is None or is_own else typed)
    return Example(run, (source,) if own is None else (source, typed), is_toy=False)


def stage() -> str:
    """Which step is looked at."""
    return shared.stage("inside_layer", STAGES)


def place(run: Run, stage: str) -> Place:
    """Which stack, layer and sub-layer the step is shown of, where it asks for one."""
    stack = run.stacks[0]
    if stage != "output" and len(run.stacks) > 1:
        stack = choice(
            t("inside_layer.side"), run.stacks, key="side", form="list", width=130, bare=True,
            text=lambda one: plain(f"inside_layer.side_{one}"),
        )  # fmt: skip
    layers, layer = [str(layer) for layer in range(run.n_layers(stack))], 0
    if stage not in {"embedding", "output"} and len(layers) > 1:
        layer = int(
            choice(
                t("lessons.layer"), layers, key="at_layer", form="list", width=100, bare=True,
                text=lambda one: plain("inside_layer.layer", layer=one),
            )
        )  # fmt: skip
    parts, part = run.parts(stack), "self"
    if stage in {"residual", "norm", "order"}:
        part = choice(
            t("inside_layer.part"), parts, key="part", form="list", width=170, bare=True,
            text=lambda one: plain(f"inside_layer.part_{one}"),
        )  # fmt: skip
    return Place(stack, layer, part)


def form(run: Run, at: Place) -> str:
    """Which form of the norm is worked out, at first the model's own; or all beside each other."""
    own = norm_kind(run.sub_layer(at.stack, at.layer, at.part).residual.norm)
    return choice(
        t("inside_layer.form"), tuple(SHOWN), key="form", default=own, form="list", width=190, bare=True,
        text=lambda one: plain(f"inside_layer.form_{one}"),
    )  # fmt: skip


def position(run: Run) -> int:
    """Whose next word is looked at; no control where the whole input has one output."""
    labels = positions_of(run)
    if len(labels) < 2:
        return 0
    return int(
        choice(
            t("inside_layer.position"), [str(i) for i in range(len(labels))], key="position", form="list", width=150,
            bare=True, text=lambda i: plain("inside_layer.after", word=labels[int(i)]),
        )
    )  # fmt: skip
