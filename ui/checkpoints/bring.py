"""The page Checkpoints: bring files, choose one, see what it is taken for."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from transformer.attention.record_files.contents import ENDING, is_record
from transformer.checkpoint.foreign.recognition import Recognition
from transformer.errors import CheckpointError, HeedmapError
from transformer.safe.limits import MEGABYTE
from ui.checkpoints import ways
from ui.markdown import as_text
from ui.shared import address, controls, subject
from ui.store import live, records, store, upload_guard, uploads, user_folder
from ui.store.refs import CheckpointRef, Origin
from ui.store.upload_quota import UploadLimits
from ui.texts import plain, said, t

ROUND, PROBLEM = "upload.round", "upload.problem"
SHOW = "show"
"""The query parameter of the panel that is open."""

LIVE = live.NAME
"""What the list calls the user's own code, in addresses."""

ORDER = (Origin.UPLOAD, Origin.USER_FOLDER, Origin.SHIPPED)
"""The user's own checkpoints stand first in this page's lists."""


def bring_panel() -> None:
    """Choose or drop files; what was brought is listed, and can be removed.

    Raises:
        CheckpointError: the limits that the environment gives are no numbers.
    """
    round_ = st.session_state.setdefault(ROUND, 0)
    limits = UploadLimits.of(os.environ)
    upload_guard.expect(max(uploads.room(limits), limits.file_bytes))  # one too many gets a sentence
    files = st.file_uploader(
        t("checkpoints.bring"),
        type=[ENDING.removeprefix("."), *uploads.ENDINGS],
        accept_multiple_files=True,
        key=f"upload-{round_}",
        max_upload_size=max(1, limits.file_bytes // MEGABYTE),
        help=f"{t('checkpoints.bring_note')} {t('checkpoints.bring_help')}",
    )
    if files:
        with st.spinner(t("checkpoints.reading")):
            _take(files)
        st.session_state[ROUND] += 1  # a new uploader, so that the browser's copy is let go
        st.rerun()
    for problem in st.session_state.pop(PROBLEM, ()):
        sentence, _, lines = said(problem).partition("\n")
        st.warning(as_text(sentence) if lines else controls.sentence(problem), icon=":material/block:")
        if lines:
            st.code(lines, language="python")
    now = uploads.may_arrive(limits)
    if now < limits.file_bytes:
        st.warning(t("checkpoints.less_room", megabytes=now // MEGABYTE), icon=":material/hourglass_empty:")
    unpacked = uploads.folder_may_hold(limits)
    if unpacked < now:
        less = t("checkpoints.less_room_unpacked", megabytes=unpacked // MEGABYTE)
        st.warning(less, icon=":material/hourglass_empty:")
    for refused in user_folder.own_paths()[1]:
        st.warning(controls.sentence(refused), icon=":material/block:")


def is_recorded(name: str) -> bool:
    """Whether a name is that of the live model or of a record, not of a checkpoint."""
    return name == LIVE or name in records.names()


def choice() -> str | None:
    """What is looked at: a record, the live model, an upload, a checkpoint of the user's folder, or a shipped one.

    At first the live model, where the server was started with one.
    """
    lively, known = [LIVE] if live.named() else [], store.names(*ORDER)
    names = [*records.names(), *lively, *known]
    if not names:
        ways.ways_panel()
        st.info(t("checkpoints.none"))
        return None
    if address.parameter(subject.MODEL) not in names:
        controls.warn_of_unknown()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="chosen"):
        usual = subject.usual([*lively, *known] or names)
        name = address.choice(
            t("checkpoints.which"), names, key=subject.MODEL, form="list", text=_called, width="stretch",
            default=usual, said=store.is_upload(usual),
        )  # fmt: skip
        if store.is_upload(name):
            st.button(t("checkpoints.remove"), icon=":material/delete:", on_click=_remove, args=(name,), key="remove")
        ways.ways_panel()
    if name in known:
        subject.show(name)
    return name


def _called(name: str) -> str:
    """What the list calls a name."""
    return plain("your_model.live_name", name=Path(live.named()).name) if name == LIVE else name


class Recognised(NamedTuple):
    """What a checkpoint is taken for (None: its own config says everything), and an answer that cannot be right."""

    found: Recognition | None
    wrong: CheckpointError | None = None


def recognition(name: str) -> Recognised:
    """What a checkpoint is taken for. With an answer that cannot be right, what it is without that answer.

    Raises:
        CheckpointError: it is refused, whatever is answered.
    """
    found, answers = store.bundle(name), dict(store.answers_for(name))
    if found is None:
        return Recognised(None)
    try:
        return Recognised(found.recognised(answers))
    except CheckpointError as error:
        if not answers:
            raise
        wrong = error.fields.get("name")
        others = {question: answer for question, answer in answers.items() if question != wrong}
        return Recognised(found.recognised(others if len(others) < len(answers) else {}), error)


def _take(files: Sequence[uploads.File]) -> None:
    """Take each record, and the other files together; what is refused is told, and keeps no other from being taken."""
    found = [file for file in files if is_record(file.name)]
    others = [file for file in files if file not in found]
    problems = st.session_state.setdefault(PROBLEM, [])
    for take in [*(partial(_take_record, file) for file in found), *([partial(_take_files, others)] if others else [])]:
        try:
            take()
        except HeedmapError as error:
            problems.append(error.message)


def _take_record(file: uploads.File) -> None:
    address.put(**{subject.MODEL: records.take(file)})


def _take_files(files: Sequence[uploads.File]) -> None:
    names = store.names(*ORDER)
    before = address.parameter(subject.MODEL)
    shown = before if before in names else subject.usual(names) if names else None
    name = str(uploads.take(files, CheckpointRef.parse(shown) if shown else None))
    address.put(**{subject.MODEL: name})
    subject.show(name)


def _remove(name: str) -> None:
    uploads.forget(CheckpointRef.parse(name))
    address.put(**{subject.MODEL: None})


def screen(panels: list[str]) -> str:
    """Which panel is open."""
    return address.choice(
        t("checkpoints.screen"), panels, key=SHOW, bare=True, text=lambda panel: plain(f"checkpoints.screen_{panel}")
    )


def forget_answers(name: str) -> None:
    """A way out where answers do not suit a file."""
    if store.answers_for(name):
        st.button(t("checkpoints.forget"), on_click=store.set_answers, args=(name, {}), key="forget-all-answers")
