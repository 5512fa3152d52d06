"""The screen of the lesson "Masks" that calls `nn.MultiheadAttention` and shows every tensor's shape."""

from typing import cast

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.expressions.board import Board
from transformer.lessons.module import (
    MASKS,
    MORE,
    PER_HEAD,
    Call,
    Called,
    Filled,
    MaskForm,
    More,
    blind_rows,
    called,
    causal_alone,
    decoder_arguments,
    fills,
)
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.masks.drawing import matrix
from ui.shared.address import choice, switch
from ui.texts import plain, t

RETURNED = {
    "mean": "average_attn_weights=True",
    "heads": "average_attn_weights=False",
    "none": "need_weights=False",
}
"""What comes back as weights: the mean over heads, one table a head, or nothing; and how that is asked for."""


def module_panel(bar: DeltaGenerator) -> None:
    """One call of the module, as it was executed; and what it does with rows that see nothing."""
    with bar:
        call = _call()
    found = called(call)
    left, right = shared.columns()
    with left:
        _shapes(found)
        st.code(call.code, language="python", wrap_lines=True)
    with right:
        _weights(found, call)
        shared.explain(t("masks.look_module"))
    st.markdown(t("masks.causal_taken" if causal_alone() else "masks.causal_refused"))
    _arguments()
    _blind()
    _fills()


def _call() -> Call:
    form = choice(
        t("masks.form"), MASKS, key="mask_form", default="key_padding", form="list", width=200,
        text=lambda form: plain(f"masks.form_{form}"),
    )  # fmt: skip
    weights = choice(
        t("masks.returned"), list(RETURNED), key="weights", form="list", width=250, text=RETURNED.__getitem__
    )
    return Call(
        mask=cast(MaskForm, form),
        batch_first=switch("batch_first", True, key="batch_first"),
        own_widths=switch("kdim, vdim", False, key="own_widths"),
        more=cast(More, choice(t("masks.more"), MORE, key="more", form="list", width=160, text=_more)),
        need_weights=weights != "none",
        average=weights == "mean",
    )


def _more(name: str) -> str:
    return plain("masks.form_none") if name == "none" else name


def _shapes(found: Called) -> None:
    columns = [plain(f"masks.module_{name}") for name in ("tensor", "axes", "sizes")]
    names = {PER_HEAD: plain("masks.module_per_head")}
    rows = [(names.get(one.name, one.name), one.axes, f"{one.dtype} {one.sizes}") for one in found.shapes]
    st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, key="shapes", height="content")


def _weights(found: Called, call: Call) -> None:
    """What is returned as weights, of the second sentence: one matrix of averages, or one a head."""
    if found.weights is None:
        st.markdown(t("masks.no_weights"))
        return
    own = found.weights[1]
    heads = {"weights": own} if call.average else {f"weights_{head}": weights for head, weights in enumerate(own)}
    rows, columns = (tuple(f"[{i}]" for i in range(n)) for n in own.shape[-2:])
    columns = (*columns[:-1], call.more) if call.more != "none" else columns
    board = Board.of(matrix(name, "A", one.numpy(), rows, columns, one.numpy() == 0) for name, one in heads.items())
    titles = {name: f"weights[1{f', {head}' if not call.average else ''}]" for head, name in enumerate(board)}
    matrices(
        board, list(board), None, key="module", weights=list(board), titles=titles, hint=plain("masks.hint_module"),
        about=shared.about("masks.screen_module", *call.code.splitlines()),
    )  # fmt: skip
    shared.matrix_downloads(board, list(board))


def _arguments() -> None:
    """The masks of a decoder layer, and which words each of them cuts off."""
    st.markdown(f"**{t('masks.arguments')}**")
    columns = [plain(f"masks.{name}") for name in ("argument", "module_axes", "module_sizes", "argument_moved")]
    rows = [(one.name, one.axes, str(one.sizes), ", ".join(map(str, one.moved))) for one in decoder_arguments()]
    st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, key="arguments", width="content")
    shared.explain(t("masks.look_arguments"))


def _blind() -> None:
    """What the row of a query that sees no key holds."""
    st.markdown(f"**{t('masks.blind')}**")
    columns = ["need_weights", *(plain(f"masks.blind_{name}") for name in ("output", "weights"))]
    rows = [(str(one.need_weights), _written(one.output), _written(one.weights) or "None") for one in blind_rows()]
    st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, key="blind_rows", width="content")
    st.markdown(t("masks.look_blind"))


def _fills() -> None:
    """What hidden scores are set to, in every floating type."""
    st.markdown(f"**{t('masks.fills')}**")
    columns = [plain(f"masks.fill_{name}") for name in ("dtype", "value", "one", "all")]
    rows = [(one.dtype, one.fill, *_outcome(one)) for one in fills()]
    st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, key="fills", width="content", height="content")
    st.markdown(t("masks.look_fills"))


def _outcome(one: Filled) -> tuple[str, str]:
    if one.one_hidden is None or one.all_hidden is None:
        return plain("masks.overflow"), plain("masks.overflow")
    return ", ".join(map(_written, one.one_hidden)), ", ".join(map(_written, one.all_hidden))


def _written(number: str) -> str:
    """A number as it is; what is none by its name in PyTorch."""
    return "NaN" if number == "nan" else number
