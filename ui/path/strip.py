"""The tour's strip on every page, the views for a projector and for paper, and lesson links."""

import re
from collections.abc import Collection, Mapping
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st

from heedmap.teaching.data import Step, questions, steps
from heedmap.teaching.handout import qr
from ui.path.question import GUESS, SHOWN, is_open, panel
from ui.shared import address
from ui.shared.state import HIDE, LOCK, page_state
from ui.texts import KEY, as_text, t

STEP, DONE = "tour", "done"
"""The step by its label; the steps that are done, a bit each, in hexadecimal."""

PRESENT, PRINT = VIEWS = "present", "print"
"""The two other ways to draw a page, each a parameter that is 1: for a projector, and for paper."""

KEPT = (STEP, DONE, *VIEWS)
"""Parameters that go along from page to page."""

OURS = frozenset((*KEPT, GUESS, SHOWN, KEY, HIDE, LOCK))
"""Parameters that are no state of the page itself."""

ICONS = {PRESENT: ":material/present_to_all:", PRINT: ":material/print:"}


def view() -> str:
    """How the page is drawn: `PRESENT`, `PRINT`, or as usual (empty)."""
    return next((one for one in VIEWS if address.parameter(one) == "1"), "")


def step() -> Step | None:
    """The step that the address names; None where there is no tour."""
    return _named(address.parameter(STEP))


def _named(label: str | None) -> Step | None:
    return next((one for one in steps() if one.label == label), None)


def is_here(one: Step) -> bool:
    """Whether a step's page is the open one."""
    return page_path(one.page) == (page_state().page or "")


def page_path(page: str) -> str:
    """A page's path in an address: the map has none."""
    return "" if page == "map" else page


def _done() -> int:
    """The steps that are done, a bit each, by their place in `steps`."""
    try:
        return int(address.parameter(DONE) or "0", 16) & ((1 << len(steps())) - 1)
    except ValueError:
        return 0


def is_done(one: Step) -> bool:
    """Whether a step is done."""
    return bool(_done() >> steps().index(one) & 1)


def _finish(one: Step) -> None:
    address.put(**{DONE: f"{_done() | 1 << steps().index(one):x}"})


def link_to(one: Step) -> dict[str, str]:
    """The query of a step's address, with what goes along."""
    kept = {key: value for key in (KEY, DONE, *VIEWS) if (value := address.parameter(key))}
    return {**one.address, **kept, STEP: one.label}


def link(one: Step, label: str, key: str) -> None:
    """A link to a step of the tour, in a container of this key."""
    with st.container(key=key, width="content"):
        st.page_link(f"pages/{one.page}.py", label=label, query_params=link_to(one), width="content")


def url(page: str, query: Mapping[str, str]) -> str:
    """The whole address of a page, for a link that leaves the app: on paper, in a QR code."""
    path = page_state().page
    base = str(st.context.url or "").removesuffix("/").removesuffix(f"/{path}" if path else "")
    return f"{base}/{page_path(page)}" + (f"?{urlencode(query)}" if query else "")


def say_if_only_here() -> None:
    """Say, before an address leaves the app, if no other machine can open it: the app was opened by a local name."""
    host = urlsplit(str(st.context.url or "")).hostname or ""
    if host in {"localhost", "::1"} or host.startswith("127."):
        st.warning(t("tour.only_here", host=host), icon=":material/link_off:")


def tools() -> None:
    """Draw a teacher's tools in the side bar, and what paper needs at the end of the page; the page is drawn by now."""
    shown = view()
    if shown == PRINT:
        _on_paper()
    if shown:
        label = t("tour.present_end" if shown == PRESENT else "tour.print_end")
        with st.container(key="path-end"):
            st.button(label, key="path-end-view", icon=":material/close:", on_click=_show, args=(None,))
        return
    with st.sidebar:
        if step() is None:  # what of the tour is on this page; on any other page where the tour begins
            listed = [one for one in steps() if is_here(one)]
            labels = ", ".join(one.label for one in listed)
            label = t("tour.here", count=len(listed), labels=labels) if listed else t("tour.start")
            link((listed or steps())[0], label, "path-start")
        icon = ":material/school:"
        with st.popover(t("tour.teach"), icon=icon, key="path-teach", on_change="rerun", width="stretch") as opened:
            if opened.open:
                for way in VIEWS:
                    st.button(
                        t(f"tour.{way}"), key=f"path-{way}", icon=ICONS[way], on_click=_show, args=(way,),
                        width="stretch", help=t("tour.present_help") if way == PRESENT else None,
                    )  # fmt: skip
                _lesson_link()


def _show(way: str | None) -> None:
    address.put(**{one: "1" if one == way else None for one in VIEWS})


