"""Head atlas: what every head of a checkpoint does over a whole corpus, as cards, a table, a tree, and head by head."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.atlas import cards, choices, head, own, table, tree
from ui.shared import address, controls
from ui.shared.part import in_page, part
from ui.texts import t

SLOW = "own"
"""The screen whose work a button stops."""

shell.heading(t("atlas.title"), t("atlas.intro"))
chosen = choices.entry()
if chosen is None:
    address.stop()
entry: str = chosen  # also where it is used later, within a function


def screens() -> None:
    """The open screen; what it shows is looked up anew, since a part keeps nothing."""
    found = choices.atlas_of(entry)
    if found is None:  # one that the session has given up since the page was drawn
        in_page()
        return
    name, atlas = found
    panels: dict[str, Callable[[], None]] = {
        "cards": lambda: cards.cards_panel(name, atlas, kind),
        "table": lambda: table.table_panel(name, atlas),
        "map": lambda: tree.tree_panel(atlas, kind),
        SLOW: lambda: own.own_panel(name),
        "head": lambda: head.head_panel(name, atlas),
    }
    about = st.container()
    kind = choices.ALL
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="atlas-choice"):
        screen = choices.screen()
        if screen in {"cards", "map"}:
            kind = choices.group(atlas, every=screen == "cards")
    if screen == SLOW:
        in_page()
    if screen in choices.OF_THE_ATLAS:
        with about:
            choices.source(atlas)
    try:
        panels[screen]()
    except HeedmapError as error:
        controls.explain(error)


if address.parameter(choices.SCREEN) == SLOW:
    screens()
else:
    part(screens)
