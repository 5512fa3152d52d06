"""Inside a checkpoint, without running it: its modules, each tensor in numbers, what heads can do, what moved."""

from contextlib import suppress

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from transformer import Checkpoint
from transformer.checkpoint.inspect.circuits import head_circuits, neighbours
from transformer.checkpoint.inspect.compare import TensorComparison
from transformer.checkpoint.inspect.tensors import Inspection, ModuleNode, TensorSummary
from transformer.errors import HeedmapError, InputError
from transformer.plots.bars import histogram
from transformer.plots.export import PLOT_CONFIG
from transformer.plots.lessons import curves
from transformer.safe.contents import shape_text
from transformer.text.base import Tokenizer
from ui.checkpoints import contents
from ui.markdown import as_text
from ui.shared import address
from ui.shared.address import choice, line
from ui.shared.files import frame_csv
from ui.shared.theme import is_dark
from ui.store import store
from ui.texts import plain, t

ROWS = 60
"""Neighbours and changes that are shown at most; the files hold all."""

NEIGHBOURS = 10

TENSOR = "tensor"
"""The query parameter of the tensor whose histogram is shown."""

ASKED_FOR = "looked-through"
"""The file whose numbers the user asked for, until they are looked through."""


def tensors_panel(name: str) -> None:
    """The tree of modules, every tensor in numbers, one tensor's histogram.

    Raises:
        CheckpointError: the weights cannot be read.
    """
    found = contents.inspection(name)
    if found is None:
        _outline(name)
        return
    counted = t("checkpoints.counted", tensors=len(found.tensors), numbers=found.n_parameters)
    st.markdown(f"**{as_text(found.format)}** · {found.file_bytes / 1e6:,.1f} MB · {counted}")
    flagged = [tensor for tensor in found.tensors if tensor.flags]
    if any(tensor.n_not_finite for tensor in flagged):
        names = ", ".join(tensor.name for tensor in flagged if tensor.n_not_finite)
        st.error(t("checkpoints.not_finite", names=names), icon=":material/error:")
    if found.tied:
        st.info(t("checkpoints.tied", groups="; ".join(" = ".join(group) for group in found.tied)))
    table = _table(found)
    named = {tensor.name: tensor for tensor in found.tensors}
    address.belong_to(name, TENSOR)

    def keep() -> None:
        rows = st.session_state["tensors"]["selection"]["rows"]
        address.set_parameter(TENSOR, found.tensors[rows[0]].name if rows else None)

    st.dataframe(
        table,
        hide_index=True,
        key="tensors",
        height=360,
        on_select=keep,
        selection_mode="single-row",
        column_config={column: st.column_config.NumberColumn(format="compact") for column in _numbers()},
    )
    shown = named.get(address.parameter(TENSOR) or "", _first(found))
    st.plotly_chart(
        histogram(
            shown.counts, shown.edges, f"{shown.name} · {shape_text(shown.shape)} · {shown.dtype}",
            plain("checkpoints.value"), plain("checkpoints.numel"), dark=is_dark(),
        ),
        key="histogram",
        config=PLOT_CONFIG,
    )  # fmt: skip
    st.caption(t("checkpoints.histogram_note"))
    with st.expander(t("checkpoints.tree"), icon=":material/account_tree:"):
        st.code(_tree(found.tree), language=None)
    st.download_button(
        t("checkpoints.tensors_csv"), lambda: frame_csv(table), "tensors.csv", "text/csv", on_click="ignore"
    )


