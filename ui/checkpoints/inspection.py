"""Inside a checkpoint, without running it: its modules, and each tensor in numbers."""

import pandas as pd
import streamlit as st

from transformer.checkpoint.inspect.tensors import Inspection, TensorSummary
from transformer.plots.bars import histogram
from transformer.plots.export import PLOT_CONFIG
from transformer.safe.contents import shape_text
from ui.checkpoints import contents
from ui.markdown import as_text
from ui.shared import address
from ui.shared.files import frame_csv
from ui.shared.theme import is_dark
from ui.texts import plain, said, t

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
        st.code("\n".join(found.lines()), language=None)
    st.download_button(
        t("checkpoints.tensors_csv"), lambda: frame_csv(table), "tensors.csv", "text/csv", on_click="ignore"
    )


def _table(found: Inspection) -> pd.DataFrame:
    rows = [
        (
            one.name, shape_text(one.shape), one.dtype, one.numel, one.n_bytes, one.norm, one.mean, one.deviation,
            one.smallest, one.largest, ", ".join(map(said, one.flags)),
        )
        for one in found.tensors
    ]  # fmt: skip
    columns = ["tensor", "shape", "dtype", *("numel", "bytes", "norm", "mean", "deviation", "smallest", "largest")]
    return pd.DataFrame(rows, columns=[t(f"checkpoints.{column}") for column in [*columns, "flags"]])


def _numbers() -> list[str]:
    names = ("numel", "bytes", "norm", "mean", "deviation", "smallest", "largest")
    return [t(f"checkpoints.{name}") for name in names]


def _first(found: Inspection) -> TensorSummary:
    """The tensor to look at first: the largest."""
    return max(found.tensors, key=lambda one: one.numel)
