"""Head atlas: what every head of a checkpoint does over a whole corpus, as cards, a table, a map, and head by head."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.atlas import cards, choices, compare, head, own, plane, table, vectors
from ui.shared import address, controls
from ui.texts import t

shell.heading(t("atlas.title"), t("atlas.intro"))
found = choices.checkpoint()
if found is None:
    address.stop()
name, atlas = found
panels: dict[str, Callable[[], None]] = {
    "cards": lambda: cards.cards_panel(name, atlas, choices.group(atlas)),
    "table": lambda: table.table_panel(name, atlas),
    "map": lambda: plane.map_panel(atlas, choices.group(atlas)),
    "vectors": lambda: vectors.vectors_panel(name, atlas),
    "compare": lambda: compare.compare_panel(name, atlas),
    "own": lambda: own.own_panel(name),
    "head": lambda: head.head_panel(name, atlas),
}
about = st.container()
screen = choices.screen()
if screen in choices.OF_THE_ATLAS:
    with about:
        choices.source(atlas)
try:
    panels[screen]()
except HeedmapError as error:
    controls.explain(error)
