"""The frame around every page."""

import streamlit as st

from transformer.messages import speak
from ui.path import place, strip
from ui.shared.page_state import page_state
from ui.store import upload_guard
from ui.texts import language

_LANGUAGE = st.components.v2.component(
    "heedmap.language",
    js="""export default ({ data }) => {
      const root = document.documentElement;
      [root.lang, root.dataset.view] = [data.language, data.view];
      if (root.dataset.lit === data.lit) return;
      root.dataset.lit = data.lit;
      const look = (left) => {
        const found = data.lit && root.dataset.lit === data.lit && document.querySelector(data.lit);
        if (found && found.getBoundingClientRect().top > 0.6 * innerHeight) found.scrollIntoView({ block: "center" });
        if (left && data.lit) setTimeout(look, 250, left - 1); // what is drawn above it moves it
      };
      look(8);
    };""",
)
"""Tells the browser which language the page is in now, how it is drawn (`ui.path.place.view`), and what the tour speaks
of, which it scrolls to once; `ui.frame` said the language of the address that it was opened with."""


def heading(title: str, line: str) -> None:
    """The page's title, a line that says what it shows, and the tour's strip, which may end the page here.

    The library speaks the user's language from here on.
    """
    speak(language())
    upload_guard.page_begins(page_state().page or "")
    above = st.container() if place.step() else None
    if place.view() != place.PRESENT and above is None:
        st.title(title, anchor=False)
        st.caption(line)
    _LANGUAGE(key="language", data={"language": language(), "view": place.view(), "lit": strip.lit()})
    if above is not None:
        with above:
            strip.strip()
