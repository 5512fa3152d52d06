"""The interventions of the page: read from the address, and written to it by every click."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import streamlit as st

from transformer import Checkpoint, Intervention, Record
from transformer.attention.interventions.text import from_text, parts, to_text
from transformer.attention.interventions.value import OF_OUTPUTS, OF_ROWS, Donor, ranges
from transformer.errors import HeedmapError
from ui.markdown import as_text
from ui.shared import controls
from ui.shared.address import line, parameter, set_parameter
from ui.texts import said, t

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


def without_means() -> None:
    """Where a checkpoint brings no means, `mean` without a vector stands for zero, as links of before have it."""
    changes, _ = _read()
    zeroed = [replace(one, action="zero") if is_off(one) else one for one in changes]
    if zeroed != list(changes):
        keep(zeroed)


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
    """These after the others; what they make void goes."""
    keep([*(one for one in _there() if not any(_replaces(new, one) for new in more)), *more])


def remove(ones: Changes) -> None:
    """Without these."""
    keep(one for one in _there() if one not in ones)


def clear() -> None:
    """Nothing is changed."""
    keep(())


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


def is_off(one: Intervention) -> bool:
    """Whether it switches whole heads off, in the page's own way."""
    return one.action in OFF and one.queries is None and one.value is None


def heads_off(changes: Changes, record: Record) -> dict[tuple[str, int], str]:
    """Site and head of every head that is off, with the action that holds: the last one."""
    return {
        (one.site, head): one.action
        for one in changes
        if is_off(one) and one.site in record.sites
        for head in range(record[one.site].n_heads)
        if one.touches_head(head)
    }


def turn(record: Record, heads: Iterable[tuple[str, int]], action: str) -> None:
    """Switch heads off by `action`; those that are all off, on again. Others stay as they are."""
    there, wanted = _there(), set(heads)
    off = heads_off(there, record).keys()
    if wanted <= off:
        keep(one for each in there for one in _switched_on(each, record, wanted))
        return
    kept = list(there)
    for site in record.sites:
        new = [head for other, head in sorted(wanted - off) if other == site]
        same = next((one for one in kept if is_off(one) and (one.site, one.action) == (site, action)), None)
        if not new:
            continue
        if same is None:
            kept.append(Intervention(str(site), action, heads=new))
        else:
            kept[kept.index(same)] = replace(same, heads=(*same.heads, *new))
    keep(kept)


def _switched_on(one: Intervention, record: Record, heads: Collection[tuple[str, int]]) -> Changes:
    """What is left of an intervention that switches heads off, without some of them."""
    if not is_off(one) or one.site not in record.sites:
        return (one,)
    every = (head for head in range(record[one.site].n_heads) if one.touches_head(head))
    left = [head for head in every if (one.site, head) not in heads]
    return (replace(one, heads=left),) if left else ()


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
            acts = number < len(acting)
            st.button(
                as_text(group.text) if acts else f"~~{as_text(group.text)}~~",
                key=f"chip-{number}",
                type="secondary" if acts else "tertiary",
                icon=":material/close:" if acts else ":material/block:",
                help=t("what_if.chip_help" if acts else "what_if.chip_void_help"),
                on_click=remove,
                args=(group.ones,),
            )
        if len(acting) + len(void) > 1:
            st.button(t("what_if.clear"), key="clear", icon=":material/clear_all:", on_click=clear)
    for error in {error.message: error for _, error in force.void}.values():
        controls.explain(error)


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


def _read() -> tuple[Changes, list[HeedmapError]]:
    """What stands in the address, as far as it can be read, and what keeps the rest from being read."""
    donors = {DONOR: STAND_IN} if (parameter(DONOR) or "").strip() else {}
    found: list[Intervention] = []
    errors: list[HeedmapError] = []
    asked = parameter(CHANGES)
    try:
        every = parts(st.session_state.get(OPENING, "") if asked is None else "" if asked == NOTHING else asked)
    except HeedmapError as error:
        return (), [error]
    for part in every:
        try:
            found += from_text(part, donors)
        except HeedmapError as error:
            errors.append(error)
    return tuple(found), errors


def _there() -> Changes:
    """What stands in the address, as far as it can be read."""
    return _read()[0]


def _replaces(new: Intervention, old: Intervention) -> bool:
    """Whether an intervention leaves nothing of an earlier one: the same, or one that sets the same rows or outputs."""
    here = (new.site, new.heads, new.queries) == (old.site, old.heads, old.queries)
    anew = any({new.action, old.action} <= kind for kind in (OF_ROWS, OF_OUTPUTS, {"temperature"}))
    return new == old or (here and anew)
