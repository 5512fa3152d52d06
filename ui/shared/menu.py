"""The menu of pages: it leads to each page as it was left, with what is looked at now where the page can show that."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui.shared import address, subject
from ui.shared.page_state import page_state

_HEADING = "margin-top: .6rem; font-size: .875rem; opacity: .75;"


def chosen_page(sections: Mapping[str, Sequence[st.Page]], place: DeltaGenerator) -> tuple[st.Page, Callable[[], None]]:
    """Draw the menu at a place, and return the page that the address asks for, and what draws the menu's links anew.

    `sections` are pages by the heading of their section, in plain text.

    The links are our own since they carry addresses: one click is one entry of the browser's history. The link to the
    page that is open leads to that page as it is at first. What the page shows is known when it is drawn: then those
    links that lead elsewhere by then are drawn once more.
    """
    page = st.navigation({title: list(pages) for title, pages in sections.items()}, position="hidden")
    drawn: list[tuple[st.Page, DeltaGenerator, dict[str, str]]] = []

    def draw(one: st.Page, slot: DeltaGenerator, before: dict[str, str] | None) -> dict[str, str]:
        found = _address(one, one.url_path == page.url_path)
        if found != before:
            slot.page_link(one, query_params=found, width="stretch")
        return found

    with place:
        for title, pages in sections.items():
            st.html(f'<div style="{_HEADING}">{escape(title)}</div>')
            for one in pages:
                slot = st.empty()
                drawn.append((one, slot, draw(one, slot, None)))

    def again() -> None:
        for link in drawn:
            draw(*link)

    return page, again


def _address(page: st.Page, is_open: bool) -> dict[str, str]:
    found = {} if is_open else subject.menu_address(page.url_path, address.left(page.url_path) or {})
    kept = page_state().kept
    along = {key: value for key in kept if (value := address.parameter(key))}
    return {key: value for key, value in found.items() if key not in kept} | along
