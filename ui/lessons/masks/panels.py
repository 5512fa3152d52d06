"""The controls and panels of the lesson "Masks"."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import streamlit as st

from transformer import Checkpoint, watch
from transformer.attention.capture import Recording
from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.errors import InputError
from transformer.lessons.breaking import BREAKS, Break, Damage, broken, damage
from transformer.lessons.conventions import CONVENTIONS, VISIBLE, conversion, converted, first_of
from transformer.lessons.expressions.board import Board, Matrix, numbered
from transformer.lessons.expressions.operations import Given
from transformer.lessons.leaks import LeakReport, leak_test
from transformer.lessons.masks import KINDS, Batch, MaskView, Reason, attended, batch_run, mask_view
from transformer.lessons.sentences import source_sentence, target_sentence
from transformer.lessons.toy import toy_batch, toy_transformer
from transformer.messages import say
from transformer.models.seq2seq import Seq2Seq
from transformer.runs.translate import MAX_CHARACTERS
from transformer.sites import Site
from ui.components.matrices.component import Notes, matrices
from ui.lessons import shared
from ui.shared import controls
from ui.shared.address import choice, lines
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import t

SITES = {
    "encoder": Site.of("encoder", 0, "self"),
    "decoder": Site.of("decoder", 0, "self"),
    "cross": Site.of("decoder", 0, "cross"),
}
SOURCES = "two dogs run\na man rides a red bicycle"
TARGETS = "zwei Hunde rennen\nein Mann fährt ein rotes Fahrrad"

DEFAULTS: dict[str, Any] = {
    "made": "toy", "sources": SOURCES, "targets": TARGETS, "row": "1", "screen": "build", "mask": "both",
    "at": "decoder", "given": VISIBLE, "convention": "annotated", "how": "no_causal",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_padding": {"mask": "padding"},
    "try_both": {"mask": "both"},
    "try_scores": {"screen": "scores"},
    "try_conventions": {"screen": "conventions", "convention": "attn_mask"},
    "try_convert": {"screen": "conventions", "given": "annotated", "convention": "attn_mask"},
    "try_future": {"screen": "break", "how": "no_causal"},
    "try_shift": {"screen": "break", "how": "shift", "made": "shipped"},
    "try_transpose": {"screen": "break", "how": "transpose", "made": "shipped"},
    "try_forget": {"screen": "break", "how": "no_padding", "at": "encoder", "made": "shipped"},
    "try_test": {"screen": "test"},
}
"""Settings worth seeing, by their text."""


TOY = "·toy·"
"""Stands for a checkpoint's name where the toy is shown; its revision is the size of its vocabulary."""


@dataclass(frozen=True)
class Example:
    """The batch, and the model that reads it; name, revision and lines are what caches know them by."""

    batch: Batch
    name: str
    revision: Revision | int
    lines: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def checkpoint(self) -> Checkpoint:
        """The model with its tokenizer; a toy has none."""
        return _checkpoint(self.name, self.revision)

    @property
    def model(self) -> Seq2Seq:
        """The encoder-decoder that reads the batch."""
        return self.checkpoint.model_as(Seq2Seq)

    def run(self, how: Break) -> Recording:
        """The attention of the whole batch with this mask; it runs once, whatever is looked at."""
        return _run(self.name, self.revision, self.lines, how)


def example() -> Example | None:
    """Choose the model and type the batch; None, with an explanation, when there is no trained model.

    Raises:
        InputError: the batch cannot be read.
    """
    made = choice(t("lessons.model"), ("toy", "shipped"), key="made", bare=True, text=lambda made: t(f"lessons.{made}"))
    name = controls.checkpoint_choice("seq2seq") if made == "shipped" else TOY
    if name is None:
        return None
    with st.popover(t("masks.batch"), icon=":material/edit:", width="content"):
        typed = [
            lines(t("masks.sources"), SOURCES, key="sources"),
            lines(t("masks.targets"), TARGETS, key="targets"),
        ]
    if max(map(len, typed)) > MAX_CHARACTERS:
        raise InputError(f"the batch has over {MAX_CHARACTERS:,} characters: shorten its sentences")
    sources, targets = (tuple(line for line in text.splitlines() if line.strip()) for text in typed)
    batch, vocab = _batch(name, (sources, targets))
    return Example(batch, name, vocab or store.revision(name), (sources, targets))


