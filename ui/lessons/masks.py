"""The lesson "Masks": the batch that is looked at, what a mask is and does, its conventions, and PyTorch's module."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap import Checkpoint, watch
from heedmap.attention.capture import Recording
from heedmap.errors import InputError
from heedmap.lessons import conventions, leakage, masks
from heedmap.lessons.board import Board, Matrix
from heedmap.lessons.conventions import CONVENTIONS, HIDDEN, VISIBLE, conversion, converted, holds, part_of
from heedmap.lessons.masks import toy_batch
from heedmap.lessons.operations import Cells, upright
from heedmap.lessons.sentences import source_sentence, target_sentence, toy_transformer
from heedmap.nn.seq2seq import Seq2Seq
from heedmap.runs.translate import MAX_CHARACTERS
from heedmap.sites import Site
from ui.components.matrices.component import Notes
from ui.lessons import shared
from ui.lessons.shared import counted, listed, model_kind
from ui.shared import controls, files
from ui.shared.address import lines, parameter, switch
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t
from ui.texts import said as said_here

SITES = {"encoder": "encoder.self", "decoder": "decoder.self", "cross": "decoder.cross"}
"""The attention that is looked at: the group of its site."""

SOURCES = "two dogs run\na man rides a red bicycle"
TARGETS = "zwei Hunde rennen\nein Mann fährt ein rotes Fahrrad"

TRY: dict[str, dict[str, Any]] = {
    "try_padding": {"mask": "padding"},
    "try_scores": {"screen": "scores"},
    "try_convert": {"screen": "conventions", "given": "annotated_target", "convention": "attn_3d"},
    "try_module": {"screen": "module", "mask_form": "attn_3d", "weights": "heads"},
    "try_future": {"screen": "break", "how": "no_causal"},
    "try_transpose": {"screen": "break", "how": "transpose", "made": "shipped"},
    "try_forget": {"screen": "break", "how": "no_padding", "at": "encoder", "made": "shipped"},
    "try_axes": {"screen": "break", "how": "axes", "made": "shipped"},
}
"""Settings worth seeing, by their text."""

RETURNED = {"mean": "average_attn_weights=True", "heads": "average_attn_weights=False", "none": "need_weights=False"}
"""What comes back as weights: the mean over heads, one table a head, or nothing; and how that is asked for."""


class Example(NamedTuple):
    """The batch as it was typed, and the weights that read it (None: a toy); what caches know a run by."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    revision: Revision | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        """The model; a toy's vocabulary is as large as the words of its batch need."""
        return _toy(toy_batch(*self[:2])[1]) if self.revision is None else store.load(self.revision)

    @property
    def seq2seq(self) -> Seq2Seq:
        """The encoder-decoder itself."""
        return self.checkpoint.model_as(Seq2Seq)


def example() -> Example:
    """Choose the model and type the batch; the page ends, with an explanation, where there is no trained model.

    Raises:
        InputError: the batch cannot be read.
    """
    with st.popover(t("masks.batch"), icon=":material/edit:", width="content"):
        made = model_kind(width=200)
        typed = [lines(t("masks.sources"), SOURCES, key="sources"), lines(t("masks.targets"), TARGETS, key="targets")]
    name = controls.checkpoint_choice("seq2seq") if made == "shipped" else None
    if max(map(len, typed)) > MAX_CHARACTERS:
        raise InputError("masks_batch_too_long", most=MAX_CHARACTERS)
    sources, targets = (tuple(line for line in text.splitlines() if line.strip()) for text in typed)
    shown = Example(sources, targets, None if name is None else store.revision(name))
    batch_of(shown)
    return shown


@cached()
def _toy(vocab: int) -> Checkpoint:
    return Checkpoint(name="toy", model=watch(toy_transformer(4, 2, seed=1, vocab=vocab)))


@cached()
def batch_of(shown: Example) -> masks.Batch:
    """The typed sentences as the model reads them."""
    if shown.revision is None:
        return toy_batch(*shown[:2])[0]
    checkpoint = shown.checkpoint
    read = [source_sentence(checkpoint, line) for line in shown.sources]
    written = [target_sentence(checkpoint, line) for line in shown.targets]
    return masks.Batch.for_model(read, written, checkpoint.model_as(Seq2Seq))


@cached()
def run_of(shown: Example, how: masks.Break) -> tuple[Recording, leakage.LeakReport]:
    """The attention of the whole batch with this mask, and its leak test; it runs once, whatever is looked at."""
    made, batch = masks.broken(shown.checkpoint, how), batch_of(shown)
    return masks.batch_run(made.model_as(Seq2Seq), batch), leakage.leak_test(made, batch)


def _row(batch: masks.Batch) -> int:
    """Which sentence of the batch is shown, from 0."""
    return int(listed("masks.sentence", [str(i + 1) for i in range(len(batch))], key="row", width=80, text=str)) - 1


def _kind() -> str:
    """Which mask is built."""
    return listed("masks.kind", masks.KINDS, key="mask", default="both", width=290)


