"""An atlas of the reader's own sentences or sequences: what it will cost, progress, cancel, and the result."""

import streamlit as st

from transformer.atlas.in_memory import Held, held_fasta, held_text
from transformer.errors import HeedmapError
from transformer.text.lines import split_lines
from ui.atlas import choices
from ui.shared import address, controls
from ui.shared.address import choice, lines
from ui.store import own_atlases, store, upload_guard
from ui.store.own_atlases import Job
from ui.texts import t

MOST_LINES = 2_000
"""Sentences or sequences of one run on a page; the command line has no limit."""

MOST_LETTERS = 400_000
"""Letters of a text that is pasted."""

IN_ADDRESS = 1_500
"""Letters up to which a pasted text stands in the address."""

MEGABYTES = 2
"""Of a file."""

SEQUENCES = "kmer"
"""The architecture that reads sequences."""


def own_panel(name: str) -> None:
    """Choose a checkpoint and a text, see what it costs, run it, and open it."""
    runnable = [one for one in store.names(*store.SOURCES) if store.architecture(one) is not None]
    of = choice(
        t("atlas.own_checkpoint"), runnable, key="of", form="list", width=360, text=str,
        default=name if name in runnable else None,
    )  # fmt: skip
    try:
        text = _text(of)
        if text is None:
            st.info(t("atlas.own_nothing", most=MOST_LINES))
            return
        job = own_atlases.job(of, text)
    except HeedmapError as error:
        controls.explain(error)
        return
    _run(job)


def _text(of: str) -> Held | None:
    """What was pasted or uploaded; None for nothing.

    Raises:
        InputError: it is no text, too much, or has another number of translations.
    """
    fasta = store.architecture(of) == SEQUENCES
    upload_guard.expect(2 * MEGABYTES * 1024 * 1024)
    label = t("atlas.own_fasta") if fasta else t("atlas.own_text")
    pasted = lines(label, "", key="text", height=160, longest=IN_ADDRESS, most=MOST_LETTERS)
    target = ""
    if store.architecture(of) in store.TRANSLATORS:
        target = lines(
            t("atlas.own_target"), "", key="force", height=100, longest=IN_ADDRESS, most=MOST_LETTERS,
            help=t("atlas.own_target_help"),
        )  # fmt: skip
    kinds = ["fa", "fasta", "gz", "txt"] if fasta else ["txt", "en", "de"]
    file = st.file_uploader(t("atlas.own_file"), type=kinds, key="own-file", max_upload_size=MEGABYTES)
    if file is not None:
        data = file.getvalue()
        return held_fasta(data, MOST_LINES) if fasta else held_text(_decoded(data), target, MOST_LINES)
    if not pasted.strip():
        return None
    return held_fasta(pasted.encode(), MOST_LINES) if fasta else held_text(pasted, target, MOST_LINES)


def _decoded(data: bytes) -> str:
    return "\n".join(split_lines(data, "text"))


def _run(job: Job) -> None:
    what = choices.amount(job.total, store.architecture(job.checkpoint) == SEQUENCES)
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
        told = t("atlas.own_progress", done=job.done, what=what, seconds=_seconds(job.left))
        st.progress(job.done / job.total, told)
        st.rerun()
    made = job.name if own_atlases.own(job.name) is not None else own_atlases.keep(job)
    st.success(t("atlas.own_cancelled" if job.cancelled else "atlas.own_done", done=job.done, what=what))
    st.button(t("atlas.own_open"), on_click=_open, args=(made,), type="primary")
    st.caption(t("atlas.own_note", most=own_atlases.KEPT))


def _open(name: str) -> None:
    address.put(model=name, **{choices.SCREEN: "cards"})


def _seconds(seconds: float) -> str:
    return f"{max(1.0, seconds):,.0f}"
