"""A part, opened: what it computes, this run's numbers, and the two ways on."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import streamlit as st
import torch
from jaxtyping import Float

from transformer import Checkpoint
from transformer.explain.diagrams.diagram import Node
from ui.components.map.component import Part
from ui.map import choices, ways
from ui.map.drawing import Drawing, readable
from ui.map.prediction import prediction_panel
from ui.map.runs import Shown, read_ids
from ui.markdown import as_text
from ui.shared.files import Origin, head_stem
from ui.shared.record_views import matrix
from ui.texts import plain, t

LARGEST = 256
"""Queries or keys up to which a head is drawn cell by cell."""

NEAREST, BEGINNING = 2, 3
"""Neighbours of a token that are listed, and numbers of its vector."""


def part_panel(
    name: str, checkpoint: Checkpoint, shown: Shown, text: str, found: Drawing, node: Node, step: int, source: int
) -> None:
    """The part `node`, large: what it does, what it did here, and the two ways on."""
    part = found.parts[found.numbers[node.name]]
    _breadcrumb(found, node, part)
    st.subheader(as_text(part.title), anchor=False)
    if part.plain:
        st.markdown(as_text(part.plain))
    at = step if found.is_last(node.name) else source
    head = _head(shown, node, at)
    panels: dict[str, Callable[[], None]] = {
        "attention": lambda: _attention(shown, node, head, at, name, text),
        "feed_forward": lambda: _units(shown, node, at),
        "sum": lambda: _sums(shown, node, at),
        "other": lambda: _sums(shown, node, at),
        "norm": lambda: _scales(shown, node, at),
        "output": lambda: prediction_panel(checkpoint, shown, step, is_narrow=True),
        "linear": lambda: _last_linear(checkpoint, shown, node, step),
        "input": lambda: _tokens(checkpoint, shown, node),
        "embedding": lambda: _tokens(checkpoint, shown, node),
        "positions": lambda: _places(checkpoint, shown, node),
    }
    panels.get(node.kind, lambda: st.caption(t("map.not_recorded")))()
    if part.formula:
        st.markdown(as_text(part.formula))
    see, understand = ways.ways(name, checkpoint, shown, text, node, head)
    for label, one in (("map.see", see), ("map.understand", understand)):
        if one:
            st.markdown(f"**{t(label)}**")
            ways.links(one)
    st.caption(as_text(plain("map.period").join(part.facts)))


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


def _attention(shown: Shown, node: Node, head: int, at: int, name: str, text: str) -> None:
    if node.site is None or node.site not in shown.record:
        st.caption(t("map.not_run"))
        return
    attention = shown.record[node.site]
    if max(attention.shape) > LARGEST:
        st.caption(t("map.too_long", most=LARGEST))
        return
    picture = attention.picture(head)
    if 0 <= at < attention.shape[0]:
        key = int(np.nan_to_num(picture.values[at]).argmax())
        query, read = (readable(axis.texts[i]) for axis, i in ((picture.queries, at), (picture.keys, key)))
        st.markdown(as_text(plain("map.now_attention", word=query, head=head, key=read, share=picture.values[at, key])))
    origin = Origin(name, text)
    matrix(picture, key="part-heatmap", stem=origin.stem(*head_stem(picture)), facts=origin.facts())
    st.caption(t("translate.axes", queries=picture.queries.name, keys=picture.keys.name))


def _units(shown: Shown, node: Node, at: int) -> None:
    found = shown.flow.activity.get(node.name)
    if found is None:
        st.caption(t("map.not_watched"))
        return
    labels = _positions(shown, node, len(found.active))
    size = dict(node.sizes).get("d_ff", 0)
    if size and 0 <= at < len(labels):
        count = round(float(found.active[at]) * size)
        st.markdown(as_text(plain("map.now_feed_forward", word=labels[at], count=count, size=size)))
    table = {
        t("map.token"): labels,
        t("map.active"): found.active,
        t("map.strongest"): [
            ", ".join(f"{unit}: {value:.2f}" for unit, value in zip(units, values, strict=True) if value > 0)
            for units, values in zip(found.units[:, :2], found.values[:, :2], strict=True)
        ],
    }
    _table(table, {t("map.active")})


def _sums(shown: Shown, node: Node, at: int) -> None:
    found = shown.flow.shares.get(node.name) or shown.flow.shares.get(node.block)
    if found is None:
        st.caption(t("map.not_watched"))
        return
    labels = _positions(shown, node, len(found.share))
    if 0 <= at < len(labels):
        here = {"found": found.found[at], "state": found.state[at], "share": found.share[at]}
        st.markdown(as_text(plain("map.now_sum", word=labels[at], **here)))
    table = {
        t("map.token"): labels,
        t("map.share"): found.share,
        t("map.state"): found.state,
        t("map.found"): found.found,
    }
    _table(table, {t("map.share")})
    st.caption(t("map.share_note"))


def _scales(shown: Shown, node: Node, at: int) -> None:
    found = shown.flow.scales.get(node.name)
    if found is None:
        st.caption(t("map.not_watched"))
        return
    labels = _positions(shown, node, len(found))
    if 0 <= at < len(labels):
        st.markdown(as_text(plain("map.now_norm", word=labels[at], scale=found[at])))
    _table({t("map.token"): labels, t("map.scale"): found}, set())


def _last_linear(checkpoint: Checkpoint, shown: Shown, node: Node, step: int) -> None:
    nodes = [one.name for one in shown.flow.diagram.nodes if one.kind == "linear"]
    if shown.next and nodes[-1] == node.name:
        prediction_panel(checkpoint, shown, step, is_narrow=True)
    else:
        st.caption(t("map.not_recorded"))


def _tokens(checkpoint: Checkpoint, shown: Shown, node: Node) -> None:
    """Each token with its id and, of an embedding, the beginning of its vector and its neighbours in the table."""
    labels, ids = _read(checkpoint, shown, node)
    columns: dict[str, object] = {t("map.token"): labels, t("map.id"): ids}
    table = dict(checkpoint.model.named_parameters()).get(next(iter((*node.owns, *node.shares)), ""))
    reader = checkpoint.writer if node.reads[0] == "target" and shown.read else checkpoint.tokenizer
    if node.kind == "embedding" and table is not None and table.dim() == 2 and max(ids, default=-1) < len(table):
        rows = table.detach()[ids]
        if reader is not None and len(reader) == len(table):
            near = torch.nn.functional.cosine_similarity(rows[:, None], table.detach()[None], dim=-1)
            near[torch.arange(len(ids)), ids] = -1.0
            best = near.topk(NEAREST, dim=-1).indices.tolist()
            columns[t("map.nearest")] = [", ".join(map(readable, reader.labels(row))) for row in best]
        columns[t("map.vector")] = _beginnings(rows)
    _table(columns, set())


def _places(checkpoint: Checkpoint, shown: Shown, node: Node) -> None:
    """What is added at each place: the beginning of its vector."""
    labels, _ = _read(checkpoint, shown, node)
    known = dict(checkpoint.model.named_modules())
    if node.name not in known or not isinstance(node.gives[-1], int):
        st.caption(t("map.not_recorded"))
        return
    added = known[node.name](torch.zeros(1, len(labels), node.gives[-1]))[0].detach()
    _table({t("map.place"): range(len(labels)), t("map.token"): labels, t("map.vector"): _beginnings(added)}, set())


def _read(checkpoint: Checkpoint, shown: Shown, node: Node) -> tuple[list[str], list[int]]:
    """What a part at the foot of a tower reads, and the ids of it."""
    if shown.translation is None:
        return [readable(label) for label in shown.source], list(shown.ids)
    is_target = node.reads[0] == "target"
    labels = shown.read if is_target else shown.source
    ids = read_ids(checkpoint, shown.translation) if is_target else shown.translation.source_ids
    return [readable(label) for label in labels], list(ids)


def _beginnings(rows: Float[torch.Tensor, "token feature"]) -> list[str]:
    """The first numbers of each row."""
    return [" ".join(f"{value:.2f}" for value in row[:BEGINNING]) + " …" for row in rows.tolist()]


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
