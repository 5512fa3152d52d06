"""The lesson "Inside a layer": what stands around attention, of a toy or of a checkpoint; a cell is worked out.

What is said of a step is made from the run and the board that are shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from torch import nn

from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.checkpoint.foreign.vocabularies import sample_ids
from heedmap.checkpoint.huggingface.model import HUGGING_FACE
from heedmap.lessons import inside
from heedmap.lessons.board import Board
from heedmap.lessons.inside import BESIDE, SHOWN, is_tied, output_board, positions_of
from heedmap.lessons.run import Run, in_float64
from heedmap.lessons.sentences import (
    MAX_TOKENS,
    Sentence,
    encoder_sentence,
    source_sentence,
    target_sentence,
    toy_layers,
    toy_sentences,
    toy_words,
)
from heedmap.nn.blocks import Residual, norm_kind
from heedmap.nn.search import DecodingOptions
from heedmap.plots.canvas.views import About
from heedmap.plots.export import file_name
from heedmap.runs.any_model import continues
from heedmap.runs.translate import Translation
from ui.lessons import shared
from ui.lessons.shared import ToyWords, listed
from ui.shared import controls, subject, writing
from ui.shared.address import belong_to, line, stop, switch, whole
from ui.store import runs, store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import as_text, plain, t

START, SIZES = "CAGGTAAGTA", {"window": 3, "filters": 2}
"""Letters around the start of an intron, as they often are; sizes of their convolution."""

SUPPORTED = ("seq2seq", "encoder", "decoder")
"""The architectures whose layers this lesson takes apart."""

SAMPLE = 8
"""Ids that a checkpoint without examples starts with."""

TRY: dict[str, dict[str, Any]] = {
    "try_scale": {"stage": "embedding", "made": "shipped"},
    "try_share": {"stage": "residual", "made": "shipped"},
    "try_norms": {"stage": "norm", "made": "shipped", "form": BESIDE},
    "try_order": {"stage": "order", "part": "feed_forward"},
    "try_bend": {"stage": "feed_forward", "gelu": True, "cell": "B.0.1"},
    "try_letters": {"made": "letters"},
    "try_next": {"stage": "output", "made": "shipped", "cell": "L.0.0"},
}
"""Settings worth seeing, by their text."""


class Convolution(NamedTuple):
    """A few letters, how many a window holds, and the convolution of them."""

    letters: str
    width: int
    board: Board


@dataclass(frozen=True, eq=False)
class RunExample:
    """What finds a run, which is looked up whenever it is asked for, and the sentences that it is about."""

    run: Callable[[], Run]
    sentences: tuple[str, ...]
    is_toy: bool


def example() -> RunExample | Convolution:
    """Choose the model and what it reads; the page ends, with an explanation, where there is nothing to take apart.

    Raises:
        HeedmapError: what was typed cannot be read.
    """
    made = shared.model_kind("letters")
    return _letters() if made == "letters" else _toy() if made == "toy" else _trained()


def _letters() -> Convolution:
    letters = line(t("inside_layer.letters", most=inside.LONGEST), START, key="letters", width=220)
    with st.popover(t("attention_steps.size"), icon=":material/straighten:"):
        width, count = (whole(t(f"inside_layer.{key}"), 1, 4, usual, key=key) for key, usual in SIZES.items())
        seed = shared.toy_seed()
    belong_to((letters, width), shared.CELL)
    return Convolution(letters, width, inside.convolution_board(letters, width, count, seed))


def _toy() -> RunExample:
    with st.popover(t("attention_steps.size"), icon=":material/straighten:"):
        width = shared.toy_width()
        words, read = shared.toy_words("source", "target")
        seed = shared.toy_seed()
        norm_first, gelu, tied = (
            switch(t(f"inside_layer.{key}"), usual, key=key)
            for key, usual in (("norm_first", False), ("gelu", False), ("tied", True))
        )
    sentences = tuple(" ".join(sentence.labels) for sentence in read)
    return RunExample(partial(_toy_run, width, words, seed, norm_first, gelu, tied), sentences, is_toy=True)


def _trained() -> RunExample:
    families = [f"{HUGGING_FACE}{kind}" for kind in ("seq2seq", "encoder", "decoder")]
    name = controls.checkpoint_choice(*SUPPORTED, "kmer", "recurrent", *families)
    architecture = store.architecture(name) or ""
    if architecture not in SUPPORTED:
        reason = architecture if architecture in {"kmer", "recurrent"} else "other"
        st.info(t(f"inside_layer.not_{reason}", name=name), icon=":material/info:")
        if architecture.startswith(HUGGING_FACE):
            writing.lead_to_map(name, store.checkpoint(name))
        stop()
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
            own = runs.translation(name, source, DecodingOptions(), None)
            typed = line(t("lessons.target"), own.text, key="target")
    is_own = own is not None and typed == own.text
    run = run_of(name, source, own if own is None or is_own else typed)
    return RunExample(run, (source,) if own is None else (source, typed), is_toy=False)


def _place(run: Run, stage: str) -> tuple[str, int, str]:
    """Which stack, layer (from 0) and sub-layer the step is shown of, where it asks for one."""
    stack, layer, part = run.stacks[0], 0, "self"
    if stage != "output" and len(run.stacks) > 1:
        stack = listed("inside_layer.side", run.stacks, key="side", width=130, bare=True)
    if stage not in {"embedding", "output"} and run.n_layers(stack) > 1:
        layer = shared.counted(
            "lessons.layer", run.n_layers(stack), key="at_layer", width=100, bare=True,
            text=lambda one: plain("inside_layer.layer", layer=one),
        )  # fmt: skip
    if stage in {"residual", "norm", "order"}:
        part = listed("inside_layer.part", run.parts(stack), key="part", width=170, bare=True)
    return stack, layer, part


@cached()
def _toy_run(d_model: int, words: ToyWords, seed: int, norm_first: bool, gelu: bool, tied: bool) -> Run:
    """A run of a toy whose numbers are few and round."""
    names = toy_words(words[2])
    model = toy_layers(d_model, seed, norm_first, gelu, tied)
    return Run(model, *toy_sentences(*words), lambda ids: [names[i] for i in ids])


def run_of(name: str, text: str, target: str | Translation | None) -> Callable[[], Run]:
    """What finds a checkpoint's run on a sentence, and on a typed target or its own, if it reads one.

    Of what it wrote itself the first tokens are read, as many as a lesson shows.
    """
    if not isinstance(target, Translation):
        return partial(_run, store.revision(name), text, target)
    bos: int = store.checkpoint(name).translator()[0].config.bos_id
    return partial(_run, store.revision(name), text, (bos, *target.target_ids[:-1])[:MAX_TOKENS])


@cached()
def _weights(revision: Revision) -> nn.Module:
    return in_float64(store.load(revision).model)


@cached()
def _run(revision: Revision, text: str, target: str | tuple[int, ...] | None) -> Run:
    checkpoint, read = store.load(revision), None
    source = (encoder_sentence if target is None else source_sentence)(checkpoint, text)
    if isinstance(target, str):
        read = target_sentence(checkpoint, target)
    elif target is not None:
        read = Sentence.of(target, checkpoint.translator()[2].labels(target))
    # A result that held the checkpoint would count its vocabulary as its own.
    return Run(_weights(revision), source, read, lambda ids: words_of(store.load(revision), ids))


def words_of(checkpoint: Checkpoint, ids: Sequence[int]) -> list[str]:
    """What a person reads for each output of a checkpoint: words; for a classifier its classes, or their numbers."""
    if (checkpoint.translates or continues(checkpoint)) and checkpoint.writer is not None:
        return checkpoint.writer.labels(ids)
    classes = checkpoint.task.classes if checkpoint.task else ()
    return [classes[i] if i < len(classes) else str(i) for i in ids]


WEIGHTS = ("p", "g", "gU", "c", "on")
"""Matrices of shares, on the scale from 0 to 1; `g` of the norm is none."""


def letters_panel(shown: Convolution) -> None:
    """Every window of the letters, what each filter answers to it, and one answer worked out."""
    board, answers = shown.board, shown.board["answers"]
    window, column = divmod(int(answers.values.argmax()), answers.values.shape[1])
    said = t(
        "inside_layer.look_letters", letters=len(shown.letters), width=shown.width, windows=len(answers.rows),
        weights=len(inside.ALPHABET) * shown.width, filter=column, window=answers.rows[window],
        value=float(answers.values.max()),
    )  # fmt: skip
    title = f"{plain('inside_layer.title')}: {plain('lessons.model_letters')}"
    titles = {name: plain(f"inside_layer.title_letters_{name}") for name in board}
    about = About(title, [shown.letters], board.formulas("answers"))
    shared.step_panel(board, list(board), None, "answers", said, about, titles=titles)


def panel(example: RunExample, choices: DeltaGenerator) -> None:
    """One step of a run; the controls of its place stand in `choices`."""
    stage = shared.stage("inside_layer", inside.STAGES)
    run, form, position = example.run(), "", 0
    with choices:
        place = _place(run, stage)
        sub = run.sub_layer(*place)
        own = norm_kind(sub.residual.norm)
        if stage == "norm":
            form = listed("inside_layer.form", tuple(SHOWN), key="form", default=own, width=190, bare=True)
        labels = positions_of(run)
        if stage == "output" and not labels:
            st.info(t("inside_layer.no_output"), icon=":material/info:")
            return
        if stage == "output" and len(labels) > 1:
            position = shared.counted(
                "inside_layer.position", len(labels), key="position", width=150, bare=True,
                text=lambda i: plain("inside_layer.after", word=labels[int(i)]),
            )  # fmt: skip
    board = {
        "embedding": lambda: inside.embedding_board(run, place[0]),
        "residual": lambda: inside.residual_board(run, *place),
        "norm": lambda: inside.norm_board(run, *place),
        "order": lambda: inside.order_board(run, *place),
        "feed_forward": lambda: inside.feed_forward_board(run, *place[:2]),
        "output": lambda: output_board(run, position),
    }[stage]()
    names, part = list(SHOWN[form] if stage == "norm" else board), plain(f"inside_layer.part_{place[2]}")
    words, formulas = _said(example, board, stage, sub.residual, part, form, position), _formulas(board, names)
    title = f"{plain('inside_layer.title')}: {plain(f'inside_layer.stage_{stage}')}"
    right = shared.step_panel(
        board, names, stage, _result(names, board, stage), as_text(words),
        About(title, [" / ".join(example.sentences), words], formulas),
        titles={name: _title_of(run, stage, name, sub.residual.norm_first, part) for name in names},
        weights=[one for one in names if one in WEIGHTS and (one != "g" or stage == "embedding")],
        file_name=file_name("inside_layer", stage, text=example.sentences[0]),
    )  # fmt: skip
    with right, st.expander(t("inside_layer.formulas")):
        for formula in formulas:
            st.latex(formula)


def _formulas(board: Board, names: list[str]) -> list[str]:
    """How all that is drawn is made, also by way of what is not drawn."""
    needed = set(names)
    for name in reversed(list(board)):
        if name in needed:
            needed |= set(board[name].operation.operands)
    return [formula for name in board if name in needed for formula in board.formulas(name)]


def _result(names: list[str], board: Board, stage: str) -> str:
    """The matrix whose cell is worked out until one is picked: the step's last one that is no single column."""
    made = [name for name in names if board[name].stage == stage]
    return next((name for name in reversed(made) if board[name].values.shape[1] > 1), made[-1])


