"""What is changed in a run: read from the address, written to it by every click, on heads, cells, rows and columns."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np
import streamlit as st

from heedmap import Checkpoint, Intervention, Record
from heedmap.attention.interventions.value import OF_OUTPUTS, OF_ROWS, Donor, from_text, parts_of, ranges, to_text
from heedmap.errors import HeedmapError
from heedmap.plots.picture import Picture
from heedmap.runs.what_if import map_difference
from heedmap.sites import Site
from ui.components.row_bars.component import row_bars
from ui.components.views import LARGEST_SIDE, all_heads
from ui.shared import controls
from ui.shared.address import belong_to, choice, hundredths, line, parameter, set_parameter, whole_numbers
from ui.shared.controls import MEAN, Selection, kind_name, kind_title, kinds
from ui.shared.files import Provenance, head_prefix
from ui.shared.record_views import matrix
from ui.texts import as_text, plain, said, t

CHANGES: Final = "do"
"""The query parameter of the interventions, in their short form."""

DONOR: Final = "donor"
"""The query parameter of the donor's sentence, and what the donor is called in interventions."""

STAND_IN: Final = Donor(DONOR, {}, {})
"""Stands for the donor wherever interventions are only read, written and named; runs put the real one in."""

NOTHING: Final = "none"
"""What the address says of the changes where a page would open with one, and it was taken away."""

OPENING: Final = "changes.opening"
"""Where a session keeps the changes that the page opens with while its address says nothing of them, in short form."""

OFF: Final = ("mean", "zero")
"""The actions that switch a head off: what it gives on instead is its mean output, or zero."""

MAPS: Final = ("after", "before", "difference")
SHOWN, CELL, TAU = KEYS = ("map", "cell", "tau")
"""The query parameters that the panel of a map follows by itself: which of `MAPS` is drawn; the picked cell, its row
and column, counted from 0; the temperature that is offered. Its buttons write the page's changes."""

Changes = tuple[Intervention, ...]


class Group(NamedTuple):
    """Interventions that belong together, and what they do in one line."""

    text: str
    ones: Changes


class Force(NamedTuple):
    """Of the changes that are asked for: those that act, and those that this run does not take, with what says why."""

    changes: Changes
    void: tuple[tuple[Intervention, HeedmapError], ...] = ()


def asked() -> Changes:
    """What the address asks for; a part that cannot be read is told, and left where it stands."""
    changes, errors = _read()
    for error in errors:
        controls.explain(error)
    return changes


def opening(checkpoint: Checkpoint) -> str | None:
    """The text that a page of changes opens with: that of the first change that the checkpoint says is worth trying."""
    return next((one.text for one in checkpoint.changed_examples), None)


def open_with(checkpoint: Checkpoint, text: str) -> None:
    """Open with what the checkpoint says is worth changing of this text, if anything is and the address says nothing.

    Comes before the changes are asked for.
    """
    known = (one.change for one in checkpoint.changed_examples if one.text == text and not one.donor)
    st.session_state[OPENING] = next(known, "")


