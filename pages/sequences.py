"""Sequences: read DNA, see its class, where attention went, and which letters decided."""

import streamlit as st

from transformer.classify import classifier
from transformer.errors import AttentionAtlasError
from ui import cached, controls, frame, sequence_controls, sequence_runs, sequence_views
from ui.sequence_file import file_panel
from ui.sequence_motifs import motifs_panel
from ui.texts import t

frame.heading(t("sequences.title"), t("sequences.intro"))
chosen = controls.checkpoint_choice("kmer")
if chosen is None:
    st.stop()
name: str = chosen
try:
    checkpoint = cached.checkpoint(name)
    _, task = classifier(checkpoint)
    what = sequence_controls.what_to_read()
    if what == "file":
        file_panel(name, task)
        st.stop()
    if what == "motifs":
        motifs_panel(name, task)
        st.stop()
    asking, answering = st.columns([2, 3], gap="large")
    with asking:
        typed = sequence_controls.typed_sequence(name, checkpoint)
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
with detail:
    view = sequence_controls.view()
    if view == "letters":
        sequence_views.letters_panel(name, run, place, task, typed.id)
    elif view == "windows":
        sequence_views.windows_panel(run, place)
    else:
        sequence_views.head_view_panel(run, place)
