"""What a file does not say is asked: good defaults, a look at each number of heads, answers kept by fingerprint."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.foreign.recognition import Recognition
from transformer.messages import say
from ui.checkpoints import previews
from ui.store import store
from ui.texts import catalogue, plain, said, t
from ui.texts.markdown import as_text

SPECIAL_IDS = ("pad_id", "bos_id", "eos_id", "target_pad_id")
RARE = "rare-questions"
FEW = 8
"""So many options are shown side by side; more become a list."""


def questions_panel(name: str, found: Bundle, recognition: Recognition, *, is_wrong: bool) -> None:
    """Every question about a file, the special ids together; and what the heads would look like.

    It is folded while the model can be run: its title says what is assumed. `is_wrong` says that an answer is.
    """
    report = recognition.report
    if not report.questions:
        return
    given = dict(store.answers_for(name))
    usual = [question for question in report.questions if not question.rare]
    rare = [question for question in report.questions if question.rare]
    title = t("checkpoints.questions", count=len(usual), taken=", ".join(_taken(found, usual, given)))
    key = f"questions.{found.fingerprint[:16]}"
    is_open = is_wrong or not report.fits or bool(report.doubts)
    with st.expander(title, expanded=is_open, icon=":material/quiz:", key=key, on_change="rerun"):
        st.caption(t("checkpoints.questions_note"))
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            for question in usual:
                _ask(name, found, question, given)
            if rare:
                _rare(name, found, rare, given)
        if report.unexpected or "ignore" in given:
            key = _key(found.fingerprint, "ignore")
            st.session_state.setdefault(key, given.get("ignore", ""))
            st.text_input(t("checkpoints.ask_ignore"), key=key, on_change=_answered, args=(name, key, "ignore", ""))
        if given:
            st.button(t("checkpoints.forget"), on_click=_forget, args=(name, found.fingerprint), key="forget-answers")
        heads = next((question for question in report.questions if question.name == "n_heads"), None)
        can_be_shown = heads is not None and report.fits and previews.have_input(report.config)
        if heads is not None and can_be_shown and st.toggle(t("checkpoints.preview"), key="preview-heads"):
            previews.previews_panel(found, report.config, heads, given, partial(_pick, name, found.fingerprint, heads))


def _taken(found: Bundle, questions: Sequence[Question], given: dict[str, Any]) -> list[str]:
    """What each question is taken to have as its answer."""
    usual = {question.name: found.special_ids.get(question.name, question.default) for question in questions}
    return [f"{name}={_option(given.get(name, value))}" for name, value in usual.items()]


def _rare(name: str, found: Bundle, questions: Sequence[Question], given: dict[str, Any]) -> None:
    """Questions behind a button, drawn once it is pressed: the browser forgets values that it has not shown yet."""
    popover = st.popover(t("checkpoints.rare"), icon=":material/tune:", key=RARE, on_change="rerun")
    if popover.open:
        with popover:
            for question in questions:
                _ask(name, found, question, given)


def _ask(name: str, found: Bundle, question: Question, given: dict[str, Any]) -> None:
    key = _key(found.fingerprint, question.name)
    usual = found.special_ids.get(question.name, question.default)
    now = _shown(question, given.get(question.name, usual))
    if st.session_state.get(key) != now:  # a vocabulary that names it has come or gone
        st.session_state[key] = now
    label, said = _label(question), _help(question)
    answered: dict[str, Any] = dict(key=key, on_change=_answered, args=(name, key, question.name, usual), help=said)
    if question.is_number:
        st.text_input(label, width=170, **answered)
    elif not question.options:
        st.number_input(label, min_value=question.least, step=1, width=170, **answered)
    elif len(question.options) <= FEW:
        st.segmented_control(label, question.options, required=True, format_func=_option_label, **answered)
    else:
        st.selectbox(label, question.options, format_func=_option, width=170, **answered)


def _pick(name: str, fingerprint: str, heads: Question, count: int) -> None:
    """Choose a number of heads by its preview."""
    key = _key(fingerprint, heads.name)
    st.session_state[key] = count
    _answered(name, key, heads.name, heads.default)


def _answered(name: str, key: str, question: str, default: Any) -> None:
    """Remember an answer that differs from the default; runs before the page does."""
    value = st.session_state[key]
    if isinstance(default, float):
        try:
            value = float(value)
        except ValueError:
            value = default
            st.session_state[key] = f"{default:g}"
    answers = {**dict(store.answers_for(name)), question: value}
    if value == default and isinstance(value, bool) == isinstance(default, bool):
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
    return f"{value:g}" if question.is_number else value


def _label(question: Question) -> str:
    """The question in the user's language; the library's own words for one that the catalogue has not."""
    name = f"ask_{question.name}"
    return t(f"checkpoints.{name}") if name in catalogue()["checkpoints"] else as_text(said(question.text))


def _help(question: Question) -> str:
    return t("checkpoints.ask_help", name=question.name, default=question.default, why=say(question.why) or "—")


def _option(value: Any) -> str:
    if isinstance(value, bool):
        return plain("checkpoints.yes") if value else plain("checkpoints.no")
    return str(value)


def _option_label(value: Any) -> str:
    return as_text(_option(value))
