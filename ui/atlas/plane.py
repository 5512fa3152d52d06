"""The heads of a kind by how alike they attend: in a plane, and in a tree that the reader cuts."""

import numpy as np
import streamlit as st

from transformer.atlas.layout import average_linkage, classical_mds, clusters, distance_matrix
from transformer.atlas.roles import line_of
from transformer.plots.export import PLOT_CONFIG
from transformer.plots.heads import plane_of_heads, tree_of_heads
from ui.atlas import choices
from ui.shared.address import hundredths
from ui.shared.theme import is_dark
from ui.store.atlases import Atlas, Row
from ui.texts import plain, said, t

USUAL_CUT = 0.5
"""Where the tree is cut at first."""


def map_panel(atlas: Atlas, group: str) -> None:
    """The plane beside the tree; moving the cut colours both anew."""
    rows = atlas.groups[group]
    if len(rows) < 3:
        st.info(t("atlas.map_few", count=len(rows)))
        return
    distances = distances_of(atlas, rows)
    tree = average_linkage(distances)
    cut = hundredths(t("atlas.cut"), 0.0, 0.83, USUAL_CUT, key="cut", width=320, help=t("atlas.cut_help"))
    groups = clusters(tree, cut)
    places, share = classical_mds(distances)
    names = [choices.head_name(row) for row in rows]
    left, right = st.columns(2, gap="medium")
    with left:
        st.plotly_chart(
            plane_of_heads(places, names, groups, [said(line_of(row)) for row in rows], dark=is_dark()),
            key="atlas-map", on_select=lambda: _open(rows), selection_mode="points", config=PLOT_CONFIG,
        )  # fmt: skip
        st.caption(t("atlas.map_note", percent=round(100 * share)))
    with right:
        st.plotly_chart(
            tree_of_heads(tree, names, groups, cut, axis=plain("atlas.distance"), dark=is_dark()),
            key="atlas-tree", config=PLOT_CONFIG,
        )  # fmt: skip
        st.caption(t("atlas.tree_note", groups=len(set(groups.tolist()))))


def distances_of(atlas: Atlas, rows: list[Row]) -> np.ndarray:
    """The distances between heads of one kind."""
    known = [pair["distance"] for pair in atlas.pairs if pair["group"] == rows[0]["group"]]
    return distance_matrix(len(rows), np.array(known))


def _open(rows: list[Row]) -> None:
    for point in st.session_state["atlas-map"].selection.points[:1]:
        choices.open_head(rows[int(point["customdata"])])
