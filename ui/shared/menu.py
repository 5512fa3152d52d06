"""The menu of pages: it leads to each page as it was left, so that coming back shows what was there."""

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui.shared import address, last_checkpoint
from ui.shared.last_checkpoint import MODEL, ON_MAP
from ui.store import store
from ui.texts import KEY

LISTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "": (ON_MAP, store.ARCHITECTURES),
    "translate": (MODEL, store.TRANSLATORS),
    "sequences": (MODEL, ("kmer",)),
}
"""Pages whose list of checkpoints begins with the one that was chosen last, by their addresses: the list's query
parameter, and what it lists."""

_HEADING = "margin-top: .6rem; font-size: .875rem; opacity: .75;"


def chosen_page(sections: Mapping[str, Sequence[st.Page]], place: DeltaGenerator) -> st.Page:
    """Draw the menu at a place, and return the page that the address asks for.

    `sections` are pages by the heading of their section, in plain text.

    The links are our own since they carry addresses: one click is one entry of the browser's history. The link to the
    page that is open leads to that page as it is at first.
    """
    page = st.navigation({title: list(pages) for title, pages in sections.items()}, position="hidden")
    with place:
        for title, pages in sections.items():
            st.html(f'<div style="{_HEADING}">{escape(title)}</div>')
            for one in pages:
                st.page_link(one, query_params=_address(one, one.url_path == page.url_path), width="stretch")
    return page


def _address(page: st.Page, is_open: bool) -> dict[str, str]:
    found = None if is_open else address.left(page.url_path)
    if not is_open and page.url_path in LISTS and not address.is_decided(page.url_path, LISTS[page.url_path][0]):
        found = _first_address(page.url_path)
    spoken = address.parameter(KEY)
    return {**{key: value for key, value in (found or {}).items() if key != KEY}, **({KEY: spoken} if spoken else {})}


def _first_address(page: str) -> dict[str, str]:
    """The address of a page that was not visited yet: with the checkpoint that was chosen last, if it lists it."""
    chosen = last_checkpoint.last()
    if chosen is None:
        return {}
    key, architectures = LISTS[page]
    names = store.checkpoint_names(*architectures)
    return {key: chosen} if chosen in names and chosen != last_checkpoint.usual(names) else {}
