"""A question of the tour beside the page that answers it: the prediction, and once it is revealed the answer.

Until a reader reveals the answer nothing of it is sent to the browser: what is drawn comes from `asked`, `options` and
`given` alone.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import streamlit as st

from heedmap.errors import HeedmapError
from heedmap.lessons.board import Board, Matrix
from heedmap.messages import catalogue
from heedmap.teaching.answers import TRUTHS
from heedmap.teaching.case import Case, Live, judged
from heedmap.teaching.data import Question, Reads
from heedmap.teaching.handout import table_html
from ui.components.matrices.component import Cell, matrices
from ui.shared import address, controls
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import as_text, language, plain, t

GUESS, SHOWN = "guess", "revealed"
"""The prediction, and whether the answer is revealed: of the step that is open."""

GIVEN, ANSWER = "given", "answer"
"""The two matrices of the picture."""

FULL, LEVEL = 100, 10
"""The part that the highest bar of a row of weights stands for, and a step of a bar; only the proportions count."""

FILLED = 0.5
"""How a cell that was clicked is sent; an order sends its places instead."""

_READERS: dict[Reads, tuple[str, ...]] = {"translator": store.TRANSLATORS, "classifier": ("kmer",)}


def case(question: Question, text: str, model: str | None = None) -> Case:
    """A question about the open checkpoint, or the first one that can be asked, and a sentence.

    Raises:
        HeedmapError: it cannot be asked about them.
    """
    names = store.checkpoint_names(*_READERS[question.reads]) if question.reads in _READERS else []
    name = model if model in names else next(iter(names), None)
    return _case(question.name, None if name is None else store.revision(name), text)


@cached()
def _case(name: str, revision: Revision | None, text: str) -> Case:
    return TRUTHS[name](Live(None if revision is None else store.load(revision), text))


@dataclass(frozen=True)
class Asked:
    """A question about one run, in words: all plain text."""

    question: Question
    case: Case

    @property
    def text(self) -> str:
        """What is asked."""
        return plain(f"questions.{self.question.name}", **self.case.asked)

    @property
    def why(self) -> str:
        """Why the answer is what it is; where an answer has a reason of its own, that comes last."""
        name = f"questions.{self.question.name}_why"
        own = [f"{name}_{self.case.answer[0]:.0f}"] if self.question.fixed else []
        return " ".join(
            plain(one, **self.case.explained) for one in (name, *filter(catalogue(language()).__contains__, own))
        )

    @property
    def options(self) -> tuple[str, ...]:
        """What can be chosen."""
        name, count = self.question.name, self.question.fixed
        return self.case.options or tuple(plain(f"questions.{name}_{i}") for i in range(count))

    @property
    def clickable(self) -> bool:
        """Whether it is answered on its picture."""
        return self.question.kind == "row" or self.case.cells is not None

    def words(self, answer: Sequence[float]) -> str:
        """An answer or a prediction in words."""
        if self.question.kind == "number":
            return f"{answer[0]:.4g}"
        if self.question.kind == "row":
            total = sum(answer) or 1.0
            return " · ".join(f"{name} {part / total:.3f}" for name, part in zip(self.options, answer, strict=True))
        return " · ".join(self.options[int(one)] for one in answer if int(one) < len(self.options))

    def guess(self) -> tuple[float, ...]:
        """The prediction that the address holds; empty where there is none."""
        written = address.parameter(GUESS) or ""
        if self.question.kind == "number":
            with suppress(ValueError):
                return (float(written.replace(",", ".")),)
            return ()
        parts = address.whole_numbers(written, separator=".")
        if self.question.kind == "row":
            return tuple(map(float, parts)) if len(parts) == len(self.options) and any(parts) else ()
        return tuple(float(one) for one in parts if one < len(self.options))


def is_open(name: str) -> bool:
    """Whether a question waits for its prediction: then the page that shows the answer is not drawn."""
    return address.parameter(SHOWN) != name


def panel(question: Question, text: str, model: str | None, on_reveal: Callable[[], None] | None = None) -> None:
    """Ask, and answer once it is revealed."""
    try:
        asked = Asked(question, case(question, text, model))
    except HeedmapError as error:
        controls.explain(error)
        return
    st.markdown(f"**{t('questions.pick')}** · {as_text(asked.text)}")
    given, guess = asked.case.given, asked.guess()
    if not is_open(question.name):
        _revealed(asked, guess)
        if asked.case.shown is not None and on_reveal is None:  # in the tour the page itself shows them
            st.html(f'<div class="path-table">{table_html(asked.case.shown)}</div>')
        return
    if not asked.clickable and given is not None and not np.isnan(given.values).all():  # an empty one is for paper
        st.html(f'<div class="path-table">{table_html(given)}</div>')

    def reveal() -> None:
        address.put(**{SHOWN: question.name})
        if guess and on_reveal is not None:
            on_reveal()

    with st.container(horizontal=True, vertical_alignment="bottom", key="path-answer"):
        _prediction(asked, guess)
        st.button(t("questions.reveal"), key="path-reveal", type="primary", on_click=reveal)


def _prediction(asked: Asked, guess: tuple[float, ...]) -> None:
    """The control of a prediction; the address holds it, so every run tells the control what it is."""
    options, key = asked.options, f"path-guess-{asked.question.name}"
    indices = tuple(int(one) for one in guess)

    def take() -> None:
        value = st.session_state[key]
        address.put(**{GUESS: None if value in (None, "") else str(value).strip()})

    if asked.question.kind == "number":
        st.session_state[key] = address.parameter(GUESS) or ""
        hint = plain("questions.number")
        st.text_input(t("questions.predict"), key=key, width=160, placeholder=hint, on_change=take)
    elif asked.clickable:
        with st.container(key=key):
            _draw(asked, indices)
    else:
        st.session_state[key] = indices[0] if indices else None
        st.pills(
            t("questions.predict"), range(len(options)), key=key, on_change=take,
            format_func=lambda i: as_text(options[i]),
        )  # fmt: skip


def _draw(asked: Asked, guess: tuple[int, ...]) -> None:
    """Draw what is given, and the cells to click with the prediction in them; of the answer nothing is sent.

    A row of weights is drawn as bars of cells, one a key, filled up to the part that was clicked.
    """
    found, kind = asked.case, asked.question.kind
    levels, bars = np.arange(FULL, 0, -LEVEL), np.array(guess or [0] * len(found.options))
    rows, columns = found.cells or (tuple(f"{one} %" for one in levels), found.options)
    if kind == "row":
        values = (bars >= levels[:, None]) * FILLED
    else:
        values = np.full((len(rows), len(columns)), np.nan)
        for place, one in enumerate(guess, 1):
            values.flat[one] = place if kind == "order" else FILLED
    made = [Matrix(ANSWER, "", "", values, rows, columns)]
    if found.given is not None:
        made.insert(0, Matrix(GIVEN, "", "", found.given.values, found.given.rows, found.given.columns))

    def pick(cell: Cell | None) -> None:
        """Take the click into the prediction; a second click on a cell takes it back."""
        if cell is None or (kind == "row" and cell.matrix == GIVEN):
            return
        one = min(cell.row, len(rows) - 1) * len(columns) + min(cell.column, len(columns) - 1)
        now = tuple(other for other in guess if other != one)
        if kind == "row":
            height, now = int(levels[cell.row]), tuple(bars.tolist())
            height -= LEVEL if now[cell.column] == height else 0
            now = (*now[: cell.column], height, *now[cell.column + 1 :])
        elif one not in guess:
            now = (one,) if kind == "choice" else (*now, one) if kind == "order" else tuple(sorted((*now, one)))
        address.put(**{GUESS: ".".join(map(str, now)) or None})

    titles = {GIVEN: plain("questions.given"), ANSWER: plain("questions.predict")}
    matrices(
        Board.of(made), [one.name for one in made], None, key="path-cells", asked=(ANSWER,), titles=titles,
        hint=plain("questions.click"), file_name="question", on_pick=pick,
    )  # fmt: skip


def _revealed(asked: Asked, guess: tuple[float, ...]) -> None:
    """The answer, and by how much a wrong prediction is wrong."""
    question, found = asked.question, asked.case
    truth, why = t("questions.truth", truth=asked.words(found.answer)), as_text(asked.why)
    if not guess:
        st.markdown(f"**{truth}** · {t('questions.nothing')} {why}")
        return
    result, name = judged(question, found, guess), str(question.kind)
    fields: dict[str, object] = {"agrees": 1 - result.off, "off": result.off}
    if name in {"several", "order"}:
        fields["off"] = int(result.off)
    elif name == "choice" and found.scores:
        unit = f"questions.unit_{question.unit}"
        mine, best = (plain(unit, value=found.scores[int(one[0])]) for one in (guess, found.answer))
        fields = {"mine": mine, "best": best}
    elif name == "choice" or not result.possible:
        name = "other" if result.possible else "impossible"
    said = t("questions.right" if result.right else f"questions.off_{name}", **fields)
    icon = ":material/check_circle:" if result.right else ":material/cancel:"
    st.markdown(f"{icon} **{truth}** · {t('questions.yours', guess=asked.words(guess))} · {said} {why}")
