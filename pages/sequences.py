"""Sequences: read DNA, see its class, where attention went, and which letters decided."""

import streamlit as st

from transformer.errors import HeedmapError
from transformer.runs.sequences.classify import classifier
from transformer.runs.sequences.held_out import known_held_out
from transformer.sequences.fasta import label_of
from ui import shell
from ui.sequences import in_browser, runs, task_form, views
from ui.sequences.file import file_panel
from ui.sequences.motifs import motifs_panel
from ui.sequences.scan import scan_panel
from ui.shared import address, controls
from ui.shared import sequence_controls as asked
from ui.shared.address import choice
from ui.shared.part import part
from ui.shared.zooming import is_long
from ui.store import store
from ui.texts import plain, t

FEW_HEADS = 4
"""Up to so many heads in a layer, all heads fit beside one of them; more take the page's width."""

shell.heading(t("sequences.title"), t("sequences.intro"))
chosen = controls.checkpoint_choice("kmer")
if chosen is None:
    address.stop()
name: str = chosen
try:
    checkpoint = store.checkpoint(name)
    if task_form.is_unsaid(name, checkpoint):
        task_form.ask(name, checkpoint)
        address.stop()
    task_form.said_here(name)
    _, task = classifier(checkpoint)
    what = choice(
        t("sequences.read"), ["one", "scan", "file", "motifs"], key="read",
        text=lambda one: plain(f"sequences.read_{one}"),
    )  # fmt: skip
    if what == "scan":
        scan_panel(name, checkpoint, task)
        address.stop()
    if what == "file":
        file_panel(name, task)
        address.stop()
    if what == "motifs":
        motifs_panel(name, task)
        address.stop()
    with st.container(key="sequence-area"):
        left, right = st.columns([2, 3], gap="large")
    with left:
        typed = asked.typed_sequence(checkpoint, longest=None)
    read = runs.classification(name, typed.sequence)
    if read is None:
        address.stop()
    held_out = known_held_out(checkpoint)
    on_other_strand = runs.other_strand(name, task, read)
except HeedmapError as error:
    controls.explain(error)
    address.stop()

with right:
    views.verdict(read, on_other_strand, task, label_of(typed, task.classes), held_out)
sequence, record_id = typed.sequence, typed.id  # of a pasted text, which may hold many records, no more is kept


def looked_at() -> None:
    """What depends on the layer and head: the run is looked up anew, since a part keeps nothing."""
    run = runs.classification(name, sequence)
    if run is None:
        return
    chooser = st.container()
    few = max(run.record[site].n_heads for site in run.record.sites) <= FEW_HEADS
    overview, detail = st.columns([1, 2], gap="medium") if few else (st.container(), st.container())
    with detail:
        view = choice(
            t("sequences.view"), ["letters", "windows", "heads"], key="view", bare=True,
            text=lambda one: plain(f"sequences.view_{one}"),
        )  # fmt: skip
        width = views.width(run) if view == "heads" else 0
    with chooser:
        browser = in_browser.bring(run, view, width)
        in_browser.head_panel(browser, name)
    with overview:
        in_browser.all_heads_panel(browser)
        asked.pooling_note(run)
        views.groups_note(run)
    with detail:
        if view == "letters":
            views.letters_panel(name, run, browser.place, task, record_id)
        elif view == "heads":
            in_browser.lines_panel(browser, width)
        elif is_long(run.record[browser.place.site]):
            views.long_windows(run, browser.place)
        else:
            in_browser.heatmap_panel(browser, views.groups(run))


part(looked_at)
