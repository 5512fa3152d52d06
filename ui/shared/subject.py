"""What is looked at: one model, one text, one marked word. All three go along from page to page.

Every page calls them `model`, `text` and `word` in its address, but for the few names in `PAGES`. A page says what it
shows (`show`), and the menu, which is drawn here, leads to every other page that can show the same with it (`carried`).
Where a page is reached by a link that says neither, they come along too (`arriving`). A word is written as it is shown,
so that it names the same word on every page; a page whose text has no such word marks none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap.messages import LANGUAGES, catalogue
from heedmap.plots.axes import Axis
from ui.shared import address
from ui.shared.state import page_state
from ui.store import live, store
from ui.texts import KEY, as_html, as_text

MODEL, TEXT, WORD = "model", "text", "word"
"""The query parameters, the same on every page that has them."""

SEQUENCE, RECORD = "sequence", "pasted"
"""Those of a sequence: what is pasted, and which of its records is shown, counted from 1."""

LONGEST: Final = 2_000
"""Characters of a text up to which it goes along: a longer one stands in no address."""

LOOKED_AT: Final = "subjects"
"""Where a session keeps what is looked at."""

OF_TEXT = frozenset(
    (
        *(WORD, "force", "node", "pair", "mark", "piece", "at_word", "written", "at", "cell", "following"),
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


@dataclass
class LookedAt:
    """The last subject of each kind, that of each page, the addresses in its menu, the word that was followed last."""

    last: dict[str, Subject] = field(default_factory=dict)
    on: dict[str | None, Subject] = field(default_factory=dict)
    menu: dict[str, dict[str, str]] = field(default_factory=dict)
    last_marked: str | None = None


@dataclass(frozen=True)
class PageInput:
    """What a page can show, and what it calls the text; a lesson starts with a toy unless its address says so."""

    architectures: tuple[str, ...]
    text: str | None = TEXT
    sequence: str | None = TEXT
    is_lesson: bool = False

    def text_key(self, model: str) -> str | None:
        """What it calls the text that a model reads."""
        return self.sequence if _architecture(model) == store.CLASSIFIERS else self.text


PAGES: dict[str, PageInput] = {
    "": PageInput(store.ARCHITECTURES),
    "translate": PageInput(store.TRANSLATORS),
    "align": PageInput(store.TRANSLATORS),
    "what_if": PageInput(store.ARCHITECTURES, sequence="sequence"),
    "sequences": PageInput((store.CLASSIFIERS,), sequence="sequence"),
    "your_model": PageInput(store.ARCHITECTURES, text=None, sequence=None),
    "attention_steps": PageInput(("seq2seq",), text="source", is_lesson=True),
    "inside_layer": PageInput(("seq2seq", "encoder", "decoder"), is_lesson=True),
}
"""Pages by their addresses."""


def show(model: str, text: str | None = None) -> None:
    """Remember what a page shows.

    It is what was looked at last, unless the page shows it because nothing was chosen there: then other pages begin
    with examples of their own.
    """
    looked, here, kind = _looked_at(), page_state(), _kind(model)
    before, was = looked.last.get(kind), looked.on.get(here.page)
    last, kept = (None if one is None or one.model != model else one.text for one in (was, before))
    text = last if text is None else text
    is_said = PAGES.get(here.page or "", PageInput(())).text_key(model) in here.values or last not in {None, text}
    found = Subject(model, text if is_said else kept)
    looked.on[here.page] = Subject(model, text)
    if before == found:
        return
    if is_said or MODEL in here.values or (was is not None and was.model != model):
        looked.last.pop(kind, None)
        looked.last[kind] = found
    else:
        looked.last = {kind: found, **looked.last}


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
    word, looked = page_state().marked, _looked_at()
    is_new, looked.last_marked = word != looked.last_marked, word
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


def letters(example: str) -> str:
    """An example as one line: of a FASTA record the letters alone."""
    return "".join(example.splitlines()[1:]) if example.startswith(">") else example


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
    is_open = place.text_key(found.model) not in came and came.get(MODEL) in {None, found.model}
    return carried(page, came) if is_open or came == _looked_at().menu.get(page) else None


def carried(page: str, before: Mapping[str, str]) -> dict[str, str]:
    """The address of a page with what is looked at now, if it can show it."""
    place = PAGES.get(page)
    found = None if place is None else _latest(page, place)
    if place is None or found is None:
        return dict(before)
    was, key = _looked_at().on.get(page), place.text_key(found.model)
    is_same = was is not None and was.model == found.model and found.text in {None, was.text}
    said = {} if is_same else {MODEL: found.model if page == "align" else store.base(found.model)}
    if not is_same and key and found.text is not None and len(found.text) <= LONGEST:
        said[key] = found.text
    if found.word and key:
        said[WORD] = found.word
    return {**{one: value for one, value in before.items() if is_same or one not in OF_TEXT}, **said}


def _keep_word() -> None:
    """Remember which word the open page marks."""
    here, looked = page_state(), _looked_at()
    shown = looked.on.get(here.page)
    word = here.left.get(here.page or "", {}).get(WORD) or here.marked
    if shown is not None and word and looked.last.get(_kind(shown.model)) in {Subject(shown.model, None), shown}:
        looked.last[_kind(shown.model)] = replace(shown, word=word)


def _latest(page: str, place: PageInput) -> Subject | None:
    """What was looked at last that a page can show; a new lesson starts with a toy while nothing was chosen."""
    looked = _looked_at()
    if place.text is None and live.named():
        return None
    is_new = place.is_lesson and page not in looked.on
    for found in reversed(looked.last.values()):
        if _architecture(found.model) in place.architectures:
            return None if is_new and found.text is None else found
    return None


def _looked_at() -> LookedAt:
    found: LookedAt = st.session_state.setdefault(LOOKED_AT, LookedAt())
    return found


def _kind(model: str) -> str:
    """Models of one kind read the same texts."""
    architecture = _architecture(model) or ""
    return store.TRANSLATORS[0] if architecture in store.TRANSLATORS else architecture


def _architecture(model: str) -> str | None:
    """That of a model, also of a snapshot; None of one that is gone."""
    base = store.base(model)
    return store.architecture(base) if store.is_known(base) else None


_HEADING = "margin-top: .6rem; font-size: .875rem; opacity: .75;"


def chosen_page(sections: Mapping[str, Sequence[st.Page]], place: DeltaGenerator) -> tuple[st.Page, Callable[[], None]]:
    """Draw the menu at a place, and return the page that the address asks for, and what draws the menu's links anew.

    `sections` are pages by the heading of their section, in plain text.

    The links are our own since they carry addresses: one click is one entry of the browser's history. The link to the
    page that is open leads to that page as it is at first. What the page shows is known when it is drawn: then those
    links that lead elsewhere by then are drawn once more.
    """
    page = st.navigation({title: list(pages) for title, pages in sections.items()}, position="hidden")
    drawn: list[tuple[st.Page, DeltaGenerator, dict[str, str] | None]] = []

    def again() -> None:
        for number, (one, slot, before) in enumerate(drawn):
            found = _menu_address(one.url_path, one.url_path == page.url_path)
            if found != before:
                slot.page_link(one, query_params=found, width="stretch")
                drawn[number] = one, slot, found

    with place:
        for title, pages in sections.items():
            st.html(f'<div style="{_HEADING}">{as_html(title)}</div>')
            drawn += [(one, st.empty(), None) for one in pages]
    again()
    return page, again


def _menu_address(page: str, is_open: bool) -> dict[str, str]:
    """Where the menu leads to a page: there as it was left, with what is looked at now; to the open one as at first."""
    here, found = page_state(), dict[str, str]()
    if not is_open:
        _keep_word()
        found = carried(page, {key: value for key, value in here.left.get(page, {}).items() if key != KEY})
        _looked_at().menu[page] = found
    along = {key: value for key in here.kept if (value := address.parameter(key))}
    return {key: value for key, value in found.items() if key not in here.kept} | along


def language_choice() -> None:
    """Choose the language; stands in the app's frame, before any page, so that the choice stays across pages."""
    labels = " · ".join(catalogue(code)["language_label"] for code in LANGUAGES)
    with st.sidebar:
        address.choice(as_text(labels), list(LANGUAGES), key=KEY, text=lambda code: catalogue(code)["language_name"])
