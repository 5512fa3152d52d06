"""The map of one head, before, after and their difference; a picked cell, its row and its column can be changed."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pandas as pd
import streamlit as st

from transformer import Intervention
from transformer.figures.export import plot_config
from transformer.figures.heatmap import alt_text, heatmap
from transformer.pictures.picture import Picture
from transformer.runs.what_if import SameTarget, for_nobody, map_difference
from ui.components.cells.component import cells
from ui.shared.address import belong_to, choice, hundredths, parameter, set_parameter, whole_numbers
from ui.shared.controls import MEAN, Selection, sentence
from ui.shared.theme import is_dark
from ui.texts import plain, t
from ui.what_if import changes

MAPS: Final = ("after", "before", "difference")
CELL: Final = "cell"
"""The query parameter of the picked cell: its row and column, counted from 0."""


def map_panel(found: SameTarget, selected: Selection, owner: tuple[object, ...]) -> None:
    """One head, large, by tokens; a click on a cell offers what can be done to it."""
    st.markdown(f"**{t('what_if.map')}**", help=t("what_if.map_help"))
    if selected.head == MEAN:
        st.info(t("what_if.choose_head"), icon=":material/touch_app:")
        return
    head = int(selected.head)
    shown = choice(t("what_if.map"), MAPS, key="map", bare=True, text=lambda name: plain(f"what_if.map_{name}"))
    belong_to((*owner, selected.site), CELL)
    picture = _picture(found, shown, selected.site, head)
    cell = _cell(picture)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.plotly_chart(
            heatmap(picture, selected=cell, dark=is_dark()),
            key="map-of-head",
            width="content",
            alt=alt_text(picture),
            on_select=_pick_cell,
            selection_mode="points",
            config=plot_config(f"what-if-{shown}-{selected.site}-head-{head}"),
        )
        cells(picture, "map-of-head", key="map-of-head-cells", selected=cell, on_pick=_keep_cell)
        for note in picture.notes:
            st.caption(sentence(note))
    with right:
        if cell is None:
            st.info(t("what_if.pick_cell"), icon=":material/touch_app:")
        else:
            _cell_panel(found, selected.site, head, picture, cell)


def _cell_panel(found: SameTarget, site: str, head: int, picture: Picture, cell: tuple[int, int]) -> None:
    """What can be done to the picked cell, its column and its row."""
    row, column = cell
    query, key = picture.queries.labels[row], picture.keys.labels[column]
    make = partial(Intervention, site, heads=(head,))
    st.markdown(t("what_if.cell_of", query=query, key=key))
    with st.container(horizontal=True, gap="xsmall"):
        _button("knock_out_cell", make(action="knock_out", queries=(row,), keys=(column,)))
        _button("cut_cell", make(action="cut", queries=(row,), keys=(column,)))
    st.markdown(t("what_if.column_of", key=key))
    with st.container(horizontal=True, gap="xsmall"):
        _button("knock_out_column", make(action="knock_out", keys=(column,)))
        word = found.before.axes.source.words
        if picture.keys.texts == found.before.axes.source.texts:
            _button("for_nobody", *for_nobody(found.before, word[column]))
    st.markdown(t("what_if.row_of", query=query))
    with st.container(horizontal=True, gap="xsmall"):
        _button("only_here", make(action="force", queries=(row,), keys=(column,), value=(1.0,)))
        _button("uniform", make(action="uniform", queries=(row,)))
        _button("sharpest", make(action="sharpest", queries=(row,)))
    tau = hundredths(t("what_if.temperature"), 0.05, 4.0, 1.0, key="tau", help=t("what_if.temperature_help"))
    with st.container(horizontal=True, gap="xsmall"):
        _button("soften_row", make(action="temperature", queries=(row,), value=tau))
        _button("soften_head", make(action="temperature", value=tau))
    _row_editor(make, picture, row)


def _row_editor(make: Callable[..., Intervention], picture: Picture, row: int) -> None:
    """The weights of a row as numbers that can be typed over; they are brought to a sum of 1."""
    seen = [i for i, visible in enumerate(picture.visible[row]) if visible]
    with st.expander(t("what_if.force_row")):
        weights = [round(max(float(picture.values[row, i]), 0.0), 3) for i in seen]
        table = pd.DataFrame({"key": [picture.keys.labels[i] for i in seen], "weight": weights})
        columns = {
            "key": st.column_config.TextColumn(plain("what_if.key"), disabled=True),
            "weight": st.column_config.NumberColumn(plain("what_if.weight"), min_value=0.0, max_value=1.0, step=0.01),
        }
        edited = st.data_editor(table, key=f"row-{row}", hide_index=True, column_config=columns)
        given = [float(weight) for weight in edited["weight"].fillna(0.0)]
        total = sum(given)
        if total <= 0:
            st.caption(t("what_if.row_is_empty"))
            return
        forced = {key: weight / total for key, weight in zip(seen, given, strict=True) if weight > 0}
        _button("force", make(action="force", queries=(row,), keys=tuple(forced), value=tuple(forced.values())))


def _button(name: str, *more: Intervention) -> None:
    st.button(t(f"what_if.{name}"), key=f"do-{name}", on_click=partial(changes.add, *more))


def _picture(found: SameTarget, shown: str, site: str, head: int) -> Picture:
    if shown == "difference":
        return map_difference(found, site, head)
    return (found.before if shown == "before" else found.after).record[site].picture(head)


def _cell(picture: Picture) -> tuple[int, int] | None:
    """The picked cell, if this picture has it."""
    numbers = whole_numbers(parameter(CELL) or "", "-")
    if numbers is None or len(numbers) != 2:
        return None
    row, column = numbers
    return (row, column) if row < len(picture.queries) and column < len(picture.keys) else None


def _pick_cell() -> None:
    for point in st.session_state["map-of-head"].selection.points[:1]:
        _keep_cell(*point["customdata"][:2])


def _keep_cell(row: int, column: int) -> None:
    set_parameter(CELL, f"{int(row)}-{int(column)}")
