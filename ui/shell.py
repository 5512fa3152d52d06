"""The frame around every page."""

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from transformer.messages import speak
from ui.store import arrivals
from ui.texts import language

_STYLE = """
<style>
[data-testid="stMainBlockContainer"] { padding: 2.6rem 2rem 4rem; max-width: 110rem; }
@media (max-width: 640px) { [data-testid="stMainBlockContainer"] { padding: 2.6rem .8rem 3rem; } }
</style>
"""


def heading(title: str, line: str) -> None:
    """The page's title, and one line that says what it shows; the library speaks the user's language from here on."""
    _around_every_page()
    speak(language())
    arrivals.page_begins()
    st.html(_STYLE)
    st.title(title, anchor=False)
    st.caption(line)


def _around_every_page() -> None:
    """Start again with app.py around the page when Streamlit has run the page alone.

    Until `st.navigation` has been called once, Streamlit takes a folder `pages/` for its older kind of app. So the
    first visit after a start, when it is a link to a page, would see a page without navigation and language.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()
