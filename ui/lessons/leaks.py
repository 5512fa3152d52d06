"""What leaks through a mask, in the lesson "Masks": a mask broken on purpose, and the leak test of a checkpoint."""

from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap import Checkpoint
from heedmap.checkpoint.checkpoint import ARCHITECTURES
from heedmap.lessons import leakage, masks
from heedmap.lessons.board import Board
from heedmap.lessons.operations import Cells
from heedmap.runs.any_model import continues
from heedmap.sites import Site
from ui.lessons import shared
from ui.lessons.masks import SITES, Example, attention_choice, batch_of, draw, head_choice, matrix, run_of
from ui.lessons.shared import listed
from ui.shared import files, writing
from ui.shared.address import put
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t

NAMES = {group: name for name, group in SITES.items()}
"""What the attention of a group is called in the address and the catalogue."""

TESTABLE = tuple(name for name, (model, _) in ARCHITECTURES.items() if model.abilities.masks)
"""Architectures whose masks hide something: what can leak at all."""


@cached()
def _damaged(shown: Example, how: masks.Break) -> masks.Damage:
    return masks.damage(shown.checkpoint, batch_of(shown), how)


@cached()
def _tested(revision: Revision) -> leakage.LeakReport:
    """The leak test of a model as it is, on random sentences."""
    return leakage.leak_test(store.load(revision))


def _look_at(site: Site, head: int, row: int) -> None:
    """Set the controls to one attention of one sentence; head and sentence count from 0."""
    put(at=NAMES[site.group], at_layer=site.layer or None, at_head=head or None, row=row + 1)


def break_panel(shown: Example, bar: DeltaGenerator) -> None:
    """A mask broken on purpose: the weights with their leaks outlined, the leak test, loss and translations."""
    with bar:
        how: masks.Break = listed("masks.break", (*masks.BREAKS, masks.AXES), key="how", default="no_causal", width=170)
    if how == masks.AXES:
        _across(shown, bar)
    else:
        _beside_the_right_mask(shown, how, bar)
    if shown.revision is not None:
        breaks: dict[str, masks.Break] = {"broken": how, "right": "right"}
        texts = {plain(f"masks.translation_{name}"): _damaged(shown, one).translations for name, one in breaks.items()}
        files.table(texts, key="translations")


def _beside_the_right_mask(shown: Example, how: masks.Break, bar: DeltaGenerator) -> None:
    """The weights under a broken mask, beside those under the right one."""
    with bar:
        site, head, sentence, view = attention_choice(shown)
    batch, (run, report) = batch_of(shown), run_of(shown, how)
    right = masks.attended(run_of(shown, "right")[0], batch, site, head, sentence).weights
    found = masks.attended(run, batch, site, head, sentence)
    allowed = leakage.allowed_in(batch, site, sentence)
    leaks = leakage.leaking(found.weights, allowed)
    _verdict(shown, report, (site, head, sentence))
    made = [
        matrix("broken", "A'", found.weights, view.queries, view.keys, ~found.visible),
        matrix("right", "A", right, view.queries, view.keys, ~view.visible),
    ]
    said = f"{_outlined(leaks, allowed, found.weights, view)} {_changes(report, shown.checkpoint)}"
    with shared.beside("", said, t(f"masks.why_{how}"), _loss(shown, how)):
        draw(made, view, plain(f"masks.break_{how}"), outlined={"broken": leaks})


def _across(shown: Example, bar: DeltaGenerator) -> None:
    """Batch and position exchanged in the encoder's first layer: of each position, which sentence looks at which."""
    with bar:
        head = head_choice(shown)
    (run, report), tokens = run_of(shown, masks.AXES), batch_of(shown).source_labels
    names = [str(i + 1) for i in range(len(tokens))]
    board = Board.of(
        matrix(
            f"at{at}", "A", run.map("encoder.0.self", batch=at).weights(head),
            [f"{name}: {sentence[at]}" for name, sentence in zip(names, tokens, strict=True)], names, None,
        )
        for at in range(len(tokens[0]))
    )  # fmt: skip
    titles = {f"at{at}": plain("masks.at_position", position=at) for at in range(len(board))}
    other = ~np.eye(len(names), dtype=bool)
    largest = max(float((one.values * other).max()) for one in board.values())
    st.error(t("masks.leak_across", weight=largest, change=report.padding or 0.0), icon=":material/water_drop:")
    outlined = {name: other & (one.values > 0) for name, one in board.items()} if len(names) > 1 else {}
    about = shared.about("masks.screen_break", plain(f"masks.break_{masks.AXES}"), f"encoder.0.self · {head}")
    with shared.beside("", t("masks.why_axes"), _loss(shown, masks.AXES)):
        shared.draw(
            board, "across", about, weights=list(board), titles=titles, outlined=outlined,
            outline=plain("masks.outline_across"),
        )  # fmt: skip


