"""Changes worth trying, as the checkpoint's own file lists them: three pictures of what each does to the answer."""

from collections.abc import Callable
from functools import partial
from typing import Final

import streamlit as st

from transformer import Checkpoint
from transformer.checkpoint.checkpoint import ChangedExample
from ui.markdown import as_text
from ui.shared.address import put
from ui.shared.changes import CHANGES, DONOR
from ui.texts import language, t

OPEN: Final = "try-this"
"""Whether the list is open, in the session's state."""

SHOWN = 3


def try_this(checkpoint: Checkpoint, text_key: str, picture: Callable[[ChangedExample], None]) -> None:
    """A list that closes on a choice, which puts text and changes into the address; `picture` draws what one does.

    `text_key` is the query parameter of the text. Nothing of the list runs before it is opened.
    """
    if not checkpoint.changed_examples:
        return
    with st.popover(t("what_if.try_this"), icon=":material/lightbulb:", key=OPEN, on_change="rerun") as found:
        if not found.open:
            return
        for number, example in enumerate(checkpoint.changed_examples[:SHOWN]):
            with st.container(border=True, gap="xsmall"):
                st.button(
                    as_text(example.names.get(language(), str(number + 1))), key=f"try-{number}", width="stretch",
                    on_click=partial(_take, example, text_key),
                )  # fmt: skip
                picture(example)


def _take(example: ChangedExample, text_key: str) -> None:
    """Done as the list says, and the list is closed."""
    st.session_state[OPEN] = False
    put(**{text_key: example.text, "force": None, CHANGES: example.change, DONOR: example.donor or None})