def head_choice(shown: Example) -> int:
    """Which head is looked at, from 0."""
    return counted("lessons.head", shown.seq2seq.config.block.attention.n_heads, key="at_head")


def attention_choice(shown: Example) -> tuple[Site, int, int, masks.MaskView]:
    """Which attention is looked at (its layer where there are several), which head, which sentence; and its mask."""
    at = listed("masks.site", list(SITES), key="at", default="decoder", width=160)
    stack, kind = SITES[at].split(".")
    n_layers = len(getattr(shown.seq2seq, stack))
    site = Site.of(stack, counted("lessons.layer", n_layers, key="at_layer") if n_layers > 1 else 0, kind)
    head, row = head_choice(shown), _row(batch_of(shown))
    mask = {"encoder": "padding", "decoder": "both", "cross": "cross"}[at]
    return site, head, row, masks.mask_view(batch_of(shown), mask, row)


def matrix(name: str, symbol: str, values: Any, rows: Sequence[str], columns: Sequence[str], hidden: Any) -> Matrix:
    """A matrix of numbers that are given; True in `hidden` is a cell that the mask hides."""
    numbers = np.asarray(values, dtype=float)
    return Matrix(name, symbol, "mask", numbers, tuple(rows), tuple(columns), hidden=hidden)


def draw(
    matrices: Sequence[Matrix],
    view: masks.MaskView,
    line: str = "",
    formula: str = "",
    titles: Mapping[str, str] | None = None,
    outlined: Mapping[str, Cells] | None = None,
) -> None:
    """Matrices with their downloads; `outlined` cells are leaks.

    Hovering over a cell of those that are as large as the mask of `view` says why it is hidden; a 2-D mask is that of
    all sentences, and has no such reason.
    """
    board = Board.of(matrices)
    sentences = tuple(plain(f"masks.reason_{reason.value}") for reason in masks.Reason)
    notes = {
        name: Notes(view.reasons, sentences)
        for name, one in board.items()
        if one.values.shape == view.visible.shape and name != "attn_2d"
    }
    weights = [name for name in board if name in {"weights", "right", "broken"}]
    found = {name: cells for name, cells in (outlined or {}).items() if cells.any()}
    shared.draw(
        board, "masks",
        shared.about(f"masks.screen_{parameter('screen') or 'build'}", line, formulas=[formula] if formula else ()),
        weights=weights, masks=[name for name in board if name not in {*weights, "before", "after"}],
        titles=titles or {name: plain(f"masks.{name}") for name in board}, hint=plain("masks.hint"), notes=notes,
        outlined=found, outline=plain("masks.outline") if found else "",
    )  # fmt: skip


def build_panel(shown: Example, bar: DeltaGenerator) -> None:
    """One mask, from its parts."""
    with bar:
        kind, sentence = _kind(), _row(batch_of(shown))
    view = masks.mask_view(batch_of(shown), kind, sentence)
    real, past = view.keys_real[None, :], np.tri(len(view.queries), len(view.keys), dtype=bool)
    parts = [matrix("real", "e", real, ("",), view.keys, ~real)] if kind != "causal" else []
    if kind in {"causal", "both"}:
        parts.append(matrix("triangle", "T", past, view.queries, view.keys, ~past))
    parts.append(matrix("result", "M", view.visible, view.queries, view.keys, ~view.visible))
    formula = {
        "padding": r"M_{ij} = e_j, \qquad e_j = 1 \enspace " + upright("masks.formula_padding", j="j"),
        "causal": r"M_{ij} = 1 \enspace " + upright("masks.formula_causal", condition=r"j \le i"),
        "both": r"M_{ij} = T_{ij} \wedge e_j",
        "cross": "M_{ij} = e_j",
    }[kind]
    with shared.beside(formula, t("masks.look_build")):
        draw(parts, view, formula=formula)


def scores_panel(shown: Example, bar: DeltaGenerator) -> None:
    """Scores before the mask, after it, and the weights."""
    with bar:
        site, head, sentence, view = attention_choice(shown)
    before, after, weights, _ = masks.attended(run_of(shown, "right")[0], batch_of(shown), site, head, sentence)
    hidden, labels = ~view.visible, (view.queries, view.keys)
    made = [
        matrix("before", "S'", before, *labels, None),
        matrix("after", "S''", after, *labels, hidden),
        matrix("weights", "A", weights, *labels, hidden),
    ]
    formula = r"A = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}} + \log M\right)"
    with shared.beside(formula, t("masks.look_scores")):
        draw(made, view, f"{site} · {head}", formula)


