"""Sequence logos: what known sites of a class have in common, and what the new ones of a sequence have."""

from collections.abc import Sequence

import streamlit as st

from transformer.plots.export import plot_config
from transformer.plots.logo import logo
from transformer.runs.sequences.scan import ScanPlan
from transformer.sequences.annotation import Place, is_known
from transformer.sequences.hits import Hit
from transformer.sequences.motifs import heights, letter_counts
from transformer.sequences.task import SequenceTask
from ui.sequences import runs
from ui.shared.address import switch
from ui.shared.theme import is_dark
from ui.store import store
from ui.texts import plain, t

FEWEST, AROUND = 5, 10
"""Of fewer sequences no logo is drawn; and letters on either side of a site that stand in one."""


def logo_panel(texts: Sequence[str], task: SequenceTask, places: Sequence[int], title: str, label: str) -> None:
    """The logo of `texts`, whose letters are called by `places`; nothing of too few."""
    if len(texts) < FEWEST:
        return
    letters = task.alphabet.letters
    figure = logo(
        letters, heights(letter_counts(texts, letters)), [str(place) if place % 10 == 0 else "" for place in places],
        title=plain(f"sequences.{title}", label=label, count=len(texts)), dark=is_dark(),
    )  # fmt: skip
    figure.update_layout(margin=dict(l=46, r=10, t=36, b=40), height=220)  # as wide as the tracks
    figure.update_yaxes(automargin=False, nticks=3)
    st.plotly_chart(figure, key=title, config=plot_config(f"{label}-{title}", "svg"))


def known_and_new(name: str, plan: ScanPlan, hits: Sequence[Hit], known: set[Place], chosen: Hit | None) -> None:
    """Known sites of a class beside its hits that no annotation names: of the chosen hit's class, or the first one.

    They are drawn when they are asked for: until then the page needs no library of charts.
    """
    task = plan.checkpoint.task
    label = chosen.label if chosen else next((hit.label for hit in hits if hit.term), "")
    mark = task.landmark(label) if task else None
    new = [hit for hit in hits if hit.label == label and not is_known(hit, known)]
    if task is None or mark is None or len(new) < FEWEST or not switch(t("sequences.logos"), False, key="logos"):
        return

    def around(text: str) -> str:
        return text[max(0, mark.start - AROUND) : mark.start + len(mark.letters) + AROUND]

    windows = [plan.letters.text[hit.start : hit.end] for hit in new]
    read = [
        text if hit.strand == "+" else task.alphabet.reverse_complement(text)
        for hit, text in zip(new, windows, strict=True)
    ]
    examples = runs.examples_of(store.revision(name), label, store.checkpoint(name))
    places = range(1 + max(0, mark.start - AROUND), task.length + 1)
    for column, texts, title in zip(st.columns(2), (examples, read), ("logo_title", "logo_new"), strict=True):
        with column:
            cut = [around(text) for text in texts]
            logo_panel(cut, task, places[: len(cut[0])] if cut else (), title, label)
    st.caption(t("sequences.logo_note", label=label))