def _verdict(shown: Example, report: leakage.LeakReport, here: tuple[Site, int, int]) -> None:
    """Whether anything leaks in these sentences, and which cell most; a button leads to it, if it is not shown."""
    worst = report.worst
    if not report.leaks:
        st.success(t("masks.tight_here"), icon=":material/check:")
    elif worst.where is None or not worst.leaks:
        st.error(t("masks.leak_changed_here"), icon=":material/water_drop:")
    else:
        row, head, query, key = worst.where
        queries, keys = batch_of(shown).labels(worst.site, row)
        warning = t(
            "masks.leak_here", weight=worst.largest, site=_site_name(worst.site), head=head, sentence=row + 1,
            query=queries[query], key=keys[key],
        )  # fmt: skip
        st.error(warning, icon=":material/water_drop:")
        if (worst.site, head, row) != here:
            st.button(t("masks.show_worst"), key="masks.worst", on_click=_look_at, args=(worst.site, head, row))


def _outlined(leaks: Cells, allowed: Cells, weights: np.ndarray, view: masks.MaskView) -> str:
    """How many forbidden cells of the matrix on screen have weight, and which has most."""
    count, forbidden = int(leaks.sum()), int((~allowed).sum())
    if not forbidden:
        return t("masks.nothing_forbidden")
    if not count:
        return t("masks.outlined_none", forbidden=forbidden)
    query, key = np.unravel_index(int(np.where(leaks, np.nan_to_num(weights, nan=np.inf), -1).argmax()), leaks.shape)
    fields = {"query": view.queries[query], "key": view.keys[key], "weight": weights[query, key]}
    return t("masks.outlined_one" if count == 1 else "masks.outlined", count=count, forbidden=forbidden, **fields)


def _loss(shown: Example, how: masks.Break) -> str:
    """What a break does to the loss of a trained model, and whether its translations stay."""
    if shown.revision is None:
        return t("masks.only_shipped")
    right, wrong = _damaged(shown, "right"), _damaged(shown, how)
    message = t("masks.loss", right=right.loss, broken=wrong.loss, more=wrong.loss - right.loss)
    if how != "right":
        same = wrong.translations == right.translations
        message = f"{message} {t('masks.same_translations' if same else 'masks.other_translations')}"
    return f"{message} {t('masks.loss_note')}"


def leak_panel(bar: DeltaGenerator) -> None:
    """The leak test of any checkpoint that has masks."""
    names = store.checkpoint_names(*TESTABLE)
    if not names:
        st.info(t("masks.none"))
        return
    with bar:
        name = listed("masks.which", names, key="tested", width=320, text=str)
    checkpoint = store.checkpoint(name)
    writing.lead_to_map(name, checkpoint)
    report = _tested(store.revision(name))
    worst = report.worst
    if worst.leaks:
        st.error(t("masks.leak", largest=worst.largest, site=_site_name(worst.site)), icon=":material/water_drop:")
    elif report.leaks:
        st.error(t("masks.leak_changed"), icon=":material/water_drop:")
    else:
        st.success(t("masks.tight"), icon=":material/check:")
    columns = [t(f"masks.{name}_column") for name in ("site", "largest", "row", "head", "query", "key")]
    rows = []
    for leak in report.sites:  # the sentence counts from 1, all else from 0
        row, *others = leak.where if leak.where is not None and leak.leaks else ("",) * 4
        rows.append((_site_name(leak.site), leak.largest, str(row and int(row) + 1), *map(str, others)))
    left, right = shared.columns()
    with left:
        number = {columns[1]: st.column_config.NumberColumn(format="%.3g")}
        table = files.table(rows, columns, width="content", key="leaks", column_config=number)
    with right:
        shared.explain(t("masks.look_test"))
        st.markdown(_changes(report, checkpoint))
        if report.future is None and report.padding is None:
            st.markdown(t("masks.nothing_hidden"))
        looks: Any = getattr(checkpoint.model.config, "attention", None)  # of a recurrent model
        if looks and looks.kind == "location":
            st.markdown(t("masks.location"))
    shared.download(Board.of([]), tables={"leaks": table})


def _changes(report: leakage.LeakReport, checkpoint: Checkpoint) -> str:
    """How much outputs change where they must not, with the unit."""
    unit = "nats" if checkpoint.translates or continues(checkpoint) else "hidden"
    found = (("future", report.future), ("padding", report.padding))
    return " ".join(t(f"masks.{name}_{unit}", change=change) for name, change in found if change is not None)


def _site_name(site: Site) -> str:
    """An attention in words, its layer counted from 0."""
    if site.group not in NAMES or site.layer is None:
        return str(site)
    return plain("masks.site_at", attention=plain(f"masks.site_{NAMES[site.group]}"), layer=site.layer)
