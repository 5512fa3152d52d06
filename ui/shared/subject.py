"""What is looked at: one model, one text, one marked word. All three go along from page to page.

Every page calls them `model`, `text` and `word` in its address, but for the few names in `PAGES`. A page says what it
shows (`show`), and the menu leads to every other page that can show the same with it (`carried`). Where a page is
reached by a link that says neither, they come along too (`arriving`). A word is written as it is shown, so that it
names the same word on every page; a page whose text has no such word marks none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import streamlit as st

from transformer.plots.axes import Axis
from ui.shared import address
from ui.shared.page_state import page_state
from ui.store import live, store
from ui.texts import KEY

MODEL, TEXT, WORD = "model", "text", "word"
"""The query parameters, the same on every page that has them."""

OLD_MODEL = "checkpoint"
"""What older addresses of the map call the model."""

LONGEST: Final = 2_000
"""Characters of a text up to which it goes along: a longer one stands in no address."""

SUBJECTS, SHOWN, GIVEN, FOLLOWED = "subjects", "subjects.shown", "subjects.given", "subjects.followed"
"""Where a session keeps the last subject of each kind, that of each page, the addresses in its menu, and the marked
word that was followed last."""

OF_TEXT = frozenset(
    (
        *(WORD, "force", "node", "pair", "mark", "piece", "at_word", "step", "written", "at", "cell", "following"),
        *("position", "pasted", "rows", "columns", "window"),
    )
)
"""Parameters that say something of one text alone: they do not go to another one."""


@dataclass(frozen=True)
class Subject:
    """A model and what it reads; None where a page shows the model alone. The word is the one that was marked last."""

    model: str
    text: str | None
    word: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Page:
    """What a page can show, and what it calls the text; a lesson starts with a toy unless its address says so."""

    architectures: tuple[str, ...]
    text: str | None = TEXT
    sequence: str | None = TEXT
    is_lesson: bool = False

    def text_key(self, architecture: str | None) -> str | None:
        """What it calls the text of a model of this kind."""
        return self.sequence if architecture == store.CLASSIFIERS else self.text


PAGES: dict[str, Page] = {
    "": Page(store.ARCHITECTURES),
    "translate": Page(store.TRANSLATORS),
    "align": Page(store.TRANSLATORS),
    "what_if": Page(store.ARCHITECTURES, sequence="sequence"),
    "sequences": Page((store.CLASSIFIERS,), sequence="sequence"),
    "your_model": Page(store.ARCHITECTURES, text=None, sequence=None),
    "attention_steps": Page(("seq2seq",), text="source", is_lesson=True),
    "inside_layer": Page(("seq2seq", "encoder", "decoder"), is_lesson=True),
}
"""Pages by their addresses."""


def show(model: str, text: str | None = None) -> None:
    """Remember what a page shows.

    It is what was looked at last, unless the page shows it because nothing was chosen there: then other pages begin
    with examples of their own.
    """
    known = st.session_state.setdefault(SUBJECTS, dict[str, Subject]())
    pages = st.session_state.setdefault(SHOWN, dict[str | None, Subject]())
    values, page, kind = page_state().values, page_state().page, _kind(model)
    before, was = known.get(kind), pages.get(page)
    place = PAGES.get(page or "", Page(()))
    last, kept = (None if one is None or one.model != model else one.text for one in (was, before))
    text = last if text is None else text
    is_said = place.text_key(_architecture(model)) in values or last not in {None, text}
    found = Subject(model, text if is_said else kept)
    pages[page] = Subject(model, text)
    if before == found:
        return
    if is_said or MODEL in values or (was is not None and was.model != model):
        known.pop(kind, None)
        known[kind] = found
    else:
        st.session_state[SUBJECTS] = {kind: found, **known}


def usual(names: Sequence[str]) -> str:
    """What a list shows where nothing else is said: the first that every session has, which no upload is.

    The address of an upload that is shown for want of anything else names it.
    """
    return next((name for name in names if not store.is_upload(name)), names[0])


def mark(word: str | None) -> None:
    """Remember the word that is marked where this page's address does not say so."""
    page_state().marked = word