def _batch(name: str, typed: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[Batch, int]:
    """Typed lines as a model reads them; for a toy, also the size of the vocabulary that it needs, else 0."""
    if name == TOY:
        return toy_batch(*typed)
    checkpoint = store.checkpoint(name)
    read = [source_sentence(checkpoint, line) for line in typed[0]]
    written = [target_sentence(checkpoint, line) for line in typed[1]]
    return Batch.for_model(read, written, checkpoint.model_as(Seq2Seq)), 0


def _checkpoint(name: str, revision: Revision | int) -> Checkpoint:
    return _toy(revision) if isinstance(revision, int) else store.checkpoint(name)


@cached(max_entries=16)
def _toy(vocab: int) -> Checkpoint:
    return Checkpoint(name="toy", model=watch(toy_transformer(4, 2, seed=1, vocab=vocab)))


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
    found = attended(shown.run("right"), shown.batch, site, head, sentence)
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
    facts = ("api", "visible", "hidden", "dtype", "shape")
    table = [[say(getattr(convention, fact)) for fact in facts] for convention in CONVENTIONS.values()]
    names = [t(f"masks.convention_{fact}") for fact in facts]
    st.dataframe(pd.DataFrame(table, columns=names), hide_index=True, width="content")
    sentence = row(shown.batch)
    view = views[sentence]
    boards = {name: converted(visible, name) for name in CONVENTIONS}
    shown_as = {name: first_of(made, sentence, name, len(view.queries)) for name, made in boards.items()}
    rows, columns = numbered(len(view.queries)), numbered(len(view.keys))
    board = Board.of(
        _matrix(name, "M", values, rows, columns, values == 1 if name == "key_padding" else ~view.visible)
        for name, values in shown_as.items()
    )
    titles = {name: f"{say(CONVENTIONS[name].api)} · {made.dtype} {made.shape}" for name, made in boards.items()}
    _draw(board, view, titles)
    if kind in {"causal", "both"}:
        st.caption(t("masks.key_padding_note"))
    st.markdown(f"**{t('masks.converter')}**")
    with st.container(horizontal=True, gap="small"):
        given = choice(
            t("masks.given"), [VISIBLE, *CONVENTIONS], key="given", form="list", width=320,
            text=lambda name: t("masks.table") if name == VISIBLE else say(CONVENTIONS[name].api),
        )  # fmt: skip
        wanted = choice(
            t("masks.convention"), list(CONVENTIONS), key="convention", form="list", width=320,
            text=lambda name: say(CONVENTIONS[name].api),
        )  # fmt: skip
    st.caption(t("masks.convention_code"))
    st.code(conversion(given, wanted), language="python")


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
    view = mask_view(shown.batch, _kind_of(site), sentence)
    right = attended(shown.run("right"), shown.batch, site, head, sentence).weights
    found = attended(shown.run(how), shown.batch, site, head, sentence)
    board = Board.of(
        [
            _matrix("right", "A", right, view.queries, view.keys, ~view.visible),
            _matrix("broken", "B", found.weights, view.queries, view.keys, ~found.visible),
        ]
    )
    report = _tested(shown.name, shown.revision, how)
    _verdict(report)
    _draw(board, view)
    if shown.name == TOY:
        st.caption(t("masks.only_shipped"))
        return
    as_it_is, hurt = (_damage(shown.name, shown.revision, shown.lines, which) for which in ("right", how))
    st.markdown(t("masks.loss", right=as_it_is.loss, broken=hurt.loss))
    texts = {t("masks.translation_right"): as_it_is.translations, t("masks.translation_broken"): hurt.translations}
    st.dataframe(pd.DataFrame(texts), hide_index=True, key="translations")
    st.caption(t("masks.loss_note"))


def leak_panel() -> None:
    """The leak test of any checkpoint."""
    st.caption(t("masks.look_test"))
    names = store.checkpoint_names(*ARCHITECTURES)
    if not names:
        st.info(t("masks.none"))
        return
    name = choice(t("masks.which"), names, key="tested", form="list", width=320, text=str)
    checkpoint = store.checkpoint(name)
    report = _tested(name, store.revision(name), "right")
    _verdict(report)
    if report.future is None and report.padding is None:
        st.caption(t("masks.nothing_hidden"))
    rows = [
        (leak.site, leak.largest, ", ".join(str(i + 1) for i in leak.where) if leak.where and leak.leaks else "")
        for leak in report.sites
    ]
    columns = [t(f"masks.{column}_column") for column in ("site", "largest", "where")]
    table = pd.DataFrame(rows, columns=columns)
    number = st.column_config.NumberColumn(format="%.3g")
    st.dataframe(table, hide_index=True, width="content", key="leaks", column_config={columns[1]: number})
    shared.matrix_downloads(Board.of([]), [], {"leaks": table})
    if getattr(checkpoint.model.config, "attention", "") == "location":
        st.caption(t("masks.places"))


def _kind() -> str:
    return choice(t("masks.kind"), KINDS, key="mask", default="both", bare=True, text=lambda k: t(f"masks.kind_{k}"))


def _site() -> Site:
    at = choice(
        t("masks.site"), list(SITES), key="at", default="decoder", bare=True, text=lambda at: t(f"masks.site_{at}")
    )
    return SITES[at]


def _kind_of(site: Site) -> str:
    return {"encoder.self": "padding", "decoder.self": "both", "decoder.cross": "cross"}[site.group]


def _head(shown: Example) -> int:
    heads = [str(head) for head in range(shown.model.config.n_heads)]
    return int(choice(t("lessons.head"), heads, key="at_head", text=str))


def _matrix(
    name: str, symbol: str, values: Any, rows: tuple[str, ...], columns: tuple[str, ...], hidden: Any
) -> Matrix:
    return Matrix(name, symbol, "mask", np.asarray(values, dtype=float), rows, columns, Given(), None, hidden)


def _draw(board: Board, view: MaskView, titles: dict[str, str] | None = None) -> None:
    """Matrices with the reason of every cell on hover, and their downloads."""
    sentences = tuple(t(f"masks.reason_{reason.value}") for reason in Reason)
    notes = {name: Notes(view.reasons, sentences) for name in board if board[name].values.shape == view.visible.shape}
    titles = titles or {name: t(f"masks.{name}") for name in board}
    weights = [name for name in board if name in {"weights", "right", "broken"}]
    matrices(board, list(board), None, key="masks", weights=weights, titles=titles, hint=t("masks.hint"), notes=notes)
    shared.matrix_downloads(board, list(board))


def _verdict(report: LeakReport) -> None:
    worst = max(report.sites, key=lambda leak: leak.largest)
    if worst.leaks:
        st.error(t("masks.leak", largest=worst.largest, site=worst.site), icon=":material/water_drop:")
    elif report.leaks:
        st.error(t("masks.leak_changed"), icon=":material/water_drop:")
    else:
        st.success(t("masks.tight"), icon=":material/check:")
    if report.future is not None:
        st.caption(t("masks.future", change=report.future))
    if report.padding is not None:
        st.caption(t("masks.padding", change=report.padding))


@cached(max_entries=64)
def _tested(name: str, revision: Revision | int, how: Break) -> LeakReport:
    checkpoint = _checkpoint(name, revision)
    return leak_test(checkpoint if how == "right" else broken(checkpoint, how))


@cached(max_entries=16)
def _run(name: str, revision: Revision | int, typed: tuple[tuple[str, ...], tuple[str, ...]], how: Break) -> Recording:
    checkpoint = _checkpoint(name, revision)
    shown = checkpoint if how == "right" else broken(checkpoint, how)
    return batch_run(shown.model_as(Seq2Seq), _batch(name, typed)[0])


@cached(max_entries=64)
def _damage(name: str, revision: Revision | int, typed: tuple[tuple[str, ...], tuple[str, ...]], how: Break) -> Damage:
    return damage(_checkpoint(name, revision), _batch(name, typed)[0], how)
