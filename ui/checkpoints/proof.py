"""A proof that a file is read right: what its original computed is dropped here, and held against what is computed."""

import os
import secrets
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import Checkpoint
from transformer.checkpoint.inspect.expected import Check
from transformer.checkpoint.inspect.search import Search
from transformer.checkpoint.worker import isolated
from transformer.errors import HeedmapError, InputError
from transformer.runs.check import check_contents
from transformer.runs.concurrency import forward_slot, letting_others, long_work
from transformer.safe.arrays import ARRAY_LIMITS
from transformer.safe.contents import Contents, shape_text
from transformer.safe.limits import MEGABYTE
from ui.checkpoints.questions import SPECIAL_IDS
from ui.markdown import as_text
from ui.shared import controls
from ui.store import store, upload_guard
from ui.store.cache import in_session, session_store
from ui.store.refs import CheckpointRef
from ui.store.upload_quota import Counted, UploadLimits
from ui.texts import said, t

ENDINGS = ("npz", "safetensors", "pt")
LIMITS = replace(ARRAY_LIMITS, file_bytes=32 * MEGABYTE)
"""How much of what is expected is kept, packed and unpacked."""

ROUND, PROBLEM = "expected.round", "expected.problem"
EXPECTED, CHECKS, FOUND, KEPT = "expected", "check", "found-answers", 4
"""Files of what is expected, checks, and searches for answers, that a session keeps."""

ASKED_FOR = "find-answers"
"""The file whose answers are to be found, until they are looked for."""

RECIPE = """import torch
from transformer import recording

model.double().eval()
with torch.no_grad(), recording(model) as seen:
    output = model(ids)                # model(source, target) of an encoder-decoder
seen.expected("expected.npz", inputs=ids, output=output)        # targets=target"""
"""How such a file is made, beside the original model."""

KEPT_ANSWERS = ("ignore", *SPECIAL_IDS)
"""Answers that a search takes as they were given: what is to be left out, and ids."""


@dataclass(frozen=True, eq=False)
class _Expected:
    """What the original computed. `counted` stands for it in the ledger, `token` in keys of results."""

    contents: Contents
    counted: Counted
    token: int = field(default_factory=lambda: secrets.randbits(62))


def check_panel(name: str, checkpoint: Checkpoint | None) -> None:
    """Drop a file; it is compared at once, and again whenever an answer about the checkpoint changes.

    None is a checkpoint about which something must be answered first: its answers can be found from the file.
    """
    st.markdown(t("checkpoints.check_intro"))
    upload_guard.expect(LIMITS.file_bytes)
    file = st.file_uploader(
        t("checkpoints.check_bring"),
        type=list(ENDINGS),
        key=f"expected-{st.session_state.setdefault(ROUND, 0)}",
        max_upload_size=LIMITS.file_bytes // MEGABYTE,
    )
    with st.expander(t("checkpoints.check_how"), icon=":material/code:"):
        st.code(RECIPE, language="python")
        if checkpoint is not None:
            st.caption(t("checkpoints.check_names", names=", ".join(map(str, checkpoint.sites))))
    kept = session_store(EXPECTED, KEPT)
    if file is not None:
        with st.spinner(t("checkpoints.reading")):
            _take(name, file)
        st.session_state[ROUND] += 1  # a new uploader, so that the browser's copy is let go
        st.rerun()
    problem = st.session_state.pop(PROBLEM, None)
    if problem:
        st.warning(controls.sentence(problem), icon=":material/block:")
    expected: _Expected | None = kept.find(CheckpointRef.parse(name))
    if expected is None:
        return
    _find(name, expected)
    if checkpoint is not None:
        try:
            with st.spinner(t("checkpoints.checking")):
                found: Check = in_session(
                    CHECKS,
                    (store.revision(name), expected.token),
                    lambda: check_contents(checkpoint, expected.contents),
                )
        except InputError as error:
            controls.explain(error)
            if error.code == "check_other_heads" and store.bundle(name) is not None:
                heads = int(str(error.fields["heads"]))
                st.button(
                    t("checkpoints.use_heads", count=heads), key="use-heads", type="primary", icon=":material/done:",
                    on_click=_use_heads, args=(name, heads),
                )  # fmt: skip
            return
        _result(found, expected.contents.source)


