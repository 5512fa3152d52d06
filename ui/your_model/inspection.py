"""What is inside a checkpoint, tensor by tensor, and a proof that it is read right."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import streamlit as st
from torch import Tensor

from heedmap import Checkpoint
from heedmap.checkpoint.inspect import Inspection, inspect_contents
from heedmap.checkpoint.worker import isolated
from heedmap.errors import HeedmapError, InputError
from heedmap.messages import Message
from heedmap.runs.check import Check, check_contents
from heedmap.runs.concurrency import forward_slot, letting_others
from heedmap.safe.arrays import ARRAY_LIMITS
from heedmap.safe.contents import Contents, shape_text
from heedmap.safe.limits import MEGABYTE
from ui.shared import controls
from ui.shared.files import table
from ui.store import store, upload_guard
from ui.store.cache import in_session, session_store
from ui.store.progress import with_progress
from ui.store.refs import CheckpointRef
from ui.store.upload_guard import CountedBytes
from ui.texts import as_text, plain, said, t
from ui.your_model.bring import uploader

QUICK = 10**7
"""Numbers that are looked through without a bar: under a second."""

NUMBERS = ("numel", "bytes", "norm", "mean", "deviation", "smallest", "largest")


def tensors_panel(name: str) -> None:
    """Every tensor in numbers, and what is wrong with some.

    Raises:
        CheckpointError: the weights cannot be read.
    """
    found = _inspection(name)
    if found is None:
        return
    counted = t("your_model.counted", tensors=len(found.tensors), numbers=found.n_parameters)
    st.markdown(f"**{as_text(found.format)}** · {found.file_bytes / 1e6:,.1f} MB · {counted}")
    broken = [tensor.name for tensor in found.tensors if tensor.n_not_finite]
    if broken:
        st.error(t("your_model.not_finite", names=", ".join(broken)), icon=":material/error:")
    if found.tied:
        st.info(t("your_model.tied", groups="; ".join(" = ".join(group) for group in found.tied)))
    rows = [
        (
            one.name, shape_text(one.shape), one.dtype, one.numel, one.n_bytes, one.norm, one.mean, one.deviation,
            one.smallest, one.largest, ", ".join(map(said, one.flags)),
        )
        for one in found.tensors
    ]  # fmt: skip
    columns = [t(f"your_model.{column}") for column in ("tensor", "shape", "dtype", *NUMBERS, "flags")]
    compact = {t(f"your_model.{column}"): st.column_config.NumberColumn(format="compact") for column in NUMBERS}
    table(rows, columns, key="tensors", height=480, column_config=compact)


def _inspection(name: str) -> Inspection | None:
    """Every tensor in numbers; a bar tells how far it is, and a button stops it (None)."""
    contents, what = store.contents(name), plain("your_model.looking")
    blocks = {one.data_ptr(): one.nbytes() for one in map(Tensor.untyped_storage, contents.tensors.values())}
    is_quick = sum(tensor.numel() for tensor in contents.tensors.values()) < QUICK

    def compute(progress: Callable[[float], None]) -> Inspection:
        with forward_slot():
            return inspect_contents(contents, sum(blocks.values()), letting_others(progress))

    key = (store.revision(name),)
    return with_progress("inspection", key, what, compute, begin=lambda: None if is_quick else lambda _: what)


ENDINGS = ("npz", "safetensors", "pt")
LIMITS = replace(ARRAY_LIMITS, file_bytes=32 * MEGABYTE)
"""How much of what is expected is kept, packed and unpacked."""

EXPECTED, CHECKS, KEPT = "expected", "check", 4
"""Files of what is expected, and checks, that a session keeps."""

RECIPE = """import torch
from heedmap import recording

model.double().eval()
with torch.no_grad(), recording(model) as seen:
    output = model(ids)                # model(source, target) of an encoder-decoder
seen.expected("expected.npz", inputs=ids, output=output)        # targets=target"""
"""How such a file is made, beside the original model."""


@dataclass(frozen=True, eq=False)
class _Expected:
    """What the original computed. `counted` stands for it in the ledger, `token` in keys of results."""

    contents: Contents
    counted: CountedBytes
    token: int = field(default_factory=lambda: secrets.randbits(62))


def check_panel(name: str, checkpoint: Checkpoint) -> None:
    """Drop a file; it is compared at once, and again whenever an answer about the checkpoint changes."""
    st.markdown(t("your_model.check_intro"))
    upload_guard.expect(LIMITS.file_bytes)
    uploader(t("your_model.check_bring"), "expected", ENDINGS, LIMITS.file_bytes, partial(_take, name))
    with st.expander(t("your_model.check_how"), icon=":material/code:"):
        st.code(RECIPE, language="python")
        st.caption(t("your_model.check_names", names=", ".join(map(str, checkpoint.sites))))
    expected: _Expected | None = session_store(EXPECTED, KEPT).find(CheckpointRef.parse(name))
    if expected is None:
        return
    try:
        with st.spinner(t("your_model.checking")):
            key = store.revision(name), expected.token
            found: Check = in_session(CHECKS, key, lambda: check_contents(checkpoint, expected.contents))
    except InputError as error:
        controls.explain(error)
        if error.code == "check_other_heads" and store.bundle(name) is not None:
            heads = int(str(error.fields["heads"]))
            answers = {**dict(store.answers_for(name)), "n_heads": heads}
            st.button(
                t("your_model.use_heads", count=heads), key="use-heads", type="primary", icon=":material/done:",
                on_click=store.set_answers, args=(name, answers),
            )  # fmt: skip
        return
    _result(found, expected.contents.source)


def _take(name: str, file: Any) -> list[Message]:
    """Read what was brought, in a worker process, and keep it for this checkpoint; gives why not."""
    try:
        with upload_guard.reading([file]):
            contents = isolated.read_arrays(file, file.name, LIMITS)
        n_bytes = sum(tensor.nbytes for tensor in contents.tensors.values())
        counted = CountedBytes(n_bytes)
        session_store(EXPECTED, KEPT).put(CheckpointRef.parse(name), _Expected(contents, counted))
    except HeedmapError as error:
        return [error.message]
    return []


def _result(found: Check, source: str) -> None:
    """The verdict, then every array in the order in which the model runs."""
    sentence = f"**{as_text(source)}** · {controls.sentence(found.verdict)}"
    if found.agrees:
        st.success(sentence, icon=":material/verified:")
    else:
        st.error(sentence, icon=":material/difference:")
        st.caption(t("your_model.check_differs_note"))
    if found.other:
        st.warning(t("your_model.check_other", names=", ".join(found.other)), icon=":material/info:")
    rows = [
        (
            said(one.title), said(shape_text(one.shape)), one.largest, ", ".join(map(str, one.place)), one.found,
            one.expected, one.unseen, one.agrees,
        )
        for one in found.differences
    ]  # fmt: skip
    columns = ("array", "shape", "difference", "place", "here", "expected", "unseen", "agrees")
    named = [t(f"your_model.check_{column}") if column != "shape" else t("your_model.shape") for column in columns]
    number = st.column_config.NumberColumn
    form = {named[2]: number(format="%.3g"), **{one: number(format="%.6g") for one in named[4:6]}}
    table(rows, named, key="check", column_config=form)
