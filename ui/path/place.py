"""Where a reader stands in the tour: the parameters of the address that the tour owns, and links to its steps."""

from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st

from transformer.teaching.data import Step, steps
from ui.shared import address
from ui.shared.page_state import HIDE, LOCK, page_state
from ui.texts import KEY

STEP, DONE = "tour", "done"
"""The step by its label; the steps that are done, a bit each, in hexadecimal."""

PRESENT, PRINT = VIEWS = "present", "print"
"""The two other ways to draw a page, each a parameter that is 1: for a projector, and for paper."""

GUESS, SHOWN = "guess", "revealed"
"""The prediction, and whether the answer is revealed: of the step that is open."""

KEPT = (STEP, DONE, *VIEWS)
"""Parameters that go along from page to page."""

OURS = frozenset((*KEPT, GUESS, SHOWN, KEY, HIDE, LOCK))
"""Parameters that are no state of the page itself."""


def view() -> str:
    """How the page is drawn: `PRESENT`, `PRINT`, or as usual (empty)."""
    return next((one for one in VIEWS if address.parameter(one) == "1"), "")


def step() -> Step | None:
    """The step that the address names; None where there is no tour."""
    label = address.parameter(STEP)
    return next((one for one in steps() if one.label == label), None)


def is_here(one: Step) -> bool:
    """Whether a step's page is the open one."""
    return page_path(one.page) == (page_state().page or "")


def page_path(page: str) -> str:
    """A page's path in an address: the map has none."""
    return "" if page == "map" else page


def done() -> int:
    """The steps that are done, a bit each, by their place in `steps`."""
    try:
        return int(address.parameter(DONE) or "0", 16) & ((1 << len(steps())) - 1)
    except ValueError:
        return 0


def is_done(one: Step) -> bool:
    """Whether a step is done."""
    return bool(done() >> steps().index(one) & 1)


def finish(one: Step) -> None:
    """A step is done from now on."""
    address.put(**{DONE: f"{done() | 1 << steps().index(one):x}"})


def note_what_was_done() -> None:
    """Finish steps without a question whose page the reader left, or has now, in another state than the step's."""
    for state in (page_state().values, *page_state().left.values()):
        one = next((each for each in steps() if each.label == state.get(STEP)), None)
        if one is not None and not one.question and not is_done(one) and own(state) != one.address:
            finish(one)


def own(state: Mapping[str, str]) -> dict[str, str]:
    """An address without what is ours."""
    return {key: value for key, value in state.items() if key not in OURS}


def link_to(one: Step) -> dict[str, str]:
    """The query of a step's address, with what goes along."""
    kept = {key: value for key in (KEY, DONE, *VIEWS) if (value := address.parameter(key))}
    return {**one.address, **kept, STEP: one.label}


def url(page: str, query: Mapping[str, str]) -> str:
    """The whole address of a page, for a link that leaves the app: on paper, in a QR code."""
    here = str(st.context.url or "")
    base = here.removesuffix("/")
    path = page_state().page or ""
    base = base.removesuffix(f"/{path}") if path else base
    return f"{base}/{page_path(page)}" + (f"?{urlencode(query)}" if query else "")