def settle() -> None:
    """Say in the address which word is marked, where a page has it there by now."""
    here = page_state()
    if here.marked:
        address.put(**{WORD: here.marked})
    here.marked = None


def newly_marked(steps: Axis) -> int | None:
    """As `marked`, of the word that the browser marked last: once, so that a reader can go on from there."""
    word = page_state().marked
    is_new, st.session_state[FOLLOWED] = word != st.session_state.get(FOLLOWED), word
    return _place(steps, word) if is_new else None


def marked(steps: Axis) -> int | None:
    """The first position of the word that the address marks, if it is one of these."""
    return _place(steps, address.parameter(WORD))


def _place(steps: Axis, word: str | None) -> int | None:
    labels = steps.merged().labels
    return steps.words.index(sorted(set(steps.words))[labels.index(word)]) if word in labels else None


def word_at(steps: Axis, position: int) -> str:
    """What the address calls the word of a position."""
    return steps.merged().labels[sorted(set(steps.words)).index(steps.words[position])]


def menu_address(page: str, left: Mapping[str, str]) -> dict[str, str]:
    """Where the menu leads to a page that was left with an address: there, with what is looked at now."""
    _keep_word()
    found = carried(page, {key: value for key, value in left.items() if key != KEY})
    st.session_state.setdefault(GIVEN, {})[page] = found
    return found


def arriving(page: str) -> dict[str, str] | None:
    """What the address of a page says that a link has just led to; None where it stays as it came.

    A menu was drawn before the last word was marked, and some links name a page alone.
    """
    here, place = page_state(), PAGES.get(page)
    if place is None or here.page in {None, page}:
        return None
    _keep_word()
    found, came = _latest(page, place), {key: value for key, value in here.run.address.items() if key != KEY}
    if found is None:
        return None
    is_menus = came == st.session_state.get(GIVEN, {}).get(page)
    key = place.text_key(_architecture(found.model))
    is_open = key not in came and came.get(MODEL) in {None, found.model}
    return carried(page, came) if is_menus or is_open else None


def carried(page: str, before: Mapping[str, str]) -> dict[str, str]:
    """The address of a page with what is looked at now, if it can show it."""
    place = PAGES.get(page)
    found = None if place is None else _latest(page, place)
    if place is None or found is None:
        return dict(before)
    model = found.model if page == "align" else store.base(found.model)
    was = st.session_state.get(SHOWN, {}).get(page)
    is_same = was is not None and was.model == found.model and found.text in {None, was.text}
    said = {} if is_same else {MODEL: model}
    key = place.text_key(_architecture(model))
    if not is_same and key and found.text is not None and len(found.text) <= LONGEST:
        said[key] = found.text
    if found.word and key:
        said[WORD] = found.word
    return {**{one: value for one, value in before.items() if is_same or one not in OF_TEXT}, **said}


def _keep_word() -> None:
    """Remember which word the open page marks."""
    here = page_state()
    shown = st.session_state.get(SHOWN, {}).get(here.page)
    word = here.left.get(here.page or "", {}).get(WORD) or here.marked
    known = st.session_state.get(SUBJECTS, {})
    if shown is not None and word and known.get(_kind(shown.model)) in {Subject(shown.model, None), shown}:
        known[_kind(shown.model)] = replace(shown, word=word)


def _latest(page: str, place: Page) -> Subject | None:
    """What was looked at last that a page can show; a new lesson starts with a toy while nothing was chosen."""
    if place.text is None and live.named():
        return None
    for found in reversed(st.session_state.get(SUBJECTS, {}).values()):
        if _architecture(found.model) in place.architectures:
            is_new = place.is_lesson and page not in st.session_state.get(SHOWN, {})
            return None if is_new and found.text is None else found
    return None


def letters(example: str) -> str:
    """An example as one line: of a FASTA record the letters alone."""
    return "".join(example.splitlines()[1:]) if example.startswith(">") else example


def _kind(model: str) -> str:
    """Models of one kind read the same texts."""
    architecture = _architecture(model) or ""
    return store.TRANSLATORS[0] if architecture in store.TRANSLATORS else architecture


def _architecture(model: str) -> str | None:
    """That of a model, also of a snapshot; None of one that is gone."""
    base = store.base(model)
    return store.architecture(base) if store.is_known(base) else None
