"""Sweeps: every head off, one at a time, and every source word for nobody; a click does what was tried."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float

from transformer import Intervention, Translation
from transformer.errors import HeedmapError
from transformer.messages import words
from transformer.runs.what_if import for_nobody
from ui.components.heatmap.component import table_of_numbers
from ui.shared import changes, controls
from ui.shared.address import choice, parameter
from ui.shared.bars import LEAST_SCALE
from ui.shared.files import Origin, frame_csv
from ui.shared.part import in_page
from ui.shared.switchboard import way_name
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
        _progress(sweep)
    except HeedmapError as error:
        controls.explain(error)
    (_source if wanted == "source" else _heads)(sweep, before, action, Origin(name, asked[0]))
    return sweep.going and sweep.problem is None


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
    found = list(zip(every, sweep.found, strict=False))
    values = np.full((len(sites), max(head for _, head in every) + 1), np.nan)
    for (site, head), change in found:
        values[sites.index(site), head] = change
    st.caption(t("what_if.sweep_heads_note", way=way_name(action)))
    whole = sum(np.isfinite(row[: before.record[site].n_heads]).all() for row, site in zip(values, sites, strict=True))
    stem, columns = origin.stem("sweep-heads", action), [f"H{i}" for i in range(values.shape[1])]
    names = plain("what_if.sweep_site"), plain("what_if.column_head")

    def pick(row: int, head: int) -> None:
        changes.add(Intervention(str(sites[row]), action, heads=(head,)))

    _draw(values[:whole], (sites[:whole], columns), names, pick, stem)
    titles = plain("what_if.column_head"), plain("what_if.column_effect", way=way_name(action))
    told = sorted(((f"{site} H{head}", change) for (site, head), change in found), key=lambda one: one[1])
    _table(pd.DataFrame(told, columns=titles), stem)


def _source(sweep: Sweep, before: Translation, _action: str, origin: Origin) -> None:
    sources, tokens = before.axes.source.merged().labels, before.axes.written.labels
    values = np.full((len(sources), len(tokens)), np.nan)
    for row, changed in enumerate(sweep.found):
        values[row] = changed
    st.caption(t("what_if.sweep_source_note"))
    stem, names = origin.stem("sweep-source"), (plain("what_if.column_word"), plain("what_if.sweep_token"))
    whole = len(sweep.found)

    def pick(row: int, _token: int) -> None:
        changes.add(*for_nobody(before, row))

    _draw(values[:whole], (sources[:whole], tokens), names, pick, stem)
    table = pd.DataFrame(values, columns=list(tokens))
    table.insert(0, plain("what_if.column_word"), list(sources), allow_duplicates=True)
    table.insert(1, plain("what_if.column_total"), values.sum(axis=1), allow_duplicates=True)
    _table(table, stem)


def _draw(
    values: Float[np.ndarray, "row column"],
    labels: tuple[Sequence[str], Sequence[str]],
    names: tuple[str, str],
    pick: Callable[[int, int], None],
    stem: str,
) -> None:
    """The rows that are known so far, as colours."""
    end = float(np.nanmax(np.abs(values), initial=LEAST_SCALE))
    unit = words("figure_change_of_log_p")
    table_of_numbers(values, "", names, unit, key="sweep-grid", file_name=stem, labels=labels, end=end, on_pick=pick)


def _table(table: pd.DataFrame, stem: str) -> None:
    """The numbers of the grid, and the file that holds them."""
    with st.expander(t("what_if.sweep_table"), icon=":material/table:"):
        st.dataframe(table, hide_index=True, key="sweep-table", placeholder="-")
    st.download_button(
        t("what_if.sweep_csv"), in_this_language(lambda: frame_csv(table)), f"{stem}.csv", "text/csv",
        on_click="ignore", icon=":material/download:",
    )  # fmt: skip