def in_force(changes: Changes, run: Callable[[Changes], object]) -> Force:
    """Which of the changes a run takes, found by halves: those that it refuses do not keep the others from acting."""
    try:
        run(changes)
    except HeedmapError as error:
        if len(changes) < 2:
            return Force((), tuple((one, error) for one in changes))
        halves = [in_force(half, run) for half in (changes[: len(changes) // 2], changes[len(changes) // 2 :])]
        return Force(*(sum(parts, ()) for parts in zip(*halves, strict=True)))
    return Force(changes)


def keep(changes: Iterable[Intervention]) -> None:
    """Write them to the address."""
    written = to_text(changes)
    set_parameter(CHANGES, None if written == st.session_state.get(OPENING, "") else written or NOTHING)


def add(*more: Intervention) -> None:
    """These after the others; what they make void goes: the same again, or one that sets the same rows or outputs."""

    def is_void(old: Intervention) -> bool:
        return any(
            new == old
            or (
                (new.site, new.heads, new.queries) == (old.site, old.heads, old.queries)
                and any({new.action, old.action} <= {*kind} for kind in (OF_ROWS, OF_OUTPUTS, ["temperature"]))
            )
            for new in more
        )

    keep([*(one for one in _read()[0] if not is_void(one)), *more])


def remove(ones: Changes) -> None:
    """Without these."""
    keep(one for one in _read()[0] if one not in ones)


def donor_line() -> str:
    """The sentence of the donor, in the address; empty where there is none."""
    hint, why = t("what_if.donor_hint"), t("what_if.donor_help")
    return line(t("what_if.donor"), "", key=DONOR, placeholder=hint, help=why).strip()


def _read() -> tuple[Changes, list[HeedmapError]]:
    """What stands in the address, as far as it can be read, and what keeps the rest from being read."""
    donors = {DONOR: STAND_IN} if (parameter(DONOR) or "").strip() else {}
    found: list[Intervention] = []
    errors: list[HeedmapError] = []
    asked = parameter(CHANGES)
    try:
        every = parts_of(st.session_state.get(OPENING, "") if asked is None else "" if asked == NOTHING else asked)
    except HeedmapError as error:
        return (), [error]
    for part in every:
        try:
            found += from_text(part, donors)
        except HeedmapError as error:
            errors.append(error)
    return tuple(found), errors


def chips(force: Force, together: Sequence[Group] = ()) -> None:
    """Each intervention with a button that takes it away; those that are not in force look so, and it is said why.

    One button takes away those of `together` where all of them are there, and what is done alike in several layers.
    """
    acting = [group for group in together if set(group.ones) <= set(force.changes)]
    grouped = {one for group in acting for one in group.ones}
    acting += _by_layers([one for one in force.changes if one not in grouped])
    void = _by_layers([one for one, _ in force.void])
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="chips"):
        if not acting and not void:
            st.caption(t("what_if.nothing_changed"))
        for number, group in enumerate([*acting, *void]):
            text, acts = as_text(group.text), number < len(acting)
            st.button(
                text if acts else f"~~{text}~~", key=f"chip-{number}", type="secondary" if acts else "tertiary",
                icon=":material/close:" if acts else ":material/block:", on_click=remove, args=(group.ones,),
                help=t("what_if.chip_help" if acts else "what_if.chip_void_help"),
            )  # fmt: skip
        if len(acting) + len(void) > 1:
            st.button(t("what_if.clear"), key="clear", icon=":material/clear_all:", on_click=keep, args=((),))
    for error in {error.message: error for _, error in force.void}.values():
        controls.explain(error)


def _by_layers(changes: Sequence[Intervention]) -> list[Group]:
    """Each in one line; those that differ in their layer alone share one, which names the layers."""
    alike: dict[Intervention, list[Intervention]] = {}
    for one in changes:
        alike.setdefault(replace(one, site=Site(one.site).group), []).append(one)
    groups = []
    for ones in alike.values():
        sites = [Site(one.site) for one in ones]
        layers = sorted(site.layer for site in sites if site.layer is not None)
        named = sites[0].named_group(",".join(ranges(tuple(layers)))) if layers else ones[0].site
        groups.append(Group(said(ones[0].message_at(named)), tuple(ones)))
    return groups


def switchboard(record: Record, choice: Selection, changes: Changes, action: str, origin: Provenance) -> None:
    """Heads of one kind of attention as thumbnails of what they look at, those that are off crossed out.

    A click switches one off by `action`, and on again.
    """
    sites = kinds(record)[choice.kind]
    layers = [record[site] for site in sites]
    small = [one.thumbnails(choice.words, choice.special, LARGEST_SIDE) for one in layers]
    off, first = _heads_off(changes, record), layers[0].picture(0, choice.words, choice.special).reduced(LARGEST_SIDE)
    st.markdown(f"**{t('what_if.switchboard')}**")
    all_heads(
        np.array([values for values, _ in small]),
        np.logical_or.reduce([seen for _, seen in small]),
        selected=None if choice.head == MEAN else (choice.layer, int(choice.head)),
        off={(sites.index(site), head): way_name(how) for (site, head), how in off.items() if site in sites},
        on_pick=lambda layer, head: turn(record, [(sites[layer], head)], action),
        key="switchboard",
        file_name=origin.stem("all-heads", choice.kind),
        about=origin.about(plain("files.all_heads", kind=kind_title(choice.kind)), first),
    )


def switches(record: Record, kind: str, action: str) -> None:
    """A button for each layer of a kind of attention, and one for all of it; and what the thumbnails are."""
    st.caption(t("what_if.switchboard_help"))
    sites = kinds(record)[kind]
    with st.container(horizontal=True, gap="xsmall"):
        for layer, some in [*((str(number), [site]) for number, site in enumerate(sites)), ("kind", sites)]:
            is_all, args = layer == "kind", (record, every_head(record, some), action)
            name = t("what_if.kind_switch", kind=kind_name(kind)) if is_all else t("what_if.layer_switch", layer=layer)
            st.button(name, key=f"switch-{layer}", on_click=turn, args=args)


def way_name(action: str) -> str:
    """What an action that switches a head off is called, in a word."""
    return plain(f"what_if.way_{action}")


def every_head(record: Record, sites: Sequence[str]) -> list[tuple[str, int]]:
    """Site and head of every head of some sites."""
    return [(site, head) for site in sites for head in range(record[site].n_heads)]


def turn(record: Record, heads: Iterable[tuple[str, int]], action: str) -> None:
    """Switch heads off by `action`; those that are all off, on again. Others stay as they are."""
    there, wanted = _read()[0], set(heads)
    off = _heads_off(there, record).keys()
    kept = list[Intervention]()
    if wanted <= off:
        for one in there:
            ours = _heads_off((one,), record)
            left = [head for site, head in ours if (site, head) not in wanted]
            kept += [one] if not ours else [replace(one, heads=left)] if left else []
        keep(kept)
        return
    kept += there
    for site in record.sites:
        new = [head for other, head in sorted(wanted - off) if other == site]
        same = next((one for one in kept if _is_off(one) and (one.site, one.action) == (site, action)), None)
        if new and same is None:
            kept.append(Intervention(str(site), action, heads=new))
        elif new and same is not None:
            kept[kept.index(same)] = replace(same, heads=(*same.heads, *new))
    keep(kept)


def _is_off(one: Intervention) -> bool:
    """Whether it switches whole heads off, in the page's own way."""
    return one.action in OFF and one.queries is None and one.value is None


def _heads_off(changes: Changes, record: Record) -> dict[tuple[str, int], str]:
    """Site and head of every head that is off, with the action that holds: the last one."""
    return {
        (one.site, head): one.action
        for one in changes
        if _is_off(one) and one.site in record.sites
        for head in range(record[one.site].n_heads)
        if one.touches_head(head)
    }


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
    origin: Provenance,
    hiding: str = "for_nobody",
) -> None:
    """One head, large, by positions, before, after or their difference; a click on a cell offers what can be done.

    `hiding` is the text of the button that hides the position of a key from everybody.
    """
    st.markdown(f"**{t('what_if.map')}**", help=t("what_if.map_help"))
    if head == MEAN:
        st.info(t("what_if.choose_head"), icon=":material/touch_app:")
        return
    number = int(head)
    shown = choice(t("what_if.map"), MAPS, key=SHOWN, bare=True, text=lambda name: plain(f"what_if.map_{name}"))
    belong_to((*owner, site), CELL)
    now = picture = after[site].picture(number)
    if shown != "after":
        is_before = shown == "before"
        picture = before[site].picture(number) if is_before else map_difference(before, after, site, number)
    cell = whole_numbers(parameter(CELL), 2)
    picked = (cell[0], cell[1]) if cell and np.all(np.less(cell, picture.values.shape)) else None
    left, right = st.columns([3, 2], gap="large")
    with left:
        matrix(
            picture, key="map-of-head", stem=origin.stem(*head_prefix(picture), shown), facts=origin.facts(),
            selected=picked, on_pick=lambda row, column: set_parameter(CELL, f"{row}-{column}"),
        )  # fmt: skip
    with right:
        if picked is None:
            st.info(t("what_if.pick_cell"), icon=":material/touch_app:")
        else:
            _cell_panel(now, number, picked, hiding, for_nobody(picked[1]))


def from_everybody(record: Record, site: str) -> ForNobody:
    """What hides the position of a key from every head that reads the same tokens."""
    same = [other for other, one in record.items() if one.keys == record[site].keys]
    return lambda key: [Intervention(str(other), "knock_out", keys=(key,)) for other in same]


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
    seen = [i for i, visible in enumerate(now.visible[row]) if visible]

    def force(weights: tuple[float, ...]) -> None:
        given = {key: weight for key, weight in zip(seen, weights, strict=True) if weight > 0}
        add(make(action="force", queries=(row,), keys=tuple(given), value=tuple(given.values())))

    row_bars(now.values[row, seen], [now.keys.labels[i] for i in seen], query, key="row-bars", on_force=force)
    with st.container(horizontal=True, gap="xsmall"):
        for name, action in (("uniform", "uniform"), ("sharpest", "sharpest"), ("knock_out_row", "knock_out")):
            _button(name, make(action=action, queries=(row,)))
    tau = hundredths(t("what_if.temperature"), 0.05, 4.0, 1.0, key=TAU, help=t("what_if.temperature_help"))
    with st.container(horizontal=True, gap="xsmall"):
        _button("soften_row", make(action="temperature", queries=(row,), value=tau))
        _button("soften_head", make(action="temperature", value=tau))


def _button(name: str, *more: Intervention, **explained: float) -> None:
    """A button that makes these changes; numbers of this run explain it."""
    why = t(f"what_if.{name}_why", **explained) if explained else None
    st.button(t(f"what_if.{name}"), key=f"do-{name}", help=why, on_click=partial(add, *more))
