"""The heads of a kind in a tree, by how alike they attend; the reader cuts it."""

import numpy as np
import streamlit as st

from transformer.atlas.layout import average_linkage, clusters, distance_matrix
from transformer.atlas.roles import line_of
from transformer.plots.export import PLOT_CONFIG
from transformer.plots.heads import tree_of_heads
from ui.atlas import choices
from ui.shared.address import hundredths
from ui.shared.theme import is_dark
from ui.store.atlases import Atlas, Row
from ui.texts import plain, said, t

USUAL_CUT = 0.5
"""Where the tree is cut at first."""

CHART = "atlas-tree"


def tree_panel(atlas: Atlas, group: str) -> None:
    """The tree; moving the cut colours it anew, a click on a leaf opens the head's page."""
    rows = atlas.groups[group]
    if len(rows) < 3:
        st.info(t("atlas.map_few", count=len(rows)))
        return
    tree = average_linkage(distances_of(atlas, rows))
    cut = hundredths(t("atlas.cut"), 0.0, 0.83, USUAL_CUT, key="cut", width=320, help=t("atlas.cut_help"))
    groups = clusters(tree, cut)
    st.plotly_chart(
        tree_of_heads(
            tree, [choices.short_name(row) for row in rows], [said(line_of(row)) for row in rows], groups, cut,
            axis=plain("atlas.distance"), dark=is_dark(),
        ),
        key=CHART, on_select=lambda: _open(rows), selection_mode="points", config=PLOT_CONFIG,
    )  # fmt: skip
    st.caption(t("atlas.tree_note", groups=len(set(groups.tolist()))), help=t("atlas.tree_help"))


def distances_of(atlas: Atlas, rows: list[Row]) -> np.ndarray:
    """The distances between heads of one kind."""
    known = [pair["distance"] for pair in atlas.pairs if pair["group"] == rows[0]["group"]]
    return distance_matrix(len(rows), np.array(known))


def _open(rows: list[Row]) -> None:
    for point in st.session_state[CHART].selection.points[:1]:
        if "customdata" in point:
            choices.open_head(rows[int(point["customdata"])])
