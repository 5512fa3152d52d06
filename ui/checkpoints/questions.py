"""What a file does not say is asked: what is assumed is marked, answers are kept by the file's fingerprint."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from transformer.checkpoint.checkpoint import GUESSED
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.foreign.recognition import Recognition
from transformer.checkpoint.foreign.report import Report
from transformer.messages import Message, catalogue, say
from ui.markdown import as_text
from ui.store import store
from ui.texts import plain, said, t

SPECIAL_IDS = ("pad_id", "bos_id", "eos_id", "target_pad_id")
ASSUMED = (*GUESSED, "assumed_after")
"""Codes of what is assumed for want of an answer, whether or not attention depends on it."""

RARE = "rare-questions"
FEW = 8
"""So many options are shown side by side; more become a list."""


def questions_panel(name: str, found: Bundle, recognition: Recognition, *, is_wrong: bool) -> None:
    """Every question about a file, the special ids together.

    It is folded once the model can be run: its title says what is assumed. `is_wrong` says that an answer is.
    """
    report = recognition.report
    if not report.questions:
        return
    given = dict(store.answers_for(name))
    usual = [question for question in report.questions if not (question.rare or question.told)]
    rare = [question for question in report.questions if question not in usual]
    taken = ", ".join(_taken(found, usual, given))
    title = t("checkpoints.questions", count=len(usual), taken=taken) if usual else t("checkpoints.questions_none")
    key = f"questions.{found.fingerprint[:16]}"
    is_open = is_wrong or not report.is_ready or bool(report.doubts)
    assumed = _assumed(report)
    with st.expander(title, expanded=is_open, icon=":material/quiz:", key=key, on_change="rerun"):
        st.caption(t("checkpoints.questions_note"))
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            for question in usual:
                _ask(name, found, question, given, is_assumed=question.name in assumed)
            if rare:
                _rare(name, found, rare, given)
        if report.unexpected or "ignore" in given:
            key = _key(found.fingerprint, "ignore")
            st.session_state.setdefault(key, given.get("ignore", ""))
            st.text_input(t("checkpoints.ask_ignore"), key=key, on_change=_answered, args=(name, key, "ignore", ""))
        with st.container(horizontal=True, gap="small"):
            if assumed:
                st.button(
                    t("checkpoints.confirm"), on_click=_confirm, args=(name, assumed), key="confirm-answers",
                    help=t("checkpoints.confirm_help"), icon=":material/done_all:",
                )  # fmt: skip
            if given:
                forget = (name, found.fingerprint)
                st.button(t("checkpoints.forget"), on_click=_forget, args=forget, key="forget-answers")


def _taken(found: Bundle, questions: Sequence[Question], given: dict[str, Any]) -> list[str]:
    """What each question is taken to have as its answer."""
    usual = {question.name: _usual(found, question) for question in questions}
    return [f"{name}={_option(given.get(name, value))}" for name, value in usual.items()]


def _usual(found: Bundle, question: Question) -> Any:
    """What counts as the answer until there is one; None where there must be one."""
    return found.special_ids.get(question.name, None if question.is_open else question.default)


def _assumed(report: Report) -> dict[str, Any]:
    """The answers that nobody gave and that are assumed, by question."""
    names = {one.fields["name"] for one in report.assumptions if isinstance(one, Message) and one.code in ASSUMED}
    return {question.name: question.default for question in report.questions if question.name in names}


def _rare(name: str, found: Bundle, questions: Sequence[Question], given: dict[str, Any]) -> None:
    """Questions behind a button, drawn once it is pressed: the browser forgets values that it has not shown yet."""
    popover = st.popover(t("checkpoints.rare"), icon=":material/tune:", key=RARE, on_change="rerun")
    if popover.open:
        with popover:
            for question in questions:
                _ask(name, found, question, given)


def _ask(name: str, found: Bundle, question: Question, given: dict[str, Any], *, is_assumed: bool = False) -> None:
    key = _key(found.fingerprint, question.name)
    usual = _usual(found, question)
    now = _shown(question, given.get(question.name, usual))
    if key not in st.session_state or st.session_state[key] != now:  # a vocabulary that names it has come or gone
        st.session_state[key] = now
    mark = t("checkpoints.assumed") if is_assumed else "?" if now is None else ""
    label, said = f"{_label(question)} :orange[{mark}]" if mark else _label(question), _help(question)
    answered: dict[str, Any] = dict(key=key, on_change=_answered, args=(name, key, question.name, usual), help=said)
    if question.is_number:
        st.text_input(label, width=170, **answered)
    elif not question.options:
        st.number_input(label, min_value=question.least, step=1, width=170, **answered)
    elif len(question.options) <= FEW:
        st.segmented_control(label, question.options, required=True, format_func=_option_label, **answered)
    else:
        st.selectbox(label, question.options, index=None, placeholder="?", format_func=_option, width=170, **answered)


def _confirm(name: str, assumed: Mapping[str, Any]) -> None:
    """Take what is assumed for answers."""
    store.set_answers(name, {**assumed, **dict(store.answers_for(name))})


def _answered(name: str, key: str, question: str, default: Any) -> None:
    """Remember an answer, also one that was assumed before; runs before the page does."""
    value = st.session_state[key]
    if isinstance(default, float):
        try:
            value = float(value)
        except ValueError:
            value = default
            st.session_state[key] = f"{default:g}"
    answers = {**dict(store.answers_for(name)), question: value}
    if value is None or value == "":
        del answers[question]
    store.set_answers(name, answers)


def _forget(name: str, fingerprint: str) -> None:
    store.set_answers(name, {})
    for key in [key for key in st.session_state if str(key).startswith(_key(fingerprint, ""))]:
        del st.session_state[key]


def _key(fingerprint: str, question: str) -> str:
    return f"ask.{fingerprint[:16]}.{question}"


def _shown(question: Question, value: Any) -> Any:
    """The value as its widget takes it."""
    return f"{value:g}" if question.is_number and value is not None else value


def _label(question: Question) -> str:
    """The question in the user's language; the library's own words for one that the catalogue has not."""
    name = f"ask_{question.name}"
    return t(f"checkpoints.{name}") if f"checkpoints.{name}" in catalogue("en") else as_text(said(question.text))


def _help(question: Question) -> str:
    if question.is_open:
        return t("checkpoints.ask_help_open", name=question.name, why=say(question.why))
    return t("checkpoints.ask_help", name=question.name, default=question.default, why=say(question.why) or "—")


def _option(value: Any) -> str:
    if value is None:
        return "?"
    if isinstance(value, bool):
        return plain("checkpoints.yes") if value else plain("checkpoints.no")
    return str(value)


def _option_label(value: Any) -> str:
    return as_text(_option(value))
