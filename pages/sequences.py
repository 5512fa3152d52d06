"""Sequences: where a classifier sees sites in a gene, and what it looked at there."""

import streamlit as st

from transformer.errors import HeedmapError
from transformer.runs.sequences.classify import classifier
from transformer.sequences.fasta import label_of
from ui import shell
from ui.sequences import in_browser, reading, runs, views
from ui.sequences.gene import gene_panel
from ui.sequences.source import brought
from ui.shared import address, controls, subject
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
row = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="sequence-row")
try:
    checkpoint = store.checkpoint(name)
    _, task = classifier(checkpoint)
    with row:
        source = brought(name, checkpoint, task.background)
    here = reading.asked_for(source.record, task)
    if here is None:
        gene_panel(name, checkpoint, task, source, row)
        address.stop()
    if here.is_part:
        with row:
            reading.way_back(here)
    else:
        subject.show(name, here.text)
    read = runs.classification(name, here.text, here.places)
    on_other_strand = runs.other_strand(name, task, read)
except HeedmapError as error:
    controls.explain(error)
    address.stop()

shown: reading.Reading = here


def looked_at() -> None:
    """What depends on the layer and head: the run is looked up anew, since a part keeps nothing."""
    run = runs.classification(name, shown.text, shown.places)
    few = max(run.record[site].n_heads for site in run.record.sites) <= FEW_HEADS
    left, detail = st.columns([1, 2], gap="medium")
    overview = left if few else st.container()
    with detail:
        small = not any(map(is_long, run.record.values()))
        view = choice(
            t("sequences.view"), ["letters", "windows"] if small else ["letters"], key="view", bare=True,
            old={"heads": "windows"}, text=lambda one: plain(f"sequences.view_{one}"),
        )  # fmt: skip
        chooser = st.container()
    with left:
        views.verdict(run, on_other_strand, task, label_of(source.record, task.classes))
    with chooser:
        browser = in_browser.bring(run, view)
        in_browser.head_panel(browser, name, shown.fasta)
    with overview:
        in_browser.all_heads_panel(browser)
        asked.pooling_note(run)
    with detail:
        if view == "letters":
            views.letters_panel(name, run, browser.place, task, shown)
        else:
            in_browser.heatmap_panel(browser, views.groups(run))


part(looked_at)
