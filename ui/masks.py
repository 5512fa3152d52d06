"""The controls and panels of the lesson "Masks"."""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import streamlit as st

from transformer import Checkpoint, watch
from transformer.errors import InputError
from transformer.lessons.breaking import BREAKS, Break, Damage, broken, damage
from transformer.lessons.conventions import CONVENTIONS, converted, first_of
from transformer.lessons.leaks import LeakReport, leak_test
from transformer.lessons.masks import KINDS, Batch, MaskView, Reason, attended, mask_view
from transformer.lessons.matrices import Board, Matrix
from transformer.lessons.operations import Given
from transformer.lessons.sentences import source_sentence, target_sentence, translator
from transformer.lessons.toy import toy_batch, toy_transformer
from transformer.run import MAX_CHARACTERS
from ui import cached, controls, lessons
from ui.address import choice, lines
from ui.components.matrices import Notes, matrices
from ui.texts import t

SITES = {"encoder": "encoder.0.self", "decoder": "decoder.0.self", "cross": "decoder.0.cross"}
SOURCES = "two dogs run\na man rides a red bicycle"
TARGETS = "zwei Hunde rennen\nein Mann fährt ein rotes Fahrrad"

DEFAULTS: dict[str, Any] = {
    "made": "toy", "sources": SOURCES, "targets": TARGETS, "row": "1", "screen": "build", "mask": "both",
    "at": "decoder", "convention": "annotated", "how": "no_causal",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_padding": {"mask": "padding"},
    "try_both": {"mask": "both"},
    "try_scores": {"screen": "scores"},
    "try_conventions": {"screen": "conventions", "convention": "attn_mask"},
    "try_future": {"screen": "break", "how": "no_causal"},
    "try_shift": {"screen": "break", "how": "shift"},
    "try_forget": {"screen": "break", "how": "no_padding", "at": "encoder"},
}
"""Settings worth seeing, by their text."""


@dataclass(frozen=True)
class Example:
    """The batch, the model that reads it, and what they are called in caches."""

    batch: Batch
    checkpoint: Checkpoint
    shipped: bool
    version: tuple[str, int]


def example() -> Example | None:
    """Choose the model and type the batch; None, with an explanation, when there is no trained model.

    Raises:
        InputError: the batch cannot be read.
    """
    made = choice(t("lessons.model"), ("toy", "shipped"), key="made", bare=True, text=lambda made: t(f"lessons.{made}"))
    name = controls.checkpoint_choice("seq2seq") if made == "shipped" else "toy"
    if name is None:
        return None
    with st.popover(t("masks.batch"), icon=":material/edit:", width="content"):
        typed = [
            lines(t("masks.sources"), SOURCES, key="sources"),
            lines(t("masks.targets"), TARGETS, key="targets"),
        ]
    if max(map(len, typed)) > MAX_CHARACTERS:
        raise InputError(f"the batch has over {MAX_CHARACTERS:,} characters: shorten its sentences")
    sources, targets = ([line for line in text.splitlines() if line.strip()] for text in typed)
    if made == "toy":
        batch, vocab = toy_batch(sources, targets)
        checkpoint = Checkpoint(name="toy", model=watch(toy_transformer(4, 2, seed=1, vocab=vocab)))
        return Example(batch, checkpoint, False, ("toy", vocab))
    checkpoint = cached.checkpoint(name)
    model, _ = translator(checkpoint)
    read = [source_sentence(checkpoint, line) for line in sources]
    written = [target_sentence(checkpoint, line) for line in targets]
    return Example(Batch.of(read, written, model.config.pad_id), checkpoint, True, (name, cached.revision(name)))


def screen() -> str:
    """Which of the page's screens is open."""
    return choice(
        t("masks.screen"), ("build", "scores", "conventions", "break", "test"), key="screen", bare=True,
        text=lambda screen: t(f"masks.screen_{screen}"),
    )  # fmt: skip


def row(batch: Batch) -> int:
    """Which sentence of the batch is shown."""
    return int(choice(t("masks.sentence"), [str(i + 1) for i in range(len(batch))], key="row", text=str)) - 1