def _said(
    example: RunExample, board: Board, stage: str, residual: Residual, part: str, form: str, position: int
) -> str:
    """What to look at, and what is found, on a step of this run."""
    say = partial(shared.composed, "inside_layer.", part=part)
    when, config = "first" if residual.norm_first else "last", example.run().model.config
    if stage == "embedding":
        own, other = (float(board[name].values.mean()) for name in ("g", "gU"))
        texts = {
            f"embedding_{'scaled' if config.scale_embedding else 'plain'}": True,
            "embedding_normed": "EP" in board,
            "embedding_no_positions": not np.any(board["P"].values),
        }
        return say(texts, own=own, other=other, d=config.block.d_model)
    if stage == "residual":
        share = board["c"].values[:, 0]
        texts = {"look_residual": True, f"residual_{when}": True}
        return say(texts, share=share.mean(), low=share.min(), high=share.max())
    if stage == "norm":
        own_form = plain(f"inside_layer.form_{norm_kind(residual.norm)}")
        return say({f"norm_reads_{when}": True, f"look_norm_{form}": True, "norm_own": True}, form=own_form)
    if stage == "order":
        lengths = {name: board[f"l{name.upper()}"].values for name in "xyz"}
        fields = {name: float(values.mean()) for name, values in lengths.items()}
        fields |= {"low": float(lengths["y"].min()), "high": float(lengths["y"].max())}
        return say({"look_order": True, f"order_{when}": True}, **fields)
    if stage == "feed_forward":
        share, units = board["on"].values[:, 0], board["A"].values
        texts = {"look_feed_forward": True, f"bend_{config.block.activation.partition('_')[0]}": True, "gated": True}
        sizes = {"d_model": board["H"].values.shape[1], "d_ff": units.shape[1]}
        return say(texts, share=share.mean(), never=int((units <= 0).all(axis=0).sum()), **sizes)
    run = example.run()
    texts = {
        f"look_output_{'word' if run.scores_words else 'class'}": True,
        f"output_{'tied' if is_tied(run) else 'own'}": run.scores_words,
        f"output_{'bias' if 'b' in board else 'no_bias'}": True,
        "output_scaled": "D" in board,
        "output_toy": example.is_toy,
        "output_shift": True,
        "output_rest": "r" in board,
    }
    first = {"word": board["p"].columns[0], "probability": float(board["p"].values[0, 0])}
    return say(texts, count=len(toy_words()), after=positions_of(run)[position], **first)


def _title_of(run: Run, stage: str, name: str, norm_first: bool, part: str) -> str:
    """What a matrix is, in words."""
    key = f"{stage}_{name}"
    variants = {
        "norm_X": "first" if norm_first else "last",
        "embedding_U": "scaled" if run.model.config.scale_embedding else "plain",
        "output_T": "tied" if is_tied(run) else "own",
    }
    return plain(f"inside_layer.title_{f'{key}_{variants[key]}' if key in variants else key}", part=part)