def _use_heads(name: str, heads: int) -> None:
    store.set_answers(name, {**dict(store.answers_for(name)), "n_heads": heads})


def _find(name: str, expected: _Expected) -> None:
    """A button that tries all answers, and gives those that agree."""
    bundle = store.bundle(name)
    if bundle is None:
        return
    searches, key = session_store(FOUND, KEPT), (CheckpointRef.parse(name), expected.token)
    st.button(
        t("checkpoints.find"), icon=":material/quiz:", key="find", on_click=_ask_for, args=(name,),
        help=t("checkpoints.find_help"),
    )  # fmt: skip
    if st.session_state.pop(ASKED_FOR, None) == name:  # taken off at once: any other run ends this one
        bar = st.progress(0.0, t("checkpoints.finding"))
        st.button(t("checkpoints.stop"), icon=":material/stop_circle:", key="stop-finding")
        kept = {one: answer for one, answer in store.answers_for(name) if one in KEPT_ANSWERS}
        with long_work(), forward_slot():
            found = bundle.find_answers(expected.contents, kept, letting_others(lambda done: _move(bar, done)))
        searches.put(key, found)
        if found.found:
            told = bundle.special_ids.keys() - kept.keys()  # a vocabulary says these
            store.set_answers(name, {one: answer for one, answer in found.answers.items() if one not in told})
        st.rerun()
    search: Search | None = searches.find(key)
    if search is not None:
        (st.info if search.found else st.warning)(controls.sentence(search.verdict), icon=":material/quiz:")


def _move(bar: DeltaGenerator, done: float) -> None:
    """Show how far it is. The framework ends the run here when the user has left or pressed something."""
    bar.progress(done, t("checkpoints.finding"))


def _ask_for(name: str) -> None:
    st.session_state[ASKED_FOR] = name


def _take(name: str, file: Any) -> None:
    """Read what was brought, in a worker process, and keep it for this checkpoint."""
    try:
        with upload_guard.reading([file]):
            contents = isolated.read_arrays(file, file.name, LIMITS)
        n_bytes = sum(tensor.nbytes for tensor in contents.tensors.values())
        counted = Counted(n_bytes, UploadLimits.of(os.environ).server_bytes)
        session_store(EXPECTED, KEPT).put(CheckpointRef.parse(name), _Expected(contents, counted))
    except HeedmapError as error:
        st.session_state[PROBLEM] = error.message


def _result(found: Check, source: str) -> None:
    """The verdict, then every array in the order in which the model runs."""
    sentence = f"**{as_text(source)}** · {controls.sentence(found.verdict)}"
    if found.agrees:
        st.success(sentence, icon=":material/verified:")
    else:
        st.error(sentence, icon=":material/difference:")
        st.caption(t("checkpoints.check_differs_note"))
    if found.other:
        st.warning(t("checkpoints.check_other", names=", ".join(found.other)), icon=":material/info:")
    rows = [
        (
            said(one.title), said(shape_text(one.shape)), one.largest, ", ".join(map(str, one.place)), one.found,
            one.expected, one.unseen, one.agrees,
        )
        for one in found.differences
    ]  # fmt: skip
    columns = ["array", "shape", "difference", "place", "here", "expected", "unseen", "agrees"]
    named = [t(f"checkpoints.check_{column}") if column != "shape" else t("checkpoints.shape") for column in columns]
    st.dataframe(
        pd.DataFrame(rows, columns=named),
        hide_index=True,
        key="check",
        column_config={
            named[2]: st.column_config.NumberColumn(format="%.3g"),
            **{one: st.column_config.NumberColumn(format="%.6g") for one in named[4:6]},
        },
    )
