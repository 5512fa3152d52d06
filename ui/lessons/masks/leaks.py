"""The leak test as the lesson "Masks" shows it: of any checkpoint on random sentences, and what it finds in words."""

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.checkpoint.checkpoint import ARCHITECTURES, Checkpoint
from transformer.lessons.expressions.board import Board
from transformer.lessons.leaks import Leak, LeakReport
from transformer.runs.continuing import continues
from transformer.sites import Site
from ui.lessons import shared
from ui.lessons.masks.example import TrainedModel, tested
from ui.shared import writing
from ui.shared.address import choice
from ui.store import store
from ui.texts import plain, t

TESTABLE = tuple(name for name, (model, _) in ARCHITECTURES.items() if model.abilities.masks)
"""Architectures whose masks hide something: what can leak at all."""


def leak_panel(bar: DeltaGenerator) -> None:
    """The leak test of any checkpoint that has masks."""
    names = store.checkpoint_names(*TESTABLE)
    if not names:
        st.info(t("masks.none"))
        return
    with bar:
        name = choice(t("masks.which"), names, key="tested", form="list", width=320, text=str)
    checkpoint = store.checkpoint(name)
    writing.lead_to_map(name, checkpoint)
    report = tested(TrainedModel.of(name))
    worst = max(report.sites, key=lambda leak: leak.largest)
    if worst.leaks:
        st.error(t("masks.leak", largest=worst.largest, site=site_name(worst.site)), icon=":material/water_drop:")
    elif report.leaks:
        st.error(t("masks.leak_changed"), icon=":material/water_drop:")
    else:
        st.success(t("masks.tight"), icon=":material/check:")
    table = _table(report)
    number = st.column_config.NumberColumn(format="%.3g")
    column = t("masks.largest_column")
    left, right = shared.columns()
    left.dataframe(table, hide_index=True, width="content", key="leaks", column_config={column: number})
    with right:
        shared.explain(t("masks.look_test"))
        st.markdown(changes(report, checkpoint))
        if report.future is None and report.padding is None:
            st.markdown(t("masks.nothing_hidden"))
        if getattr(checkpoint.model.config, "attention", "") == "location":
            st.markdown(t("masks.location"))
    shared.matrix_downloads(Board.of([]), [], {"leaks": table})


def changes(report: LeakReport, checkpoint: Checkpoint) -> str:
    """How much outputs change where they must not, with the unit."""
    unit = "nats" if checkpoint.translates or continues(checkpoint) else "hidden"
    found = (("future", report.future), ("padding", report.padding))
    return " ".join(t(f"masks.{name}_{unit}", change=change) for name, change in found if change is not None)


def site_name(site: Site) -> str:
    """An attention in words, its layer counted from 0."""
    kind = {"encoder.self": "encoder", "decoder.self": "decoder", "decoder.cross": "cross"}.get(site.group)
    if kind is None or site.layer is None:
        return str(site)
    return plain("masks.site_at", attention=plain(f"masks.site_{kind}"), layer=site.layer)


def _table(report: LeakReport) -> pd.DataFrame:
    """Each site with its largest forbidden weight, and where that is: the sentence from 1, all else from 0."""
    names = ("site", "largest", "row", "head", "query", "key")
    rows = [(site_name(leak.site), leak.largest, *_where(leak)) for leak in report.sites]
    return pd.DataFrame(rows, columns=[t(f"masks.{name}_column") for name in names])


def _where(leak: Leak) -> tuple[str, ...]:
    if leak.where is None or not leak.leaks:
        return ("",) * 4
    row, *others = leak.where
    return (str(row + 1), *map(str, others))
