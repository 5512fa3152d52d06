"""The leak test as the lesson "Masks" shows it: of any checkpoint, and of a broken mask."""

import pandas as pd
import streamlit as st

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.lessons.expressions.board import Board
from transformer.lessons.leaks import LeakReport
from ui.lessons import shared
from ui.lessons.masks.example import TrainedModel, tested
from ui.shared.address import choice
from ui.store import store
from ui.texts import t


def leak_panel() -> None:
    """The leak test of any checkpoint."""
    st.caption(t("masks.look_test"))
    names = store.checkpoint_names(*ARCHITECTURES)
    if not names:
        st.info(t("masks.none"))
        return
    name = choice(t("masks.which"), names, key="tested", form="list", width=320, text=str)
    checkpoint = store.checkpoint(name)
    report = tested(TrainedModel.of(name), "right")
    verdict(report)
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
        st.caption(t("masks.location"))


def verdict(report: LeakReport) -> None:
    """Whether anything leaked, and where most."""
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
