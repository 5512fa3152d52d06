"""A part of a page that draws itself again without the rest, when one of its own controls is moved.

The rest of the page is as it was then, and so is what stands in the address for it. A part writes the address as a page
does: once, at its end. What has a session draw less lets more sessions act at once.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import streamlit as st

from heedmap.errors import HeedmapError
from heedmap.messages import speak
from ui.shared import controls
from ui.shared.address import PageEndError
from ui.shared.state import opened, page_state
from ui.store import progress, refs, render_slots
from ui.texts import asked_language


def in_page() -> None:
    """Say that what follows is drawn by the page's own run: where a part draws, the whole page is drawn instead.

    For work that a button stops: what is pressed in a part does not interrupt a run. The page's next run draws without
    parts, and the one after it has them again, since the work is done by then.
    """
    if page_state().run.is_in_part:
        page_state().wants_whole = True
        st.rerun()


def anew() -> NoReturn:
    """Draw what runs again: the part where it draws by itself, else the page. For what stands above what changes it."""
    st.rerun(scope="fragment" if page_state().run.is_alone else "app")


def part(draw: Callable[[], None], *keys: str, every: float | None = None) -> None:
    """Draw a part of the page, now within the page's run, and by itself whenever a control that it draws is moved.

    It may draw in containers that were made before it, in which it has drawn something in the page's run. What it reads
    from the page's run must not need more memory than its names: it is kept for as long as the session shows the page.
    Work that a button stops (`ui.store.progress`) is done by the page. A container holds one part at most.

    A part may stand within another one: then `keys` are all the keys of the address that it follows and nothing else
    does, and a click in it that writes any other has the whole page drawn. What it cannot draw is explained there.
    It draws itself again `every` so many seconds, if that is said: work of the server's goes on meanwhile.
    """

    @st.fragment(run_every=every)
    def again() -> None:
        speak(asked_language())
        with render_slots.turn(), refs.one_look(), _run(keys), progress.heard(in_page):
            drawn()

    def drawn() -> None:
        try:
            draw()
        except HeedmapError as error:  # it would not come out of a part, to what the page does with it
            controls.explain(error)

    (drawn if page_state().run.is_whole else again)()


@contextmanager
def _run(keys: Collection[str]) -> Iterator[None]:
    """The frame of a part, within the page's run or in a run of its own.

    What concerns the rest of the page too makes all of it be drawn instead: other keys than `keys`, if there are any.
    """
    with opened() as here:
        alone = not here.run.is_under_way
        if alone and not here.go_on(keys):
            st.rerun()
        before = here.run.is_in_part, here.run.is_alone
        here.run.is_in_part, here.run.is_alone = True, alone or here.run.is_alone
        try:
            with suppress(PageEndError):
                yield
        finally:
            here.run.is_in_part, here.run.is_alone = before
            if alone:
                here.end()
