"""Sequences: read DNA, see its class, where attention went, and which letters decided."""

from collections.abc import Callable

import streamlit as st

from transformer.classify import classifier
from transformer.errors import AttentionAtlasError
from ui import cached, controls, frame, sequence_controls, sequence_runs, sequence_views
from ui.sequence_file import file_panel
from ui.sequence_motifs import motifs_panel

frame.heading(
    "Sequences",
    "A k-mer classifier at work: which letters attention reached, and which letters really decided.",
)
chosen = controls.checkpoint_choice("kmer")
if chosen is None:
    st.stop()
name: str = chosen
try:
    checkpoint = cached.checkpoint(name)
    _, task = classifier(checkpoint)
    what = sequence_controls.one_of("Read", ["One sequence", "A file", "Motifs"], key="read")
    if what == "A file":
        file_panel(name, task)
        st.stop()
    if what == "Motifs":
        motifs_panel(name, task)
        st.stop()
    asking, answering = st.columns([2, 3], gap="large")
    with asking:
        typed = sequence_controls.typed_sequence(checkpoint)
    run = sequence_runs.classification(name, typed.sequence)
    strands = bool(task.alphabet.complement)
    other = sequence_runs.classification(name, task.alphabet.reverse_complement(run.letters.text)) if strands else None
except AttentionAtlasError as error:
    controls.explain(error)
    st.stop()

with answering:
    sequence_views.verdict(run, other, task, typed.description.partition(" ")[0])
place = sequence_controls.place(run)
overview, detail = st.columns([1, 2], gap="medium")
with overview:
    sequence_views.all_heads_panel(run, place)
panels: dict[str, Callable[[], None]] = {
    "Letters": lambda: sequence_views.letters_panel(name, run, place, task, typed.id),
    "Windows": lambda: sequence_views.windows_panel(run, place),
    "Head view": lambda: sequence_views.head_view_panel(run, place),
}
with detail:
    tabs = st.tabs(list(panels), key="sequence-view", on_change="rerun", bind="query-params")
    for tab, panel in zip(tabs, panels.values(), strict=True):
        if tab.open:
            with tab:
                panel()
