"""What a teacher uses on every page: the presenter view, the print view, links that take controls out of the page."""

from collections.abc import Iterable
from urllib.parse import quote

import streamlit as st

from transformer.teaching.data import Step, steps
from transformer.teaching.handout import qr
from ui.markdown import as_text
from ui.path import place
from ui.shared import address
from ui.shared.page_state import HIDE, LOCK, page_state
from ui.texts import KEY, t

ICONS = {place.PRESENT: ":material/present_to_all:", place.PRINT: ":material/print:"}


def tools() -> None:
    """Draw a teacher's tools in the side bar, and what paper needs at the end of the page; the page is drawn by now."""
    shown = place.view()
    if shown:
        _end(shown)
        return
    with st.sidebar:
        _way_in()
    with st.sidebar, st.popover(
        t("tour.teach"), icon=":material/school:", key="path-teach", on_change="rerun", width="stretch"
    ) as opened:  # fmt: skip
        if opened.open:
            for way in (place.PRESENT, place.PRINT):
                st.button(
                    t(f"tour.{way}"), key=f"path-{way}", icon=ICONS[way], on_click=_show, args=(way,), width="stretch",
                    help=t("tour.present_help") if way == place.PRESENT else None,
                )  # fmt: skip
            _lesson_link()


def _way_in() -> None:
    """What of the tour is on this page, with a link to it; on any other page to where the tour begins."""
    if place.step() is not None:
        return
    listed = [one for one in steps() if place.is_here(one)]
    labels = ", ".join(one.label for one in listed)
    label = t("tour.here", count=len(listed), labels=labels) if listed else t("tour.start")
    link((listed or steps())[0], label, "path-start")


def link(one: Step, label: str, key: str) -> None:
    """A link to a step of the tour, in a container of this key."""
    with st.container(key=key, width="content"):
        st.page_link(f"pages/{one.page}.py", label=label, query_params=place.link_to(one), width="content")


def _show(way: str | None) -> None:
    address.put(**{one: "1" if one == way else None for one in place.VIEWS})


def _end(shown: str) -> None:
    if shown == place.PRINT:
        _on_paper()
    with st.container(key="path-end"):
        st.button(
            t("tour.present_end" if shown == place.PRESENT else "tour.print_end"), key="path-end-view",
            icon=":material/close:", on_click=_show, args=(None,),
        )  # fmt: skip


def _on_paper() -> None:
    """The question of the open step with an empty line, and the page's address as a QR code."""
    here = place.step()
    if here is not None and here.question:
        st.markdown(f"**{t('tour.handout_question')}** · {t(f'tour.at_{here.name}')}")
        st.html('<div class="path-line"></div>')
    query = {key: value for key, value in page_state().values.items() if key not in {*place.VIEWS, place.DONE}}
    where = place.url(page_state().page or "map", query)
    st.html(f'<div class="path-qr">{qr(where)}</div>')
    st.text(where)


def _lesson_link() -> None:
    """Tick what stays; the link takes the other controls out of the page, each with the value that it has now."""
    st.markdown(f"**{t('tour.link')}**", help=t("tour.link_help"))
    known = {key: label for key, label in page_state().controls.labels.items() if key != KEY}
    if not known:
        st.caption(t("tour.link_none"))
        return
    gone = [key for key, label in known.items() if not st.checkbox(as_text(label), True, key=f"path-keep-{key}")]
    lock = st.checkbox(t("tour.link_lock"), True, key="path-lock")
    st.caption(t("tour.link_ready"))
    st.code(
        place.url(page_state().page or "map", lesson_link(page_state().values, gone, lock)),
        language=None,
        wrap_lines=True,
    )


def lesson_link(values: dict[str, str], gone: Iterable[str], lock: bool) -> dict[str, str]:
    """The query of a lesson link: `hide` names controls, with the values that differ from their defaults."""
    gone = tuple(gone)
    hidden = ".".join(f"{key}~{_pinned(values[key])}" if key in values else key for key in gone)
    kept = {key: value for key, value in values.items() if key not in {*gone, place.DONE, HIDE, LOCK}}
    return {**kept, **({HIDE: hidden} if hidden else {}), **({LOCK: "1"} if lock and hidden else {})}


def _pinned(value: str) -> str:
    """A value as it stands in `hide`, whose entries are apart by full stops."""
    return quote(value, safe=" ").replace(".", "%2E").replace("~", "%7E")
