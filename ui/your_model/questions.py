"""What a file of weights does not say, as questions that the reader answers."""

from functools import partial
from typing import Any

import streamlit as st

from heedmap.checkpoint.foreign.bundle import Bundle
from heedmap.checkpoint.foreign.report import Question, Report
from heedmap.messages import say
from ui.store import store
from ui.texts import as_text, plain, t

RARE = "rare-questions"
FEW = 8
"""So many options are shown side by side; more become a list."""


def questions_panel(name: str, found: Bundle, report: Report, *, is_wrong: bool) -> None:
    """Every question about a file, the special ids together.

    It is folded once the model can be run: its title says what is assumed. `is_wrong` says that an answer is.
    """
    if not report.questions:
        return
    given, of_this = dict(store.answers_for(name)), f"ask.{found.fingerprint[:16]}."
    assumed = {one.name: one.default for one in report.questions if one.assumption}
    defaults = {one.name: None if one.is_open else one.default for one in report.questions}
    now = defaults | found.special_ids | given
    usual = [question for question in report.questions if not (question.rare or question.place)]
    rare = [question for question in report.questions if question not in usual]
    taken = ", ".join(f"{one.name}={_option(now[one.name])}" for one in usual)
    title = t("your_model.questions", count=len(usual), taken=taken) if usual else t("your_model.questions_none")
    key = f"questions.{found.fingerprint[:16]}"
    is_open = is_wrong or not report.is_ready

    def ask(question: Question) -> None:
        label = t(f"your_model.ask_{question.name}")
        if mark := t("your_model.assumed") if question.name in assumed else "?" if now[question.name] is None else "":
            label = f"{label} :orange[{mark}]"
        _ask(name, question, label, f"{of_this}{question.name}", now[question.name])

    def forget() -> None:
        store.set_answers(name, {})
        for one in [key for key in st.session_state if str(key).startswith(of_this)]:
            del st.session_state[one]

    with st.expander(title, expanded=is_open, icon=":material/quiz:", key=key, on_change="rerun"):
        st.caption(t("your_model.questions_note"))
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            for question in usual:
                ask(question)
            if rare:  # drawn once they are asked for: the browser forgets values that it has not shown yet
                popover = st.popover(t("your_model.rare"), icon=":material/tune:", key=RARE, on_change="rerun")
                for question in rare if popover.open else ():
                    with popover:
                        ask(question)
        with st.container(horizontal=True, gap="small"):
            if assumed:
                st.button(
                    t("your_model.confirm"), on_click=store.set_answers, args=(name, {**assumed, **given}),
                    key="confirm-answers", help=t("your_model.confirm_help"), icon=":material/done_all:",
                )  # fmt: skip
            if given:
                st.button(t("your_model.forget"), on_click=forget, key="forget-answers")


def _ask(name: str, question: Question, label: str, key: str, now: Any) -> None:
    """A widget for a question; `now` is what counts as its answer, None where there must be one."""
    st.session_state[key] = f"{now:g}" if question.is_number and now is not None else now
    help_code = "your_model.ask_help_open" if question.is_open else "your_model.ask_help"
    why = say(question.why) or ("" if question.is_open else "—")
    answered: dict[str, Any] = {
        "key": key,
        "help": t(help_code, name=question.name, why=why, default=question.default),
        "on_change": partial(_answered, name, key, question),
    }
    if question.is_number:
        st.text_input(label, width=170, **answered)
    elif not question.options:
        st.number_input(label, min_value=question.least, step=1, width=170, **answered)
    elif len(question.options) <= FEW:
        st.segmented_control(
            label, question.options, required=True, format_func=lambda one: as_text(_option(one)), **answered
        )
    else:
        st.selectbox(label, question.options, index=None, placeholder="?", format_func=_option, width=170, **answered)


def _answered(name: str, key: str, question: Question) -> None:
    """Remember an answer, also one that was assumed before; runs before the page does."""
    value = st.session_state[key]
    if question.is_number:
        try:
            value = float(value)
        except ValueError:
            value = question.default
    answers = {**dict(store.answers_for(name)), question.name: value}
    if value is None:
        del answers[question.name]
    store.set_answers(name, answers)


def _option(value: Any) -> str:
    if value is None:
        return "?"
    if isinstance(value, bool):
        return plain("your_model.yes") if value else plain("your_model.no")
    return str(value)
