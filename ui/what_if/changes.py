"""The interventions of the page: read from the address, and written to it by every click."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import streamlit as st

from transformer import Intervention, Record
from transformer.errors import HeedmapError
from transformer.interventions.donors import Donor
from transformer.interventions.text import from_text, to_text
from transformer.interventions.value import OF_ROWS, ranges
from ui.shared import controls
from ui.shared.address import choice, line, parameter, set_parameter
from ui.texts import plain, said, t
from ui.texts.markdown import as_text

CHANGES: Final = "do"
"""The query parameter of the interventions, in their short form."""

DONOR: Final = "donor"
"""The query parameter of the donor's sentence, and what the donor is called in interventions."""

STAND_IN: Final = Donor(DONOR, {}, {})
"""Stands for the donor wherever interventions are only read, written and named; runs put the real one in."""

OFF: Final = ("mean", "zero")
"""What stands in for a head that is off."""

Changes = tuple[Intervention, ...]


class Group(NamedTuple):
    """Interventions that belong together, and what they do in one line."""

    text: str
    ones: Changes


def asked() -> Changes:
    """What the address asks for; what cannot be read is told, and left where it stands."""
    try:
        return _read()
    except HeedmapError as error:
        controls.explain(error)
        return ()


def keep(changes: Iterable[Intervention]) -> None:
    """Write them to the address."""
    set_parameter(CHANGES, to_text(changes) or None)


def add(*more: Intervention) -> None:
    """These after the others; what they make void goes."""
    keep([*(one for one in _there() if not any(_replaces(new, one) for new in more)), *more])


def remove(ones: Changes) -> None:
    """Without these."""
    keep(one for one in _there() if one not in ones)


def clear() -> None:
    """Nothing is changed."""
    set_parameter(CHANGES, None)


def donor_line() -> str:
    """The sentence of the donor, in the address; empty where there is none."""
    return line(
        t("what_if.donor"),
        "",
        key=DONOR,
        width="stretch",
        placeholder=t("what_if.donor_hint"),
        help=t("what_if.donor_help"),
    ).strip()


def off_choice(has_means: bool, reference: str) -> str:
    """What a head that is off gives on: its mean output, or zero where the checkpoint brings no means."""
    if not has_means:
        st.caption(t("what_if.no_means"))
        return "zero"
    text = {"mean": plain("what_if.off_mean"), "zero": plain("what_if.off_zero")}
    chosen = choice(t("what_if.off"), OFF, key="off", text=lambda action: text[action])
    st.caption(t("what_if.off_mean_why", set=reference) if chosen == "mean" else t("what_if.off_zero_why"))
    return chosen


def with_action(changes: Changes, action: str) -> Changes:
    """All heads that are off, by the one way that was chosen."""
    return tuple(replace(one, action=action) if is_off(one) else one for one in changes)


def is_off(one: Intervention) -> bool:
    """Whether it switches whole heads off, in the page's own way."""
    return one.action in OFF and one.queries is None and one.value is None


def heads_off(changes: Changes, record: Record) -> set[tuple[str, int]]:
    """Site and head of every head that is off."""
    return {
        (one.site, head)
        for one in changes
        if is_off(one) and one.site in record.sites
        for head in range(record[one.site].n_heads)
        if one.touches_head(head)
    }


def turn(record: Record, heads: Iterable[tuple[str, int]]) -> None:
    """Switch heads off; those that are all off, on again."""
    there, wanted = _there(), set(heads)
    off = heads_off(there, record)
    off = off - wanted if wanted <= off else off | wanted
    by_site = {site: tuple(head for other, head in sorted(off) if other == site) for site in record.sites}
    switched = [Intervention(str(site), "mean", heads=found) for site, found in by_site.items() if found]
    keep([*(one for one in there if not is_off(one)), *switched])


def chips(changes: Changes, together: Sequence[Group] = ()) -> None:
    """Each intervention with a button that takes it away.

    One button takes away those of `together` where all of them are there, and what is done alike in several layers.
    """
    if not changes:
        st.info(t("what_if.nothing_changed"), icon=":material/touch_app:")
        return
    groups = [group for group in together if set(group.ones) <= set(changes)]
    grouped = {one for group in groups for one in group.ones}
    groups += _by_layers([one for one in changes if one not in grouped])
    with st.container(horizontal=True, gap="small", key="chips"):
        for number, group in enumerate(groups):
            st.button(
                as_text(group.text),
                key=f"chip-{number}",
                icon=":material/close:",
                help=t("what_if.chip_help"),
                on_click=remove,
                args=(group.ones,),
            )
        if len(groups) > 1:
            st.button(t("what_if.clear"), key="clear", icon=":material/clear_all:", on_click=clear)


def _by_layers(changes: Sequence[Intervention]) -> list[Group]:
    """Each in one line; those that differ in their layer alone share one, which names the layers."""
    alike: dict[object, list[Intervention]] = {}
    for one in changes:
        alike.setdefault((one.place.group, replace(one, site=one.place.group)), []).append(one)
    groups = []
    for ones in alike.values():
        first, layers = ones[0], sorted(one.place.layer for one in ones if one.place.layer is not None)
        named = (
            ".".join((first.place.stack, ",".join(ranges(tuple(layers))), first.place.kind)) if layers else first.site
        )
        groups.append(Group(said(first.message_at(named)), tuple(ones)))
    return groups


def _read() -> Changes:
    return from_text(parameter(CHANGES) or "", {DONOR: STAND_IN} if (parameter(DONOR) or "").strip() else {})


def _there() -> Changes:
    """What stands in the address, as far as it can be read."""
    try:
        return _read()
    except HeedmapError:
        return ()


def _replaces(new: Intervention, old: Intervention) -> bool:
    """Whether an intervention leaves nothing of an earlier one: it is the same, or sets the same rows anew."""
    here = (new.site, new.heads, new.queries) == (old.site, old.heads, old.queries)
    rows = new.action in OF_ROWS and old.action in OF_ROWS
    return new == old or (here and (rows or new.action == old.action == "temperature"))
