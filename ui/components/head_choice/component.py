"""Head choice: the kind of attention, layer and head of the page's record that is shown, and what is known of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from transformer.plots.canvas.views import Known, Link, Picker, head_choice_header
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import TOLD, Local

component = CanvasComponent("head_choice")


def head_choice(
    local: Local,
    pickers: tuple[Picker, Picker, Picker],
    known: Mapping[str, Sequence[Known]],
    links: Sequence[Link],
    *,
    drawn: tuple[str, int, int | None],
    key: str,
    followed: bool = False,
) -> None:
    """Buttons for the kind, the layer and the head (the last of them the mean), and what is known of the chosen head.

    Where the record's layers have names that tell the kind too, there are none for the kind.

    A choice is written behind # in the address by the browser, and every component of the page that draws from the
    record follows; no run is started. `known` holds, by site, one entry a head. `links` are shown whatever the head is.

    It is `followed` where the server draws something that depends on the choice: `drawn` is the kind, layer and head
    (None: the mean) that it draws. Once another one is chosen, and none for a quarter of a second, a run starts.
    """
    component(
        key=key,
        header={**local.message(), **head_choice_header(pickers, known, links)},
        arrays={},
        options={"asks": followed, "drawn": list(drawn)},
        events={"asked": _ask if followed else None},
    )


def _ask(chosen: Any) -> None:
    """The run that this starts takes what stands behind # in the address."""
    st.session_state[TOLD] = chosen
