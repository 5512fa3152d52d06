"""The tour's strip on every page with its questions, the views for a projector and for paper, and lesson links.

Until a reader reveals the answer of a question nothing of it is sent to the browser: what is drawn comes from `asked`,
`options` and `given` alone.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import numpy as np
import streamlit as st

from transformer.errors import HeedmapError
from transformer.lessons.board import Board, Matrix
from transformer.teaching.answers import TRUTHS
from transformer.teaching.case import Case, Live, judged
from transformer.teaching.data import Question, Reads, Step, questions, steps
from transformer.teaching.handout import qr, table_html
from ui.components.matrices.component import Cell, matrices
from ui.shared import address, controls
from ui.shared.state import HIDE, LOCK, page_state
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import KEY, as_text, plain, t

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
        """Why the answer is what it is."""
        return plain(f"questions.{self.question.name}_why", **self.case.explained)

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
    fields: dict[str, float] = {"agrees": 1 - result.off, "off": result.off}
    if name in {"several", "order"}:
        fields["off"] = int(result.off)
    elif name == "choice" and found.scores:
        fields = {"mine": found.scores[int(guess[0])], "best": found.scores[int(found.answer[0])]}
    elif name == "choice":
        name = "other"
    said = t("questions.right" if result.right else f"questions.off_{name}", **fields)
    icon = ":material/check_circle:" if result.right else ":material/cancel:"
    st.markdown(f"{icon} **{truth}** · {t('questions.yours', guess=asked.words(guess))} · {said} {why}")


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
    if not here.question and not is_done(here):
        st.caption(t("tour.do"), width="content")
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
