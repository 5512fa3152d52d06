"""The page "Tour and questions": steps, all questions on any sentence, the glossary, the handout."""

from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

import streamlit as st

from heedmap.errors import HeedmapError
from heedmap.messages import LANGUAGES
from heedmap.teaching.case import Table
from heedmap.teaching.data import questions, steps, terms
from heedmap.teaching.handout import Sheet, handout
from ui.path import strip
from ui.path.question import GUESS, SHOWN, Asked, case, is_open, panel
from ui.shared import address, controls
from ui.shared.files import save_button
from ui.texts import KEY, as_html, in_language, language, plain, t

TERM = "term"
"""The query parameter of the term that is looked for."""


def tour_view() -> None:
    """Every step with its sentence, whether it is done, and a link."""
    for branch in dict.fromkeys(one.branch for one in steps()):
        st.subheader(t(f"tour.branch_{branch}"), anchor=False)
        for one in (one for one in steps() if one.branch == branch):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.page_link(
                    f"pages/{one.page}.py", label=t("tour.to_step", label=one.label), query_params=strip.link_to(one),
                    width=150,
                )  # fmt: skip
                st.markdown(strip.sentence_of(one), width="stretch")
                st.caption(
                    t("tour.done") if strip.is_done(one) else t("tour.minutes", count=one.minutes), width="content"
                )


def questions_view() -> None:
    """One question, on the lesson's sentence or the reader's own."""
    shown = {name: f"{i} · {plain(f'{one.page}.title')}" for i, (name, one) in enumerate(questions().items(), 1)}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = address.choice(
            t("questions.pick"), list(shown), key="question", form="list", text=shown.__getitem__, width=260
        )
        question = questions()[name]
        text = ""
        if question.reads in {"toy", "translator"}:
            text = address.line(t("questions.sentence"), "", key="text", help=t("questions.sentence_help"), width=420)
    address.belong_to((name, text), GUESS, SHOWN)
    panel(question, text, None)
    if not is_open(name):
        with st.container(horizontal=True):
            st.button(
                t("questions.again"), key="path-again",
                on_click=lambda: address.put(**{GUESS: None, SHOWN: None}),
            )  # fmt: skip
            st.page_link(
                f"pages/{question.page}.py", label=t("questions.open"), query_params={**question.address, **_spoken()},
                width="content",
            )  # fmt: skip
    st.caption(t("questions.keys"))


def _spoken() -> dict[str, str]:
    """What keeps the language in a link."""
    return {KEY: language()} if language() != "en" else {}


def glossary_view() -> None:
    """Every term with its symbol, shape and sentence; a text finds terms in every language."""
    text = address.line(t("tour.term_find"), "", key=TERM, width=320)
    wanted, rows, spoken = text.strip().lower(), "", _spoken()
    for one in terms().values():
        names = (one.name, *(in_language(code, f"glossary.{one.name}") for code in LANGUAGES))
        if any(wanted in name.lower() for name in names):
            where = as_html(f"{strip.page_path(one.page) or '.'}?{urlencode({**one.address, **spoken})}")
            cells = (plain(f"glossary.{one.name}"), one.symbol, one.shape, plain(f"glossary.{one.name}_is"))
            link = f'<a href="{where}" data-ours>{as_html(plain("tour.term_open"))}</a>'
            rows += f"<tr>{''.join(f'<td>{cell}</td>' for cell in (*map(as_html, cells), link))}</tr>"
    if rows:
        st.html(f'<div class="path-table path-terms"><table>{rows}</table></div>')
    else:
        st.caption(t("tour.term_none", text=text))


def handout_view() -> None:
    """Make the tour's handout, and hand it over as one file."""
    st.markdown(t("tour.handout_intro"))
    strip.say_if_only_here()
    branches = list(dict.fromkeys(one.branch for one in steps()))
    which = address.choice(
        t("tour.handout_which"), branches, key="branch", text=lambda one: plain(f"tour.branch_{one}"), form="list"
    )
    if address.parameter("made") != which:
        st.button(t("tour.handout_make"), key="path-make", on_click=partial(address.put, made=which))
        return
    save_button(
        t("tour.handout_download"), document(which), f"handout-{which}-{language()}.html", "text/html",
        key="path-handout", icon=":material/print:",
    )  # fmt: skip


def document(branch: str) -> str:
    """The handout of a branch: a page a question, on the sentences of the lesson."""
    sheets = []
    for one in (one for one in steps() if one.branch == branch and one.question):
        question, where = questions()[one.question], strip.url(one.page, {**one.address, KEY: language()})
        title, sentence = f"{one.label} · {plain('questions.pick')}", plain(f"tour.at_{one.name}")
        text = one.address.get("text") or one.address.get("source", "")
        try:
            found = case(question, text, one.address.get("model"))
        except HeedmapError as error:
            reason = controls.plain_sentence(error.message)
            sheets.append(Sheet(title, sentence, plain("tour.handout_missing", reason=reason), "", where))
            continue
        asked = Asked(question, found)
        drawn = [] if found.given is None else [found.given]
        if asked.clickable:
            drawn.append(Table.empty(*(found.cells or ((plain("questions.predict"),), found.options))))
        answer, options = f"{asked.words(found.answer)}. {asked.why}", () if found.cells else asked.options
        sheets.append(Sheet(title, sentence, asked.text, answer, where, options, tuple(drawn), question.formula))
    return handout(plain("tour.handout_answers" if not sheets else "tour.title"), sheets, language())


VIEWS: dict[str, Callable[[], None]] = {
    "tour": tour_view,
    "questions": questions_view,
    "glossary": glossary_view,
    "handout": handout_view,
}
"""The page's views."""
