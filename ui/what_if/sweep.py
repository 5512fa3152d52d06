"""Sweeps: every head off, one at a time, and every source word for nobody; a click does what was tried."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from transformer import Intervention, Translation
from transformer.errors import HeedmapError
from transformer.plots.bars import effect_grid
from transformer.plots.export import plot_config
from transformer.runs.what_if import for_nobody
from ui.shared import changes, controls
from ui.shared.address import choice, parameter
from ui.shared.files import Origin, frame_csv
from ui.shared.part import in_page
from ui.shared.switchboard import way_name
from ui.shared.theme import is_dark
from ui.texts import in_this_language, plain, t
from ui.what_if import runs
from ui.what_if.runs import Asked, Sweep

SWEEPS: Final = ("none", "heads", "source")


SWEEP: Final = "sweep"
"""The query parameter of the sweep: a name of `SWEEPS`."""


def is_asked() -> bool:
    """Whether a sweep is shown: a button stops it, so the page's own run draws it."""
    return parameter(SWEEP) in SWEEPS[1:]


def sweep_panel(name: str, asked: Asked, before: Translation, action: str) -> bool:
    """A grid of effects on this sentence, which grows; says whether it goes on, for a run that follows."""
    st.markdown(f"**{t('what_if.sweep')}**", help=t("what_if.sweep_help"))
    text = {"none": plain("what_if.sweep_none"), "heads": plain("what_if.sweep_heads")}
    text["source"] = plain("what_if.sweep_source")
    wanted = choice(t("what_if.sweep"), SWEEPS, key=SWEEP, bare=True, text=lambda one: text[one])
    if wanted == "none":
        return False
    in_page()
    sweep = runs.sweep(name, asked, "source" if wanted == "source" else action)
    try:
        if sweep.going:
            sweep.advance()
    except HeedmapError as error:
        sweep.cancel()
        controls.explain(error)
    _progress(sweep)
    (_source if wanted == "source" else _heads)(sweep, before, action, Origin(name, asked[0]))
    return sweep.going


def _progress(sweep: Sweep) -> None:
    if sweep.going:
        st.progress(sweep.done / sweep.total, t("what_if.sweeping", done=sweep.done, total=sweep.total))
        st.button(t("what_if.sweep_cancel"), key="sweep-cancel", icon=":material/stop_circle:", on_click=sweep.cancel)
    elif sweep.cancelled:
        st.caption(t("what_if.sweep_cancelled", done=sweep.done, total=sweep.total))
        st.button(t("what_if.sweep_resume"), key="sweep-resume", icon=":material/play_arrow:", on_click=sweep.resume)


def _heads(sweep: Sweep, before: Translation, action: str, origin: Origin) -> None:
    every = [(site, head) for site in before.record.sites for head in range(before.record[site].n_heads)]
    sites = list(before.record.sites)
    values = np.full((len(sites), max(head for _, head in every) + 1), np.nan)
    for (site, head), change in zip(every, sweep.found, strict=False):
        values[sites.index(site), head] = change
    st.caption(t("what_if.sweep_heads_note", way=way_name(action)))
    columns = [f"H{i}" for i in range(values.shape[1])]
    figure = effect_grid(values, [str(site) for site in sites], columns, dark=is_dark())

    def pick() -> None:
        for row, column in _picked():
            changes.add(Intervention(str(sites[row]), action, heads=(column,)))

    stem = origin.stem("sweep-heads", action)
    _drawn(figure, pick, stem)
    names = plain("what_if.column_head"), plain("what_if.column_effect", way=way_name(action))
    found = [(f"{site} H{head}", change) for (site, head), change in zip(every, sweep.found, strict=False)]
    _table(pd.DataFrame(sorted(found, key=lambda one: one[1]), columns=names), stem)


def _source(sweep: Sweep, before: Translation, _action: str, origin: Origin) -> None:
    words, tokens = before.axes.source.merged().labels, before.axes.written.labels
    values = np.full((len(words), len(tokens)), np.nan)
    for row, changed in enumerate(sweep.found):
        values[row] = changed
    st.caption(t("what_if.sweep_source_note"))
    figure = effect_grid(values, words, tokens, dark=is_dark())

    def pick() -> None:
        for row, _ in _picked():
            changes.add(*for_nobody(before, row))

    stem = origin.stem("sweep-source")
    _drawn(figure, pick, stem)
    table = pd.DataFrame(values, columns=list(tokens))
    table.insert(0, plain("what_if.column_word"), list(words), allow_duplicates=True)
    table.insert(1, plain("what_if.column_total"), values.sum(axis=1), allow_duplicates=True)
    _table(table, stem)


def _table(table: pd.DataFrame, stem: str) -> None:
    """The numbers of the grid, and the file that holds them."""
    with st.expander(t("what_if.sweep_table"), icon=":material/table:"):
        st.dataframe(table, hide_index=True, key="sweep-table", placeholder="-")
    st.download_button(
        t("what_if.sweep_csv"), in_this_language(lambda: frame_csv(table)), f"{stem}.csv", "text/csv",
        on_click="ignore", icon=":material/download:",
    )  # fmt: skip


def _drawn(figure: go.Figure, pick: Callable[[], None], stem: str) -> None:
    st.plotly_chart(figure, key="sweep-grid", config=plot_config(stem), on_select=pick, selection_mode="points")


def _picked() -> list[tuple[int, int]]:
    points = st.session_state["sweep-grid"].selection.points[:1]
    return [(int(point["customdata"][0]), int(point["customdata"][1])) for point in points]