def _on_paper() -> None:
    """The question of the open step with an empty line, and the page's address as a QR code."""
    here = step()
    if here is not None and here.question:
        st.markdown(f"**{t('tour.handout_question')}** · {sentence_of(here)}")
        st.html('<div class="path-line"></div>')
    query = {key: value for key, value in page_state().values.items() if key not in {*VIEWS, DONE}}
    where = url(page_state().page or "map", query)
    st.html(f'<div class="path-qr">{qr(where)}</div>')
    st.text(where)


def _lesson_link() -> None:
    """Tick what stays; the link takes the other controls out of the page, each with the value that it has now."""
    st.markdown(f"**{t('tour.link')}**", help=t("tour.link_help"))
    known = {key: label for key, label in page_state().labels.items() if key != KEY}
    if not known:
        st.caption(t("tour.link_none"))
        return
    gone = [key for key, label in known.items() if not st.checkbox(as_text(label), True, key=f"path-keep-{key}")]
    lock = st.checkbox(t("tour.link_lock"), True, key="path-lock")
    st.caption(t("tour.link_ready"))
    say_if_only_here()
    found = url(page_state().page or "map", lesson_link(page_state().values, gone, lock))
    st.code(found, language=None, wrap_lines=True)


def lesson_link(values: dict[str, str], gone: Collection[str], lock: bool) -> dict[str, str]:
    """The query of a lesson link: `hide` names controls, with the values that differ from their defaults."""

    def pinned(value: str) -> str:  # entries are apart by full stops
        return quote(value, safe=" ").replace(".", "%2E").replace("~", "%7E")

    hidden = ".".join(f"{key}~{pinned(values[key])}" if key in values else key for key in gone)
    kept = {key: value for key, value in values.items() if key not in {*gone, DONE, HIDE, LOCK}}
    return {**kept, **({HIDE: hidden} if hidden else {}), **({LOCK: "1"} if lock and hidden else {})}


def strip() -> None:
    """Draw the strip. While a question waits for its prediction, the page below is not drawn, since it would answer."""
    here = step()
    if here is None or view() == PRINT:
        return
    with st.container(key="path-strip"):
        _note_what_was_done()
        with st.container(horizontal=True, vertical_alignment="center", key="path-way", gap="small"):
            _ways(here)
        if not here.question and not is_done(here):
            st.caption(t("tour.do"))
        if not is_here(here):
            link(here, t("tour.to_step", label=here.label), "path-return")
            return
        waits = bool(here.question) and _ask(here)
    if waits:
        tools()
        address.stop()
    st.html(f"<style>{lit()} {{ outline: 3px solid #e09000; outline-offset: 3px; }}</style>")


def _note_what_was_done() -> None:
    """Finish steps without a question whose page the reader left, or has now, in another state than the step's."""
    for state in (page_state().values, *page_state().left.values()):
        one, own = _named(state.get(STEP)), {key: value for key, value in state.items() if key not in OURS}
        if one is not None and not one.question and not is_done(one) and own != one.address:
            _finish(one)


def _ways(here: Step) -> None:
    """Back, where the reader stands, the sentence, next, leave."""
    every = [one for one in steps() if one.branch == here.branch]
    at, count = steps().index(here), sum(is_done(one) for one in every)
    if at:
        link(steps()[at - 1], t("tour.back"), "path-back")
    st.markdown(f"**{t('tour.progress', label=here.label, done=count, count=len(every))}**", width="content")
    st.markdown(sentence_of(here), width="stretch")
    if at + 1 < len(steps()):
        link(steps()[at + 1], t("tour.next"), "path-next")
    with st.container(key="path-leave", width="content"):
        st.button(
            t("tour.leave"), key="path-leave-now", type="tertiary", icon=":material/close:",
            on_click=lambda: address.put(**dict.fromkeys((*KEPT, GUESS, SHOWN))),
        )  # fmt: skip


def sentence_of(one: Step) -> str:
    """The one sentence of a step, as Markdown."""
    return t(f"tour.at_{one.name}")


def _ask(here: Step) -> bool:
    """Ask the step's question; whether it still waits."""
    question = questions()[here.question]
    values = map(address.parameter, ("source_words",) if question.reads == "toy" else ("text", "source"))
    panel(question, next(filter(None, values), ""), address.parameter("model"), lambda: _finish(here))
    return is_open(question.name)


def lit() -> str:
    """A CSS selector of what the open step speaks of; empty while there is none, or its question waits."""
    here = step()
    if here is None or not is_here(here) or (here.question and is_open(here.question)):
        return ""
    return ".st-key-" + re.sub("[^a-zA-Z0-9_-]", "-", here.lit)  # as Streamlit names the class of a key
