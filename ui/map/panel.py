"""A part, opened: what it computes, this run's numbers, and the two ways on."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import streamlit as st

from transformer import Checkpoint
from transformer.explain.diagrams.diagram import Node
from ui.components.map.component import Part
from ui.map import choices, ways
from ui.map.drawing import Drawing, readable
from ui.map.prediction import prediction_panel
from ui.map.runs import Shown
from ui.markdown import as_text
from ui.shared.files import Origin, head_stem
from ui.shared.record_views import matrix
from ui.texts import t

LARGEST = 256
"""Queries or keys up to which a head is drawn cell by cell."""


def part_panel(
    name: str, checkpoint: Checkpoint, shown: Shown, text: str, found: Drawing, node: Node, step: int
) -> None:
    """The part `node`, large."""
    part = found.parts[found.numbers[node.name]]
    _breadcrumb(found, node, part)
    st.subheader(as_text(part.title), anchor=False)
    if part.formula:
        st.markdown(as_text(part.formula))
    head = _head(shown, node, step)
    panels: dict[str, Callable[[], None]] = {
        "attention": lambda: _attention(shown, node, head, name, text),
        "feed_forward": lambda: _units(shown, node),
        "sum": lambda: _sums(shown, node),
        "other": lambda: _sums(shown, node),
        "norm": lambda: _scales(shown, node),
        "output": lambda: prediction_panel(checkpoint, shown, step),
        "linear": lambda: _last_linear(checkpoint, shown, node, step),
        "input": lambda: _tokens(shown, node),
        "embedding": lambda: _tokens(shown, node),
    }
    panels.get(node.kind, lambda: st.caption(t("map.not_recorded")))()
    see, understand = ways.ways(name, checkpoint, shown, text, node, head)
    for label, one in (("map.see", see), ("map.understand", understand)):
        if one:
            st.markdown(f"**{t(label)}**")
            ways.links(one)
    for fact in part.facts:
        st.caption(as_text(fact))


def _breadcrumb(found: Drawing, node: Node, part: Part) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.button(
            t("map.title"), key="close-part", on_click=choices.close_part, type="tertiary",
            icon=":material/arrow_back:", help=t("map.close_help"),
        )  # fmt: skip
        st.caption(f"/ {as_text(found.wheres[node.name])} / {as_text(part.title)}", width="content")


def _head(shown: Shown, node: Node, step: int) -> int:
    """The head that is shown: the one that was picked, or the surest at this step; 0 where there is none."""
    if node.site is None or node.site not in shown.record:
        return 0
    attention = shown.record[node.site]
    if attention.n_heads == 1:
        return 0
    every = attention.all_weights()
    rows = every[:, step] if 0 <= step < attention.shape[0] else every.reshape(len(every), -1)
    return choices.head(attention.n_heads, int(np.nan_to_num(rows).max(axis=-1).argmax()))


def _attention(shown: Shown, node: Node, head: int, name: str, text: str) -> None:
    if node.site is None or node.site not in shown.record:
        st.caption(t("map.not_run"))
        return
    attention = shown.record[node.site]
    if max(attention.shape) > LARGEST:
        st.caption(t("map.too_long", most=LARGEST))
        return
    picture = attention.picture(head)
    origin = Origin(name, text)
    matrix(picture, key="part-heatmap", stem=origin.stem(*head_stem(picture)), facts=origin.facts())
    st.caption(t("translate.axes", queries=picture.queries.name, keys=picture.keys.name))


def _units(shown: Shown, node: Node) -> None:
    found = shown.flow.activity.get(node.name)
    if found is None:
        st.caption(t("map.not_watched"))
        return
    labels = _positions(shown, node, len(found.active))
    table = {
        t("map.token"): labels,
        t("map.active"): found.active,
        t("map.strongest"): [
            ", ".join(f"{unit}: {value:.2f}" for unit, value in zip(units, values, strict=True))
            for units, values in zip(found.units[:, :3], found.values[:, :3], strict=True)
        ],
    }
    _table(table, {t("map.active")})


def _sums(shown: Shown, node: Node) -> None:
    found = shown.flow.shares.get(node.name) or shown.flow.shares.get(node.block)
    if found is None:
        st.caption(t("map.not_watched"))
        return
    table = {
        t("map.token"): _positions(shown, node, len(found.share)),
        t("map.state"): found.state,
        t("map.found"): found.found,
        t("map.share"): found.share,
    }
    _table(table, {t("map.share")})
    st.caption(t("map.share_note"))


def _scales(shown: Shown, node: Node) -> None:
    found = shown.flow.scales.get(node.name)
    if found is None:
        st.caption(t("map.not_watched"))
        return
    _table({t("map.token"): _positions(shown, node, len(found)), t("map.scale"): found}, set())


def _last_linear(checkpoint: Checkpoint, shown: Shown, node: Node, step: int) -> None:
    nodes = [one.name for one in shown.flow.diagram.nodes if one.kind == "linear"]
    if shown.next and nodes[-1] == node.name:
        prediction_panel(checkpoint, shown, step)
    else:
        st.caption(t("map.not_recorded"))


def _tokens(shown: Shown, node: Node) -> None:
    labels = shown.read if node.reads[0] == "target" and shown.read else shown.source
    _table({t("map.token"): [readable(label) for label in labels]}, set())


def _positions(shown: Shown, node: Node, count: int) -> list[str]:
    """What stands at each position that a part works on."""
    for labels in (shown.read if node.gives[0] == "target" else (), shown.source, shown.steps):
        if len(labels) == count:
            return [readable(label) for label in labels]
    return [str(number) for number in range(count)]


def _table(columns: dict[str, object], shares: set[str]) -> None:
    config = {
        name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="%.2f")
        if name in shares
        else st.column_config.Column(name)
        for name in columns
    }
    table = pd.DataFrame(columns)
    st.dataframe(
        table, hide_index=True, key="part-table", column_config=config, height="content" if len(table) < 16 else 560
    )
