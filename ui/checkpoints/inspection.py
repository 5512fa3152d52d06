"""Inside a checkpoint, without running it: its modules, each tensor in numbers, what moved."""

from contextlib import suppress

import pandas as pd
import streamlit as st

from transformer.checkpoint.inspect.compare import TensorComparison
from transformer.checkpoint.inspect.tensors import Inspection, ModuleNode, TensorSummary
from transformer.errors import HeedmapError
from transformer.plots.bars import histogram
from transformer.plots.export import PLOT_CONFIG
from transformer.safe.contents import shape_text
from ui.checkpoints import contents
from ui.markdown import as_text
from ui.shared import address
from ui.shared.address import choice
from ui.shared.files import frame_csv
from ui.shared.theme import is_dark
from ui.store import store
from ui.texts import plain, t

ROWS = 60
"""Changes that are shown at most; the file holds all."""

TENSOR = "tensor"
"""The query parameter of the tensor whose histogram is shown."""


def tensors_panel(name: str) -> None:
    """The tree of modules, every tensor in numbers, one tensor's histogram.

    Raises:
        CheckpointError: the weights cannot be read.
    """
    found = contents.inspection(name)
    if found is None:
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


def _tree(node: ModuleNode) -> str:
    return "\n".join(node.lines())
