"""An atlas of the reader's own text: the checkpoint and the text, what it costs, and the work in slices."""

from functools import partial

import streamlit as st

from heedmap.atlas.corpus import MemoryCorpus, corpus_of_fasta, corpus_of_text
from heedmap.text.base import split_lines
from ui.atlas.heads import SCREEN, amount
from ui.shared import address
from ui.shared.address import choice, lines
from ui.store import atlases, store, upload_guard
from ui.store.atlases import AtlasJob
from ui.texts import t

MOST_LINES = 2_000
"""Sentences or sequences of one run on a page; the command line has no limit."""

MOST_LETTERS = 400_000
"""Letters of a text that is pasted."""

IN_ADDRESS = 1_500
"""Letters up to which a pasted text stands in the address."""

MEGABYTES = 2
"""Of a file."""


def own_panel(name: str) -> None:
    """Choose a checkpoint and a text, see what it costs, run it, and open it.

    Raises:
        HeedmapError: the text cannot be read, or not by this checkpoint.
    """
    runnable = [one for one in store.names(*store.ORIGINS) if store.architecture(one) is not None]
    of = choice(
        t("atlas.own_checkpoint"), runnable, key="of", form="list", width=360, text=str,
        default=name if name in runnable else None,
    )  # fmt: skip
    text = _text(of)
    if text is None:
        st.info(t("atlas.own_nothing", most=MOST_LINES))
    else:
        _run(atlases.job(of, text))


def _text(of: str) -> MemoryCorpus | None:
    """What was pasted or uploaded; None for nothing.

    Raises:
        InputError: it is no text, too much, or has another number of translations.
    """
    fasta = store.architecture(of) == store.CLASSIFIERS
    upload_guard.expect(2 * MEGABYTES * 1024 * 1024)
    field = partial(lines, longest=IN_ADDRESS, most=MOST_LETTERS)
    pasted = field(t("atlas.own_fasta") if fasta else t("atlas.own_text"), "", key="text", height=160)
    target = ""
    if store.architecture(of) in store.TRANSLATORS:
        target = field(t("atlas.own_target"), "", key="force", height=100, help=t("atlas.own_target_help"))
    kinds = ["fa", "fasta", "gz", "txt"] if fasta else ["txt", "en", "de"]
    file = st.file_uploader(t("atlas.own_file"), type=kinds, key="own-file", max_upload_size=MEGABYTES)
    if file is None and not pasted.strip():
        return None
    data = pasted.encode() if file is None else file.getvalue()
    if fasta:
        return corpus_of_fasta(data, MOST_LINES)
    return corpus_of_text(pasted if file is None else "\n".join(split_lines(data, "text")), target, MOST_LINES)


def _run(job: AtlasJob) -> None:
    """What the rest takes, then the work in slices, then the way to what it found."""
    what = amount(job.total, store.architecture(job.checkpoint) == store.CLASSIFIERS)
    if not job.done:
        job.advance(0)  # tells how long the rest takes
    if not job.started:
        whole = job.done == job.total
        cost = {} if whole else {"seconds": _seconds(job.left), "done": job.done}
        st.markdown(t("atlas.own_short" if whole else "atlas.own_cost", what=what, **cost))
        st.button(t("atlas.own_run"), on_click=job.start, type="primary", icon=":material/play_arrow:")
        return
    if job.going:
        job.advance()
    if job.going:
        st.button(t("atlas.own_cancel"), on_click=job.cancel, icon=":material/stop_circle:")
        progress = t("atlas.own_progress", done=job.done, what=what, seconds=_seconds(job.left))
        st.progress(job.done / job.total, progress)
        st.rerun()
    atlases.keep(job)
    st.success(t("atlas.own_cancelled" if job.cancelled else "atlas.own_done", done=job.done, what=what))
    open_ = partial(address.put, model=job.name, **{SCREEN: "cards"})
    st.button(t("atlas.own_open"), on_click=open_, type="primary")
    st.caption(t("atlas.own_note", most=atlases.KEPT))


def _seconds(seconds: float) -> str:
    return f"{max(1.0, seconds):,.0f}"
