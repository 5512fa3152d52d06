"""The tour's strip, at the same place on every page: where the reader stands, a sentence, a question, back, next."""

import re

import streamlit as st

from transformer.teaching.data import Step, questions, steps
from ui.path import asking, modes, place
from ui.shared import address
from ui.texts import t


def strip() -> None:
    """Draw the strip. While a question waits for its prediction, the page below is not drawn, since it would answer."""
    here = place.step()
    if here is None or place.view() == place.PRINT:
        return
    with st.container(key="path-strip"):
        place.note_what_was_done()
        with st.container(horizontal=True, vertical_alignment="center", key="path-way", gap="small"):
            _ways(here)
        if not place.is_here(here):
            modes.link(here, t("tour.to_step", label=here.label), "path-return")
            return
        waits = bool(here.question) and _ask(here)
    if waits:
        modes.tools()
        address.stop()
    st.html(f"<style>{lit()} {{ outline: 3px solid #e09000; outline-offset: 3px; }}</style>")


def _ways(here: Step) -> None:
    """Back, where the reader stands, the sentence, next, leave."""
    every = [one for one in steps() if one.branch == here.branch]
    at, count = steps().index(here), sum(place.is_done(one) for one in every)
    _turn(steps()[at - 1] if at else None, "back")
    st.markdown(f"**{t('tour.progress', label=here.label, done=count, count=len(every))}**", width="content")
    st.markdown(sentence_of(here), width="stretch")
    if not here.question and not place.is_done(here):
        st.caption(t("tour.do"), width="content")
    _turn(steps()[at + 1] if at + 1 < len(steps()) else None, "next")
    with st.container(key="path-leave", width="content"):
        st.button(
            t("tour.leave"), key="path-leave-now", type="tertiary", icon=":material/close:", on_click=_leave,
        )  # fmt: skip


def sentence_of(one: Step) -> str:
    """The one sentence of a step, as Markdown."""
    return t(f"tour.at_{one.name}")


def _turn(one: Step | None, way: str) -> None:
    if one is not None:
        modes.link(one, t(f"tour.{way}"), f"path-{way}")


def _ask(here: Step) -> bool:
    """Ask the step's question; whether it still waits."""
    question = questions()[here.question]
    held = map(address.parameter, ("source_words",) if question.reads == "toy" else ("text", "source"))
    text = next(filter(None, held), "")
    asking.panel(question, text, address.parameter("model"), lambda: place.finish(here))
    return asking.is_open(question.name)


def lit() -> str:
    """A CSS selector of what the open step speaks of; empty while there is none, or its question waits."""
    here = place.step()
    if here is None or not place.is_here(here) or (here.question and asking.is_open(here.question)):
        return ""
    return ".st-key-" + re.sub("[^a-zA-Z0-9_-]", "-", here.lit)  # as Streamlit names the class of a key


def _leave() -> None:
    address.put(**dict.fromkeys((*place.KEPT, place.GUESS, place.SHOWN)))