def build_panel(shown: Example) -> None:
    """One mask, from its parts."""
    st.caption(t("masks.look_build"))
    kind = _kind()
    view = mask_view(shown.batch, kind, row(shown.batch))
    parts: list[Matrix] = []
    if kind != "causal":
        real = view.keys_real[None, :]
        parts.append(_matrix("real", "r", real, ("",), view.keys, ~real))
    if kind in {"causal", "both"}:
        past = np.tri(len(view.queries), len(view.keys), dtype=bool)
        parts.append(_matrix("triangle", "C", past, view.queries, view.keys, ~past))
    parts.append(_matrix("result", "M", view.visible, view.queries, view.keys, ~view.visible))
    st.latex(
        {
            "padding": r"M_{ij} = r_j, \qquad r_j = 1 \text{ unless key } j \text{ is padding}",
            "causal": r"M_{ij} = 1 \text{ if } j \le i",
            "both": r"M_{ij} = C_{ij} \wedge r_j",
            "cross": r"M_{ij} = r_j \text{ of the source, the same for every target position } i",
        }[kind]
    )
    _draw(Board.of(parts), view)


def scores_panel(shown: Example) -> None:
    """Scores before the mask, after it, and the weights."""
    st.caption(t("masks.look_scores"))
    st.latex(r"A = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}} + \log M\right)")
    site, head, sentence = _site(), _head(shown), row(shown.batch)
    found = attended(translator_model(shown), shown.batch, site, head, sentence)
    view = mask_view(shown.batch, _kind_of(site), sentence)
    hidden = ~view.visible
    board = Board.of(
        [
            _matrix("before", "S", found.before, view.queries, view.keys, None),
            _matrix("after", "S'", found.after, view.queries, view.keys, hidden),
            _matrix("weights", "A", found.weights, view.queries, view.keys, hidden),
        ]
    )
    _draw(board, view)


def conventions_panel(shown: Example) -> None:
    """The same mask as each library wants it."""
    st.caption(t("masks.look_conventions"))
    kind = _kind()
    views = [mask_view(shown.batch, kind, i) for i in range(len(shown.batch))]
    visible = np.stack([view.visible for view in views])
    columns = ("api", "visible", "hidden", "dtype", "shape")
    table = [[getattr(convention, column) for column in columns] for convention in CONVENTIONS.values()]
    names = [t(f"masks.convention_{column}") for column in columns]
    st.dataframe(pd.DataFrame(table, columns=names), hide_index=True, width="content")
    name = choice(t("masks.convention"), list(CONVENTIONS), key="convention", bare=True, text=lambda name: name)
    sentence = row(shown.batch)
    view, made = views[sentence], converted(visible, name)
    picture = first_of(made, sentence, name, len(view.queries))
    st.markdown(t("masks.convention_code"))
    st.code(CONVENTIONS[name].code, language="python")
    if name == "key_padding":
        st.caption(t("masks.key_padding_note"))
    board = Board.of([_matrix("result", "M", picture, view.queries, view.keys, ~view.visible)])
    st.caption(f"`{made.dtype}` · {made.shape}")
    _draw(board, view)


def break_panel(shown: Example) -> None:
    """A mask broken on purpose: weights, leak test, loss and translations."""
    st.caption(t("masks.look_break"))
    how = cast(
        Break,
        choice(
            t("masks.break"), BREAKS, key="how", default="no_causal", bare=True,
            text=lambda how: t(f"masks.break_{how}"),
        ),
    )  # fmt: skip
    site, head, sentence = _site(), _head(shown), row(shown.batch)
    wrong = broken(shown.checkpoint, how)
    view = mask_view(shown.batch, _kind_of(site), sentence)
    right = attended(translator_model(shown), shown.batch, site, head, sentence).weights
    found = attended(translator_model(replace(shown, checkpoint=wrong)), shown.batch, site, head, sentence)
    board = Board.of(
        [
            _matrix("right", "A", right, view.queries, view.keys, ~view.visible),
            _matrix("broken", "B", found.weights, view.queries, view.keys, ~found.visible),
        ]
    )
    report = _tested(shown.checkpoint, shown.version, how)
    _verdict(report)
    _draw(board, view)
    if not shown.shipped:
        st.caption(t("masks.only_shipped"))
        return
    key = (shown.batch.source.tolist(), shown.batch.target.tolist())
    as_it_is = _damage(shown.checkpoint, shown.version, shown.batch, str(key), "right")
    hurt = _damage(shown.checkpoint, shown.version, shown.batch, str(key), how)
    st.markdown(t("masks.loss", right=as_it_is.loss, broken=hurt.loss))
    st.dataframe(
        pd.DataFrame(
            {
                t("masks.translation_right"): as_it_is.translations,
                t("masks.translation_broken"): hurt.translations,
            }
        ),
        hide_index=True,
        key="translations",
    )
    st.caption(t("masks.loss_note"))


