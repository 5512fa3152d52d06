"""A question as the pages ask it: what is given, a prediction, and after the reader reveals it, the answer.

Until then nothing of the answer is sent to the browser: what is drawn comes from `asked`, `options` and `given` alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from transformer.errors import HeedmapError
from transformer.teaching import on_cards, on_positions, on_toys, on_training, on_translations
from transformer.teaching.case import TRUTHS, Case, Live
from transformer.teaching.data import Question, Reads
from transformer.teaching.handout import table_html
from transformer.teaching.judged import Judged, judged
from ui.markdown import as_text
from ui.path import picture
from ui.path.place import GUESS, SHOWN
from ui.shared import address, controls
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import in_language, language, plain, t

MODULES = (on_cards, on_positions, on_toys, on_training, on_translations)
"""The modules whose functions know the answers."""

_READERS: dict[Reads, tuple[str, ...]] = {"translator": store.TRANSLATORS, "classifier": ("kmer",)}


def case(truth: str, reads: Reads, text: str, model: str | None = None) -> Case:
    """A question about the open checkpoint, or the first one that can be asked, and a sentence.

    Raises:
        HeedmapError: it cannot be asked about them.
    """
    names = store.checkpoint_names(*_READERS[reads]) if reads in _READERS else []
    name = model if model in names else next(iter(names), None)
    return _case(truth, None if name is None else store.revision(name), text)


@cached()
def _case(truth: str, revision: Revision | None, text: str) -> Case:
    return TRUTHS[truth](Live(None if revision is None else store.load(revision), text))


def text_of(question: Question, found: Case, ends: str = "", code: str | None = None) -> str:
    """What is asked, or with `_why` at its end why the answer is what it is; plain text."""
    fields = found.told if ends else found.asked
    return in_language(code or language(), f"questions.{question.name}{ends}", **fields)


def options_of(question: Question, found: Case) -> tuple[str, ...]:
    """What can be chosen, as plain text."""
    return found.options or tuple(plain(f"questions.{question.name}_{i}") for i in range(question.fixed))


def answer_text(question: Question, found: Case, answer: Sequence[float]) -> str:
    """An answer or a prediction in words."""
    options = options_of(question, found)
    if question.kind == "number":
        return f"{answer[0]:.4g}"
    if question.kind == "row":
        total = sum(answer) or 1.0
        return " · ".join(f"{name} {part / total:.3f}" for name, part in zip(options, answer, strict=True))
    return " · ".join(options[int(one)] for one in answer if int(one) < len(options))


def guessed(question: Question, found: Case) -> tuple[float, ...]:
    """The prediction that the address holds; empty where there is none."""
    written = address.parameter(GUESS) or ""
    if question.kind == "number":
        try:
            return (float(written.replace(",", ".")),)
        except ValueError:
            return ()
    parts = address.whole_numbers(written, ".") or ()
    if question.kind == "row":
        return tuple(map(float, parts)) if len(parts) == len(found.options) and any(parts) else ()
    return tuple(float(one) for one in parts if one < len(options_of(question, found)))


def is_open(name: str) -> bool:
    """Whether a question waits for its prediction: then the page that shows the answer is not drawn."""
    return address.parameter(SHOWN) != name


def panel(question: Question, text: str, model: str | None, on_reveal: Callable[[], None] | None = None) -> Case | None:
    """Ask, and answer once it is revealed. Gives the case after that, None before, or where it cannot be asked."""
    try:
        found = case(question.name, question.reads, text, model)
    except HeedmapError as error:
        controls.explain(error)
        return None
    st.markdown(f"**{t('questions.pick')}** · {as_text(text_of(question, found))}")
    in_words = is_open(question.name) and not picture.clickable(question.kind, found)
    if in_words and found.given is not None and not np.isnan(found.given.values).all():  # an empty one is for paper
        st.html(f'<div class="path-table">{table_html(found.given)}</div>')
    guess = guessed(question, found)
    if is_open(question.name):
        with st.container(horizontal=True, vertical_alignment="bottom", key="path-answer"):
            _prediction(question, found, guess)
            st.button(
                t("questions.reveal"), key="path-reveal", type="primary", on_click=_reveal,
                args=(question.name, on_reveal if guess else None),
            )  # fmt: skip
        return None
    _revealed(question, found, guess)
    if found.shown is not None and on_reveal is None:  # in the tour the page itself shows them
        st.html(f'<div class="path-table">{table_html(found.shown)}</div>')
    return found


def _reveal(name: str, then: Callable[[], None] | None) -> None:
    address.put(**{SHOWN: name})
    if then is not None:
        then()


def _prediction(question: Question, found: Case, guess: tuple[float, ...]) -> None:
    """The control of a prediction; the address holds it, so every run tells the control what it is."""
    options, kind, key = options_of(question, found), question.kind, f"path-guess-{question.name}"
    indices = [int(one) for one in guess]
    if kind == "number":
        st.session_state[key] = address.parameter(GUESS) or ""
        st.text_input(
            t("questions.predict"),
            key=key,
            width=160,
            placeholder=plain("questions.number"),
            on_change=_take,
            args=(key,),
        )
    elif picture.clickable(kind, found):
        with st.container(key=key):
            picture.draw(kind, found, tuple(indices), "path-cells", _take_cells)
    else:
        st.session_state[key] = indices[0] if indices else None
        st.pills(
            t("questions.predict"), range(len(options)), key=key, on_change=_take, args=(key,),
            format_func=lambda i: as_text(options[i]),
        )  # fmt: skip


def _take(key: str) -> None:
    value = st.session_state[key]
    address.put(**{GUESS: None if value in (None, "") else str(value).strip()})


def _take_cells(now: Sequence[int]) -> None:
    address.put(**{GUESS: ".".join(map(str, now)) or None})


def _revealed(question: Question, found: Case, guess: tuple[float, ...]) -> None:
    truth = t("questions.truth", truth=answer_text(question, found, found.answer))
    why = as_text(text_of(question, found, "_why"))
    if guess:
        result = judged(question, found, guess)
        mine = t("questions.yours", guess=answer_text(question, found, guess))
        said = t("questions.right") if result.right else _gap(question, found, guess, result)
        icon = ":material/check_circle:" if result.right else ":material/cancel:"
        st.markdown(f"{icon} **{truth}** · {mine} · {said} {why}")
    else:
        st.markdown(f"**{truth}** · {t('questions.nothing')} {why}")


def _gap(question: Question, found: Case, guess: tuple[float, ...], result: Judged) -> str:
    """By how much a wrong prediction is wrong."""
    if question.kind == "row":
        return t("questions.off_row", agrees=1 - result.off)
    if question.kind in {"several", "order"}:
        return t(f"questions.off_{question.kind}", off=int(result.off))
    if question.kind == "number":
        return t("questions.off_number", off=result.off)
    if not found.scores:
        return t("questions.off_other")
    mine, best = found.scores[int(guess[0])], found.scores[int(found.answer[0])]
    return t("questions.off_choice", mine=mine, best=best)
