"""Sequences: where a classifier sees sites in a gene, and what it looked at there."""

import streamlit as st

from heedmap.runs.sequences.classify import classifier
from heedmap.sequences.fasta import label_of
from ui import shell
from ui.sequences import source, views
from ui.sequences.gene import gene_panel
from ui.shared import address, controls, subject
from ui.shared import sequence as asked
from ui.shared.address import named
from ui.shared.part import part
from ui.store import store
from ui.texts import t

FEW_HEADS = 4
"""Up to so many heads in a layer, all heads fit beside one of them; more take the page's width."""

shell.heading(t("sequences.title"), t("sequences.intro"))
name = controls.checkpoint_choice("kmer")
row = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="sequence-row")
with shell.explained():
    checkpoint = store.checkpoint(name)
    _, task = classifier(checkpoint)
    with row:
        given = source.brought(name, checkpoint, task.background)
    source.warn(given.notes)
    here = source.asked_for(given.record, task)
    if here is None:
        gene_panel(name, checkpoint, task, given, row)
        address.stop()
    if here.is_part:
        with row:
            source.way_back(here)
    else:
        subject.show(name, here.text)
        if given.changes or given.genes:
            st.warning(
                t("sequences.only_scanned", least=int(source.LONGER * task.length) + 1), icon=":material/warning:"
            )
    read = source.classification(name, here.text, here.places)
    on_other_strand = source.other_strand(name, task, read)

shown: source.Reading = here


def looked_at() -> None:
    """What depends on the layer and head: the run is looked up anew, since a part keeps nothing."""
    run = source.classification(name, shown.text, shown.places)
    few = max(run.record[site].n_heads for site in run.record.sites) <= FEW_HEADS
    left, detail = st.columns([1, 2], gap="medium")
    overview = left if few else st.container()
    with detail:
        small = len(run.spans) <= views.MOST_WINDOWS
        views_ = ["letters", "windows"] if small else ["letters"]
        view = named("sequences.view", views_, key="view", bare=True)
        chooser = st.container()
    with left:
        views.verdict(run, on_other_strand, task, label_of(given.record, task.classes))
    with chooser:
        browser = views.bring(run, view)
        views.head_panel(browser, name, shown.fasta)
    with overview:
        views.all_heads_panel(run, browser)
        asked.pooling_note(run)
    with detail:
        if view == "letters":
            views.letters_panel(name, run, browser.choice, task, shown)
        else:
            views.heatmap_panel(run, browser)


part(looked_at)