def leak_panel() -> None:
    """The leak test of any checkpoint."""
    st.caption(t("masks.look_test"))
    names = [name for kind in ("seq2seq", "recurrent", "encoder") for name in cached.checkpoint_names(kind)]
    if not names:
        st.info(t("masks.none"))
        return
    name = choice(t("masks.which"), names, key="tested", form="list", width=320, text=str)
    checkpoint = cached.checkpoint(name)
    report = _tested(checkpoint, (name, cached.revision(name)), "right")
    _verdict(report)
    if report.future is None and report.padding is None:
        st.caption(t("masks.nothing_hidden"))
    rows = [
        (leak.site, leak.largest, ", ".join(str(i + 1) for i in leak.where) if leak.where and leak.leaks else "")
        for leak in report.sites
    ]
    columns = [t(f"masks.{column}_column") for column in ("site", "largest", "where")]
    st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, width="content", key="leaks")
    if getattr(checkpoint.model.config, "attention", "") == "location":
        st.caption(t("masks.places"))


def translator_model(shown: Example) -> Any:
    """The encoder-decoder that reads the batch."""
    return shown.checkpoint.model


def _kind() -> str:
    return choice(t("masks.kind"), KINDS, key="mask", default="both", bare=True, text=lambda k: t(f"masks.kind_{k}"))


def _site() -> str:
    at = choice(
        t("masks.site"), list(SITES), key="at", default="decoder", bare=True, text=lambda at: t(f"masks.site_{at}")
    )
    return SITES[at]


def _kind_of(site: str) -> str:
    return {"encoder.0.self": "padding", "decoder.0.self": "both", "decoder.0.cross": "cross"}[site]


def _head(shown: Example) -> int:
    heads = [str(head) for head in range(translator_model(shown).config.n_heads)]
    return int(choice(t("lessons.head"), heads, key="at_head", text=str))


def _matrix(
    name: str, symbol: str, values: Any, rows: tuple[str, ...], columns: tuple[str, ...], hidden: Any
) -> Matrix:
    return Matrix(name, symbol, "mask", np.asarray(values, dtype=float), rows, columns, Given(), None, hidden)


def _draw(board: Board, view: MaskView) -> None:
    """Matrices with the reason of every cell on hover, and their downloads."""
    sentences = tuple(t(f"masks.reason_{reason.value}") for reason in Reason)
    notes = {name: Notes(view.reasons, sentences) for name in board if board[name].values.shape == view.visible.shape}
    titles = {name: t(f"masks.{name}") for name in board}
    weights = [name for name in board if name in {"weights", "right", "broken"}]
    words = lessons.words(titles, t("masks.hint"))
    matrices(board, list(board), None, key="masks", weights=weights, words=words, notes=notes)
    lessons.matrix_downloads(board, list(board))


def _verdict(report: LeakReport) -> None:
    worst = max(report.sites, key=lambda leak: leak.largest)
    if worst.leaks:
        st.error(t("masks.leak", largest=worst.largest, site=f"`{worst.site}`"), icon=":material/water_drop:")
    elif report.leaks:
        st.error(t("masks.leak_changed"), icon=":material/water_drop:")
    else:
        st.success(t("masks.tight"), icon=":material/check:")
    if report.future is not None:
        st.caption(t("masks.future", change=report.future))
    if report.padding is not None:
        st.caption(t("masks.padding", change=report.padding))


@st.cache_resource(max_entries=64, show_spinner=False)
def _tested(_checkpoint: Checkpoint, version: tuple[str, int], how: Break) -> LeakReport:  # noqa: ARG001 (cache key)
    return leak_test(_checkpoint if how == "right" else broken(_checkpoint, how))


@st.cache_resource(max_entries=64, show_spinner=False)
def _damage(
    _checkpoint: Checkpoint,
    version: tuple[str, int],  # noqa: ARG001 (cache key)
    _batch: Batch,
    ids: str,  # noqa: ARG001 (cache key)
    how: Break,
) -> Damage:
    return damage(_checkpoint, _batch, how)
