"""The switchboard: every head as a thumbnail of what it looks at; a click switches it off, and on again."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import streamlit as st
from jaxtyping import Bool, Float

from transformer import Record
from transformer.plots.canvas.about import About
from transformer.sites import Site
from ui.components.all_heads.component import LARGEST_SIDE, all_heads
from ui.shared import changes as changes_
from ui.shared.changes import Changes
from ui.shared.controls import MEAN, Selection, kind_name, kind_title, kinds
from ui.shared.files import Origin
from ui.texts import plain, t


def switchboard(record: Record, choice: Selection, changes: Changes, action: str, origin: Origin) -> None:
    """The heads of one kind of attention, with those that are off crossed out; `action` is what a click does."""
    sites = kinds(record)[choice.kind]
    layers = [record[site] for site in sites]
    pictures = [
        [one.picture(head, choice.words, choice.special).reduced(LARGEST_SIDE) for head in range(one.n_heads)]
        for one in layers
    ]
    board(
        record, sites, np.array([[picture.values for picture in row] for row in pictures]), changes, action,
        visible=np.logical_or.reduce([row[0].visible for row in pictures]),
        selected=None if choice.head == MEAN else (choice.layer, int(choice.head)),
        file_name=origin.stem("all-heads", choice.kind),
        about=origin.about(plain("files.all_heads", kind=kind_title(choice.kind)), pictures[0][0]),
    )  # fmt: skip


def board(
    record: Record,
    sites: Sequence[Site],
    thumbnails: Float[np.ndarray, "layer head query key"],
    changes: Changes,
    action: str,
    *,
    visible: Bool[np.ndarray, "query key"] | None = None,
    selected: tuple[int, int] | None,
    file_name: str,
    about: About,
    axis: str | None = None,
) -> None:
    """Thumbnails of every head of some sites; `axis` is what both of their axes are called."""
    off = changes_.heads_off(changes, record)
    st.markdown(f"**{t('what_if.switchboard')}**")
    all_heads(
        thumbnails,
        visible,
        row_names=[f"L{i}" for i in range(len(sites))],
        column_names=[f"H{i}" for i in range(thumbnails.shape[1])],
        selected=selected,
        off={(sites.index(site), head): way_name(how) for (site, head), how in off.items() if site in sites},
        on_pick=lambda picked: changes_.turn(record, [(sites[picked.layer], picked.head)], action),
        key="switchboard",
        query_axis=axis,
        key_axis=axis,
        file_name=file_name,
        about=about,
    )


def switches(record: Record, kind: str, action: str) -> None:
    """A button for each layer of a kind of attention, and one for all of it; and what the thumbnails are."""
    st.caption(t("what_if.switchboard_help"))
    sites = kinds(record)[kind]
    with st.container(horizontal=True, gap="xsmall"):
        for layer, site in enumerate(sites):
            turn = turned(record, every_head(record, [site]), action)
            st.button(t("what_if.layer_switch", layer=layer), key=f"switch-{layer}", on_click=turn)
        turn = turned(record, every_head(record, sites), action)
        st.button(t("what_if.kind_switch", kind=kind_name(kind)), key="switch-kind", on_click=turn)


def turned(record: Record, heads: Iterable[tuple[str, int]], action: str) -> Callable[[], None]:
    """Switches several heads off, and on again, at a click."""
    return partial(changes_.turn, record, list(heads), action)


def way_name(action: str) -> str:
    """What an action that switches a head off is called, in a word."""
    return plain(f"what_if.way_{action}")


def every_head(record: Record, sites: Sequence[str]) -> list[tuple[str, int]]:
    """Site and head of every head of some sites."""
    return [(site, head) for site in sites for head in range(record[site].n_heads)]