def _outline(name: str) -> None:
    """What a stranger's file says of its tensors; their numbers are looked through when that is asked for.

    Raises:
        CheckpointError: the weights cannot be read, or looking through them takes too much.
    """
    tensors = store.contents(name).tensors
    label, icon = t("checkpoints.look_through"), ":material/query_stats:"
    st.button(label, icon=icon, type="primary", key="look-through", on_click=_ask_for, args=(name,))
    if st.session_state.pop(ASKED_FOR, None) == name:  # taken off at once: any other run ends this one
        bar = st.progress(0.0, t("checkpoints.looking"))
        st.button(t("checkpoints.stop"), icon=":material/stop_circle:", key="stop-looking")
        contents.look_through(name, lambda done: _move(bar, done))
        st.rerun()
    st.caption(t("checkpoints.look_through_note"))
    rows = [
        (one, shape_text(tuple(tensor.shape)), str(tensor.dtype).removeprefix("torch."), tensor.numel(), tensor.nbytes)
        for one, tensor in tensors.items()
    ]
    columns = [t(f"checkpoints.{column}") for column in ("tensor", "shape", "dtype", "numel", "bytes")]
    st.dataframe(
        pd.DataFrame(rows, columns=columns),
        hide_index=True,
        key="outline",
        height=360,
        column_config={column: st.column_config.NumberColumn(format="compact") for column in columns[3:]},
    )


def _ask_for(name: str) -> None:
    st.session_state[ASKED_FOR] = name


def _move(bar: DeltaGenerator, done: float) -> None:
    """Show how far it is. The framework ends the run here when the user has left or pressed something."""
    bar.progress(min(1.0, done), t("checkpoints.looking"))


def circuits_panel(name: str, checkpoint: Checkpoint) -> None:
    """What each head can compare and write; which tokens the embedding puts close."""
    found = contents.circuits(name, lambda: head_circuits(checkpoint.model))
    if found:
        site = choice(t("checkpoints.site"), [one.site for one in found], key="site", form="list", text=str, width=260)
        one = next(one for one in found if one.site == site)
        left, right = st.columns(2)
        with left:
            st.markdown(f"**{t('checkpoints.compares')}**")
            st.plotly_chart(_spectra(one.compares), key="compares", config=PLOT_CONFIG)
        with right:
            st.markdown(f"**{t('checkpoints.writes')}**")
            st.plotly_chart(_spectra(one.writes), key="writes", config=PLOT_CONFIG)
        st.caption(t("checkpoints.circuits_note"))
    else:
        st.info(t("checkpoints.no_circuits"))
    _neighbours(checkpoint)


def compare_panel(name: str, others: list[str]) -> None:
    """Which tensors moved from one checkpoint to another, and by how much.

    Raises:
        CheckpointError: one of them cannot be read.
    """
    if not others:
        st.info(t("checkpoints.nothing_to_compare"))
        return
    usual, shared = _nearest(name, others)
    if not shared:
        st.info(t("checkpoints.no_relative"), icon=":material/info:")
    other = choice(
        t("checkpoints.compare_with"), others, key="against", form="list", text=str, width=420, default=usual
    )
    if not shared and other == usual:
        return
    found = contents.comparison(name, other)
    st.markdown(t("checkpoints.moved", moved=len(found.moved), same=len(found.unchanged)))
    rest = len(found.only_in_first) + len(found.only_in_second) + len(found.other_shape)
    if rest:
        st.warning(t("checkpoints.not_compared", count=rest), icon=":material/info:")
    if found.moved:
        table = _moved(found)
        st.dataframe(
            table.head(ROWS),
            hide_index=True,
            key="moved",
            column_config={column: st.column_config.NumberColumn(format="%.4g") for column in table.columns[2:]},
        )
        st.caption(t("checkpoints.moved_note"))
        st.download_button(
            t("checkpoints.moved_csv"), lambda: frame_csv(table), "moved.csv", "text/csv", on_click="ignore"
        )
    if rest:
        where = {
            plain("checkpoints.only_in", name=name): found.only_in_first,
            plain("checkpoints.only_in", name=other): found.only_in_second,
            plain("checkpoints.of_other_shape"): found.other_shape,
        }
        rows = [(one, place) for place, names in where.items() for one in names]
        columns = [t("checkpoints.tensor"), t("checkpoints.stands")]
        st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, key="rest")


