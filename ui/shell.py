"""The frame around every page."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap.errors import HeedmapError
from ui.path import strip
from ui.shared import address, controls, subject
from ui.shared.state import page_state
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
        if (!data.lit || root.dataset.lit !== data.lit || innerWidth < 640) return; // a phone has no room for both
        const [found, asked] = [data.lit, ".st-key-path-strip"].map((one) => document.querySelector(one));
        const [top, bottom] = [found?.getBoundingClientRect().top, asked?.getBoundingClientRect().bottom];
        if (top > 0.6 * innerHeight || top < bottom) {
          found.style.scrollMarginTop = `${bottom + 16}px`; // the question stays at the top
          found.scrollIntoView();
        }
        if (left) setTimeout(look, 250, found ? left - 1 : left); // what is drawn above it moves it
      };
      look(8);
    };""",
)
"""Tells the browser which language the page is in now, how it is drawn (`ui.path.strip.view`), and what the tour speaks
of, which it scrolls to once; `ui.frame` said the language of the address that it was opened with."""


def heading(title: str, line: str) -> None:
    """The page's title, a line that says what it shows, and the tour's strip, which may end the page here."""
    upload_guard.page_begins(page_state().page or "")
    above = st.container(key="path-above") if strip.step() else None
    if strip.view() != strip.PRESENT and above is None:
        st.title(title, anchor=False)
        st.caption(line)
    _LANGUAGE(key="language", data={"language": language(), "view": strip.view(), "lit": strip.lit()})
    if above is not None:
        with above:
            strip.strip()


@contextmanager
def explained(place: DeltaGenerator | None = None, *, model: str = "") -> Iterator[None]:
    """Inside, what is refused is explained (in `place`, where one is given), and the page ends there.

    A text that is too long for a `model` here is led to the page that shows it.
    """
    try:
        yield
    except HeedmapError as error:
        with place or nullcontext():
            controls.explain(error)
            if model:
                key = subject.PAGES[page_state().page or ""].text_key(model) or ""
                controls.explain_long(error, model, address.parameter(key) or "")
        address.stop()
