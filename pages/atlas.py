"""Head atlas: what every head of a checkpoint does over a whole corpus, as cards, a table, and head by head."""

from collections.abc import Callable

import streamlit as st

from ui import shell
from ui.atlas import head, heads, own
from ui.shared import address
from ui.shared.part import in_page, part
from ui.texts import t

SLOW = "own"
"""The screen whose work a button stops."""

shell.heading(t("atlas.title"), t("atlas.intro"))
with shell.explained():
    entry = heads.entry()


def screens() -> None:
    """The open screen; what it shows is looked up anew, since a part keeps nothing."""
    found = heads.atlas_of(entry)
    if found is None:  # one that the session has given up since the page was drawn
        in_page()
        return
    name, atlas = found
    panels: dict[str, Callable[[], None]] = {
        "cards": lambda: heads.cards_panel(name, atlas, kind),
        "head": lambda: head.head_panel(name, atlas),
        "table": lambda: heads.table_panel(name, atlas, kind),
        SLOW: lambda: own.own_panel(name),
    }
    about, kind = st.container(), heads.ALL
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="atlas-choice"):
        screen = address.named("atlas.screen", list(panels), key=heads.SCREEN, bare=True)
        if screen in {"cards", "table"}:
            groups = [*([heads.ALL] if len(atlas.groups) > 1 else []), *atlas.groups]
            kind = address.named("atlas.kind", groups, key=heads.GROUP, form="list", width=190)
    if screen == SLOW:
        in_page()
    else:
        with about:
            heads.source(atlas)
    panels[screen]()


if address.parameter(heads.SCREEN) == SLOW:
    with shell.explained():
        screens()
else:
    part(screens)
