"""Sweeps: every head off, one at a time, and every source word for nobody; a click does what was tried."""

from collections.abc import Callable
from typing import Final

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from transformer import Intervention, Translation
from transformer.figures.effects import effect_grid
from transformer.figures.export import PLOT_CONFIG
from transformer.runs.what_if import for_nobody
from transformer.sites import Site
from ui.shared.address import choice
from ui.shared.theme import is_dark
from ui.texts import plain, t
from ui.what_if import changes, runs
from ui.what_if.runs import Asked

SWEEPS: Final = ("none", "heads", "source")


def sweep_panel(name: str, asked: Asked, before: Translation, action: str) -> None:
    """A grid of effects on this sentence, computed when it is asked for."""
    st.markdown(f"**{t('what_if.sweep')}**", help=t("what_if.sweep_help"))
    text = {"none": plain("what_if.sweep_none"), "heads": plain("what_if.sweep_heads")}
    text["source"] = plain("what_if.sweep_source")
    wanted = choice(t("what_if.sweep"), SWEEPS, key="sweep", bare=True, text=lambda one: text[one])
    if wanted == "heads":
        _heads(runs.heads_swept(name, asked, action), action)
    elif wanted == "source":
        _source(runs.source_swept(name, asked), before)


def _heads(found: dict[Site, np.ndarray], action: str) -> None:
    widest = max(len(changes_) for changes_ in found.values())
    values = np.full((len(found), widest), np.nan)
    for row, of_site in enumerate(found.values()):
        values[row, : len(of_site)] = of_site
    sites = list(found)
    st.caption(t("what_if.sweep_heads_note"))
    figure = effect_grid(values, [str(site) for site in sites], [f"H{i}" for i in range(widest)], dark=is_dark())

    def pick() -> None:
        for row, column in _picked():
            changes.add(Intervention(str(sites[row]), action, heads=(column,)))

    _drawn(figure, pick)


def _source(values: np.ndarray, before: Translation) -> None:
    words = before.axes.source.merged().labels
    st.caption(t("what_if.sweep_source_note"))
    figure = effect_grid(values, words, [step.text for step in before.steps], dark=is_dark())

    def pick() -> None:
        for row, _ in _picked():
            changes.add(*for_nobody(before, row))

    _drawn(figure, pick)


def _drawn(figure: go.Figure, pick: Callable[[], None]) -> None:
    st.plotly_chart(figure, key="sweep-grid", config=PLOT_CONFIG, on_select=pick, selection_mode="points")


def _picked() -> list[tuple[int, int]]:
    points = st.session_state["sweep-grid"].selection.points[:1]
    return [(int(point["customdata"][0]), int(point["customdata"][1])) for point in points]
