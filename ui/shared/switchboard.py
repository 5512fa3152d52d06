"""The switchboard: every head as a thumbnail of what it looks at; a click switches it off, and on again."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from transformer import Record
from ui.components.all_heads.component import LARGEST_SIDE, all_heads
from ui.shared import changes as changes_
from ui.shared.changes import Changes
from ui.shared.controls import MEAN, Selection, kind_name, kind_title, kinds
from ui.shared.files import Origin
from ui.texts import plain, t


def switchboard(record: Record, choice: Selection, changes: Changes, action: str, origin: Origin) -> None:
    """The heads of one kind of attention, with those that are off crossed out; and switches for layers and kinds.

    `action` is what a click does to a head that is on.
    """
    sites = kinds(record)[choice.kind]
    layers = [record[site] for site in sites]
    pictures = [
        [one.picture(head, choice.words, choice.special).reduced(LARGEST_SIDE) for head in range(one.n_heads)]
        for one in layers
    ]
    off = changes_.heads_off(changes, record)
    st.markdown(f"**{t('what_if.switchboard', way=way_name(action))}**", help=t("what_if.switchboard_help"))
    all_heads(
        np.array([[picture.values for picture in row] for row in pictures]),
        np.logical_or.reduce([row[0].visible for row in pictures]),
        row_names=[f"L{i}" for i in range(len(layers))],
        column_names=[f"H{i}" for i in range(layers[0].n_heads)],
        selected=None if choice.head == MEAN else (choice.layer, int(choice.head)),
        off={(sites.index(site), head): way_name(how) for (site, head), how in off.items() if site in sites},
        on_pick=lambda picked: changes_.turn(record, [(sites[picked.layer], picked.head)], action),
        key="switchboard",
        file_name=origin.stem("all-heads", choice.kind),
        about=origin.about(plain("files.all_heads", kind=kind_title(choice.kind)), pictures[0][0]),
    )
    with st.container(horizontal=True, gap="xsmall"):
        for layer, site in enumerate(sites):
            turn = partial(changes_.turn, record, _every_head(record, [site]), action)
            st.button(t("what_if.layer_switch", layer=layer), key=f"switch-{layer}", on_click=turn)
        turn = partial(changes_.turn, record, _every_head(record, sites), action)
        st.button(t("what_if.kind_switch", kind=kind_name(choice.kind)), key="switch-kind", on_click=turn)


def way_name(action: str) -> str:
    """What an action that switches a head off is called, in a word."""
    return plain(f"what_if.way_{action}")


def _every_head(record: Record, sites: Sequence[str]) -> list[tuple[str, int]]:
    return [(site, head) for site in sites for head in range(record[site].n_heads)]