def conventions_panel(shown: Example, bar: DeltaGenerator) -> None:
    """The same mask as each library wants it, that of one sentence; those with two axes as a whole."""
    with bar:
        kind, sentence = _kind(), _row(batch_of(shown))
    views = [masks.mask_view(batch_of(shown), kind, i) for i in range(len(batch_of(shown)))]
    visible, n_heads = np.stack([view.visible for view in views]), shown.seq2seq.config.block.attention.n_heads
    made, titles = [], {}
    for name, convention in CONVENTIONS.items():
        mask = converted(visible, name, n_heads)
        values, index = part_of(mask, sentence, name, n_heads)
        rows, columns = ([f"[{i}]" for i in range(n)] for n in values.shape)
        made.append(matrix(name, f"M{index}", values, rows, columns, values == HIDDEN[convention.hidden]))
        titles[name] = f"{said_here(convention.api)} · {convention.dtype} {mask.shape}"
    note = "" if holds(visible, "key_padding") else f" {t('masks.key_padding_note')}"
    left, right = shared.columns()
    with left:
        draw(made, views[sentence], titles=titles)
    with right:
        shared.explain(f"{t('masks.look_conventions')}{note}")
        _converter()
    facts = ("api", "visible", "hidden", "dtype", "axes")
    table = [
        [*(said_here(getattr(one, fact)) for fact in facts), plain("masks.yes" if holds(visible, name) else "masks.no")]
        for name, one in CONVENTIONS.items()
    ]
    _rows("conventions", [f"convention_{fact}" for fact in (*facts, "holds")], table)


def _converter() -> None:
    """Code that makes one convention's mask of another's."""
    st.markdown(f"**{t('masks.converter')}**")
    names = {VISIBLE: plain("masks.table"), **{name: said_here(one.api) for name, one in CONVENTIONS.items()}}
    given = listed("masks.given", list(names), key="given", width=320, text=names.__getitem__)
    wanted = listed("masks.convention", list(CONVENTIONS), key="convention", width=320, text=names.__getitem__)
    st.code(conversion(given, wanted), language="python", wrap_lines=True)
    shared.explain(t("masks.convention_code"))


def _rows(key: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], width: Any = "content") -> None:
    """Rows under the catalogue's names of these columns."""
    names = [plain(f"masks.{name}") for name in columns]
    files.table(rows, names, key=key, height="content", width=width)


def _section(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table with its heading and what is said of it."""
    st.markdown(f"**{t(f'masks.{name}')}**")
    _rows(name, columns, rows)
    st.markdown(t(f"masks.look_{name}"))


def module_panel(bar: DeltaGenerator) -> None:
    """One call of the module, as it was executed; its four masks in a decoder; rows that see nothing; fills."""
    none = plain("masks.form_none")
    with bar:
        form = listed("masks.form", list(conventions.MASKS), key="mask_form", default="key_padding", width=200)
        returned = listed("masks.returned", list(RETURNED), key="weights", width=250, text=RETURNED.__getitem__)
        batch_first = switch("batch_first", True, key="batch_first")
        more = listed(
            "masks.more", conventions.MORE, key="more", width=160, text=lambda one: none if one == "none" else one
        )
    call = conventions.Call(form, batch_first, returned != "none", returned == "mean", more)
    shapes, weights = conventions.called(call)
    names = {conventions.PER_HEAD: plain("masks.module_per_head")}
    left, right = shared.columns()
    with left:
        rows: Sequence[Sequence[Any]] = [
            (names.get(one.name, one.name), one.axes, f"{one.dtype} {one.sizes}") for one in shapes
        ]
        _rows("shapes", ("module_tensor", "module_axes", "module_sizes"), rows, width="stretch")
        st.code(call.code, language="python", wrap_lines=True)
    with right:
        _weights(weights, call)
        shared.explain(t("masks.look_module"))
    st.markdown(t("masks.causal_taken" if conventions.causal_alone() else "masks.causal_refused"))
    rows = [(*one[:2], str(one[2]), ", ".join(map(str, one[3]))) for one in conventions.decoder_arguments()]
    _section("arguments", ("argument", "module_axes", "module_sizes", "argument_moved"), rows)
    rows = [(str(need), output, weights or "None") for need, output, weights in conventions.blind_rows()]
    _section("blind", ("blind_need", "blind_output", "blind_weights"), rows)
    overflow = plain("masks.overflow")
    rows = [(*one[:2], *(", ".join(row) if row else overflow for row in one[2:])) for one in conventions.fills()]
    _section("fills", ("fill_dtype", "fill_value", "fill_one", "fill_all"), rows)


def _weights(weights: Any, call: conventions.Call) -> None:
    """What is returned as weights, of the second sentence: one matrix of averages, or one a head."""
    if weights is None:
        st.markdown(t("masks.no_weights"))
        return
    own = weights[1].double().numpy()
    heads = {"weights": own} if call.average else {f"weights_{head}": one for head, one in enumerate(own)}
    rows, columns = ([f"[{i}]" for i in range(n)] for n in own.shape[-2:])
    columns = [*columns[:-1], call.more] if call.more != "none" else columns
    board = Board.of(matrix(name, "A", one, rows, columns, one == 0) for name, one in heads.items())
    titles = {name: f"weights[1{f', {head}' if not call.average else ''}]" for head, name in enumerate(board)}
    about = shared.about("masks.screen_module", *call.code.splitlines())
    shared.draw(board, "module", about, weights=list(board), titles=titles, hint=plain("masks.hint_module"))
