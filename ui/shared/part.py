"""A part of a page that draws itself again without the rest, when one of its own controls is moved.

The rest of the page is as it was then, and so is what stands in the address for it. A part writes the address as a page
does: once, at its end. What has a session draw less lets more sessions act at once.
"""

from collections.abc import Callable

import streamlit as st

from transformer.messages import speak
from ui.shared import address
from ui.store import turns
from ui.texts import language


def part(draw: Callable[[], None]) -> None:
    """Draw a part of the page, now within the page's run, and by itself whenever a control that it draws is moved.

    It may draw in containers that were made before it. What it reads from the page's run must not need more memory than
    its names: it is kept for as long as the session shows the page. Called once in a run.
    """

    @st.fragment
    def again() -> None:
        speak(language())
        with turns.turn(), address.run_of_part():
            draw()

    again()
