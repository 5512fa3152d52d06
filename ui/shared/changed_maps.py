"""The map of one head, before, after and their difference; a picked cell, its row and its column can be changed."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

import streamlit as st

from transformer import Intervention, Record
from transformer.plots.picture import Picture
from transformer.runs.what_if import map_difference
from ui.components.row_bars.component import row_bars
from ui.shared import changes
from ui.shared.address import belong_to, choice, hundredths, parameter, set_parameter, whole_numbers
from ui.shared.controls import MEAN
from ui.shared.files import Origin, head_stem
from ui.shared.record_views import matrix
from ui.texts import plain, t

MAPS: Final = ("after", "before", "difference")
CELL: Final = "cell"
"""The query parameter of the picked cell: its row and column, counted from 0."""

SHOWN: Final = "map"
"""The query parameter of what is drawn: a name of `MAPS`."""

TAU: Final = "tau"
"""The query parameter of the temperature that is offered for a row or a head."""

KEYS: Final = (SHOWN, CELL, TAU)
"""What the panel follows by itself; its buttons write the page's changes."""

ForNobody = Callable[[int], Sequence[Intervention]]
"""What hides the position of a key from everybody; nothing where that means nothing."""


def map_panel(
    before: Record,
    after: Record,
    site: str,
    head: int | Literal["mean"],
    for_nobody: ForNobody,
    *,
    owner: tuple[object, ...],
    origin: Origin,
    hiding: str = "for_nobody",
) -> None:
    """One head, large, by positions; a click on a cell offers what can be done to it.

    `hiding` is the text of the button that hides the position of a key from everybody.
    """
    st.markdown(f"**{t('what_if.map')}**", help=t("what_if.map_help"))
    if head == MEAN:
        st.info(t("what_if.choose_head"), icon=":material/touch_app:")
        return
    number = int(head)
    shown = choice(t("what_if.map"), MAPS, key=SHOWN, bare=True, text=lambda name: plain(f"what_if.map_{name}"))
    belong_to((*owner, site), CELL)
    now = after[site].picture(number)
    picture = {
        "after": lambda: now,
        "before": lambda: before[site].picture(number),
        "difference": lambda: map_difference(before, after, site, number),
    }[shown]()
    cell = _cell(picture)
    left, right = st.columns([3, 2], gap="large")
    with left:
        stem = origin.stem(*head_stem(picture), shown)
        matrix(picture, key="map-of-head", stem=stem, facts=origin.facts(), selected=cell, on_pick=_keep_cell)
    with right:
        if cell is None:
            st.info(t("what_if.pick_cell"), icon=":material/touch_app:")
        else:
            _cell_panel(now, number, cell, hiding, for_nobody(cell[1]))


def _cell_panel(now: Picture, head: int, cell: tuple[int, int], hiding: str, nobody: Sequence[Intervention]) -> None:
    """What can be done to the picked cell, its column and its row."""
    row, column = cell
    query, key = now.queries.labels[row], now.keys.labels[column]
    make = partial(Intervention, str(now.site), heads=(head,))
    if now.visible[row, column]:
        st.markdown(t("what_if.cell_of", query=query, key=key))
        weight = float(now.values[row, column])
        rest = float(now.values[row].sum()) - weight
        with st.container(horizontal=True, gap="xsmall"):
            _button("knock_out_cell", make(action="knock_out", queries=(row,), keys=(column,)), weight=weight)
            _button("cut_cell", make(action="cut", queries=(row,), keys=(column,)), weight=weight, rest=rest)
            _button("only_here", make(action="force", queries=(row,), keys=(column,), value=(1.0,)))
    else:
        st.markdown(t("what_if.cell_is_masked", query=query, key=key))
    st.markdown(t("what_if.column_of", key=key))
    with st.container(horizontal=True, gap="xsmall"):
        _button("knock_out_column", make(action="knock_out", keys=(column,)))
        _button("cut_column", make(action="cut", keys=(column,)))
        if nobody:
            _button(hiding, *nobody)
    st.markdown(t("what_if.row_of", query=query))
    _row_bars(make, now, row)
    with st.container(horizontal=True, gap="xsmall"):
        _button("uniform", make(action="uniform", queries=(row,)))
        _button("sharpest", make(action="sharpest", queries=(row,)))
        _button("knock_out_row", make(action="knock_out", queries=(row,)))
    tau = hundredths(t("what_if.temperature"), 0.05, 4.0, 1.0, key=TAU, help=t("what_if.temperature_help"))
    with st.container(horizontal=True, gap="xsmall"):
        _button("soften_row", make(action="temperature", queries=(row,), value=tau))
        _button("soften_head", make(action="temperature", value=tau))


def _row_bars(make: Callable[..., Intervention], now: Picture, row: int) -> None:
    """The weights of a row in the changed run, as bars; those that are moved are forced."""
    seen = [i for i, visible in enumerate(now.visible[row]) if visible]

    def force(weights: tuple[float, ...]) -> None:
        given = {key: weight for key, weight in zip(seen, weights, strict=True) if weight > 0}
        changes.add(make(action="force", queries=(row,), keys=tuple(given), value=tuple(given.values())))

    labels = [now.keys.labels[i] for i in seen]
    row_bars(now.values[row, seen], labels, now.queries.labels[row], key="row-bars", on_force=force)


def _button(name: str, *more: Intervention, **explained: float) -> None:
    """A button that makes these changes; numbers of this run explain it."""
    why = t(f"what_if.{name}_why", **explained) if explained else None
    st.button(t(f"what_if.{name}"), key=f"do-{name}", help=why, on_click=partial(changes.add, *more))


def _cell(picture: Picture) -> tuple[int, int] | None:
    """The picked cell, if this picture has it."""
    numbers = whole_numbers(parameter(CELL) or "", "-")
    if numbers is None or len(numbers) != 2:
        return None
    row, column = numbers
    return (row, column) if row < len(picture.queries) and column < len(picture.keys) else None


def _keep_cell(row: int, column: int) -> None:
    set_parameter(CELL, f"{row}-{column}")