def _nearest(name: str, others: list[str]) -> tuple[str, int]:
    """The checkpoint with the most tensors of the same names, and how many; a moment of the same training first."""
    if store.is_snapshot(others[0]):
        return others[0], 1
    mine = store.contents(name).tensors.keys()
    shared = dict.fromkeys(others, 0)
    for other in others:
        with suppress(HeedmapError):  # what cannot be read says so where it is chosen
            shared[other] = len(mine & store.contents(other).tensors.keys())
    best = max(others, key=lambda one: shared[one])
    return best, shared[best]


def _spectra(values: Float[np.ndarray, "head rank"]) -> go.Figure:
    """One falling line a head."""
    lines = {plain("checkpoints.head", head=head): row for head, row in enumerate(values)}
    return curves(lines, plain("checkpoints.rank"), plain("checkpoints.singular_value"), dark=is_dark())


def _table(found: Inspection) -> pd.DataFrame:
    rows = [
        (
            one.name, shape_text(one.shape), one.dtype, one.numel, one.n_bytes, one.norm, one.mean, one.deviation,
            one.smallest, one.largest, ", ".join(_flags(one)),
        )
        for one in found.tensors
    ]  # fmt: skip
    columns = ["tensor", "shape", "dtype", *("numel", "bytes", "norm", "mean", "deviation", "smallest", "largest")]
    return pd.DataFrame(rows, columns=[t(f"checkpoints.{column}") for column in [*columns, "flags"]])


def _numbers() -> list[str]:
    names = ("numel", "bytes", "norm", "mean", "deviation", "smallest", "largest")
    return [t(f"checkpoints.{name}") for name in names]


def _flags(one: TensorSummary) -> list[str]:
    bad = [t("checkpoints.flag_not_finite", count=one.n_not_finite)] if one.n_not_finite else []
    return [*bad, *([t("checkpoints.flag_dead")] if one.dead else [])]


def _first(found: Inspection) -> TensorSummary:
    """The tensor to look at first: the largest."""
    return max(found.tensors, key=lambda one: one.numel)


def _moved(found: TensorComparison) -> pd.DataFrame:
    rows = [(one.name, shape_text(one.shape), one.share, one.distance, one.cosine, one.largest) for one in found.moved]
    columns = ("tensor", "shape", "share", "distance", "cosine", "change")
    return pd.DataFrame(rows, columns=[t(f"checkpoints.{column}") for column in columns])


def _neighbours(checkpoint: Checkpoint) -> None:
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    tables = {name: getattr(model, name, None) for name in ("embedding", "source_embedding", "target_embedding")}
    known = {name: table for name, table in tables.items() if table is not None}
    if not known:  # what reads pictures looks nothing up
        return
    st.markdown(f"**{t('checkpoints.neighbours')}**")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        name = choice(t("checkpoints.table"), list(known), key="table", text=str)
        weights = known[name].weight
        word = line(t("checkpoints.token_or_id"), str(min(5, len(weights) - 1)), key="token", width=220)
    reader = checkpoint.writer if name == "target_embedding" else tokenizer
    token = _token(word or "", len(weights), reader)
    if token is None:
        st.warning(t("checkpoints.no_token", last=len(weights) - 1), icon=":material/info:")
        return
    near = neighbours(weights, token, NEIGHBOURS)
    labels = [str(i) for i in [token, *(one.token for one in near)]]
    if reader is not None:
        labels = reader.labels([token, *(one.token for one in near)])
    rows = [(one.token, label, one.cosine) for one, label in zip(near, labels[1:], strict=True)]
    columns = [t("checkpoints.id"), t("checkpoints.token"), t("checkpoints.cosine")]
    st.text(plain("checkpoints.nearest_to", token=labels[0], id=token))
    st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, width="content", key="near")


def _token(word: str, size: int, reader: Tokenizer | None) -> int | None:
    """An id that was typed, or the first piece of a typed word; None if it is neither."""
    if word.strip().isascii() and word.strip().isdecimal() and len(word) < 10:
        return int(word) if int(word) < size else None
    if reader is None:
        return None
    try:
        ids = reader.encode(word)
    except InputError:
        return None
    return ids[0] if ids else None


def _tree(node: ModuleNode) -> str:
    return "\n".join(node.lines())
