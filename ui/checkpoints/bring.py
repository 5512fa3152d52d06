"""The page Checkpoints: bring files, choose one, see what it is taken for."""

import os
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from transformer.checkpoint.foreign.recognition import Recognition
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.safe.contents import shape_text
from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.errors import HeedmapError
from transformer.messages import say
from ui.shared import address, controls
from ui.store import arrivals, cached, uploads, user_checkpoints, user_folder
from ui.store.ledger import UploadLimits
from ui.texts import plain, t
from ui.texts.markdown import as_text

ROUND, PROBLEM, CHOSEN = "upload.round", "upload.problem", "model"


def bring_panel() -> None:
    """Choose or drop files; what was brought is listed, and can be removed.

    Raises:
        CheckpointError: the limits that the environment gives are no numbers.
    """
    round_ = st.session_state.setdefault(ROUND, 0)
    limits = UploadLimits.of(os.environ)
    arrivals.expect(max(uploads.room(limits), limits.file_bytes))  # one too many gets a sentence
    files = st.file_uploader(
        t("checkpoints.bring"),
        type=list(uploads.ENDINGS),
        accept_multiple_files=True,
        key=f"upload-{round_}",
        max_upload_size=max(1, limits.file_bytes // MEGABYTE),
        help=t("checkpoints.bring_help"),
    )
    st.caption(t("checkpoints.bring_note"))
    if files:
        with st.spinner(t("checkpoints.reading")):
            _take(files)
        st.session_state[ROUND] += 1  # a new uploader, so that the browser's copy is let go
        st.rerun()
    problem = st.session_state.pop(PROBLEM, None)
    if problem:
        st.warning(controls.sentence(problem), icon=":material/block:")
    now = uploads.may_arrive(limits)
    if now < limits.file_bytes:
        st.warning(t("checkpoints.less_room", megabytes=now // MEGABYTE), icon=":material/hourglass_empty:")
    for sentence in user_folder.own_paths()[1]:
        st.warning(controls.sentence(sentence), icon=":material/block:")


def choice() -> str | None:
    """Which checkpoint is looked at: an upload, one of the reader's folder, or a shipped one."""
    shipped = cached.shipped_names()
    names = [*user_checkpoints.names(), *shipped]
    if not names:
        st.info(t("checkpoints.none"))
        return None
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        user_checkpoints.start_with(names, CHOSEN)
        name = st.selectbox(t("checkpoints.which"), names, key=CHOSEN, bind="query-params", width=420)
        if uploads.is_upload(name):
            st.button(t("checkpoints.remove"), icon=":material/delete:", on_click=_remove, args=(name,), key="remove")
    user_checkpoints.choose(name)
    return name


def recognition(name: str) -> Recognition | None:
    """What a checkpoint is taken for; None for one whose own config says everything.

    Raises:
        CheckpointError: it is refused, or an answer cannot be right.
    """
    found = user_checkpoints.bundle_of(name) if user_checkpoints.holds(name) else None
    return None if found is None else found.recognised(dict(user_checkpoints.given(name)))


def report_panel(report: Report) -> None:
    """How surely and why; and what does not fit."""
    sure = t("checkpoints.sure", share=report.confidence, matched=len(report.matched))
    title = say(report.title)
    if report.fits:
        st.success(f"**{as_text(title)}** · {as_text(report.format)} · {sure}", icon=":material/check_circle:")
    elif report.layout:
        st.error(f"{t('checkpoints.nearest', title=title)} · {sure}", icon=":material/rule:")
    else:
        st.error(t("checkpoints.unknown", title=title), icon=":material/help:")
    with st.expander(t("checkpoints.why"), expanded=not report.fits, icon=":material/fact_check:"):
        for reason in (*report.reasons, *report.assumptions):
            st.text(f"· {say(reason)}")
        _names(t("checkpoints.missing"), [(n, say(shape_text(s)), "") for n, s in report.missing.items()])
        _names(t("checkpoints.wrong"), [(n, shape_text(a), shape_text(b)) for n, (a, b) in report.wrong_shape.items()])
        _names(t("checkpoints.unexpected"), [(n, "", shape_text(s)) for n, s in report.unexpected.items()])
        for doubt in dict.fromkeys(report.doubts.values()):
            st.text(f"· {say(doubt)}")
        if report.ignored:
            st.markdown(f"**{t('checkpoints.ignored')}**")
            ignored = [(name, say(reason)) for name, reason in report.ignored.items()]
            columns = [t("checkpoints.tensor"), t("checkpoints.reason")]
            st.dataframe(pd.DataFrame(ignored, columns=columns), hide_index=True, key="ignored")
        if not report.fits:
            st.markdown(f"**{t('checkpoints.changes')}**")
            for change in report.changes:
                st.text(f"· {say(change)}")
        st.download_button(
            t("checkpoints.report_file"), say(report.text) + "\n", "report.txt", "text/plain", on_click="ignore"
        )


def _names(title: str, rows: list[tuple[str, str, str]]) -> None:
    if rows:
        st.markdown(f"**{title} ({len(rows)})**")
        columns = [t("checkpoints.tensor"), t("checkpoints.needed"), t("checkpoints.found")]
        st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, height="content" if len(rows) < 9 else 320)


def _take(files: Sequence[uploads.File]) -> None:
    before = st.session_state.get(CHOSEN)
    try:
        name = uploads.take(files, before)
        st.session_state[CHOSEN] = name
        user_checkpoints.choose(name)
    except HeedmapError as error:
        st.session_state[PROBLEM] = str(error)


def _remove(name: str) -> None:
    uploads.forget(name)
    if CHOSEN in st.session_state:
        del st.session_state[CHOSEN]


def screen(panels: list[str]) -> str:
    """Which panel is open."""
    return address.choice(
        t("checkpoints.screen"), panels, key="show", bare=True, text=lambda panel: plain(f"checkpoints.screen_{panel}")
    )


def others(name: str) -> list[str]:
    """What a checkpoint can be compared with: every other one, and snapshots of its own training."""
    moments = [f"{name}{cached.MOMENT}{moment.name}" for moment in cached.snapshots(name)]
    return [other for other in (*moments, *user_checkpoints.names(), *cached.shipped_names()) if other != name]


def forget_answers(name: str) -> None:
    """A way out where answers do not suit a file."""
    if user_checkpoints.given(name):
        st.button(t("checkpoints.forget"), on_click=user_checkpoints.answer, args=(name, {}), key="forget-answers")
