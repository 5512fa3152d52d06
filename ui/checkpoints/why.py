"""Why this class: which words of a text spoke for a class and which against it, and how far that can be trusted."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import streamlit as st

from transformer import Checkpoint
from transformer.errors import HeedmapError
from transformer.messages import Message, words
from transformer.runs.any_model import ModelRun
from transformer.runs.class_reasons import Reasons, Way, class_reasons, ways
from transformer.runs.classes import classes_of
from ui.shared import address, controls
from ui.shared.bars import effects
from ui.shared.files import Origin, frame_csv
from ui.store import runs, store
from ui.store.progress import Told, with_progress
from ui.texts import in_this_language, plain, said, t

WHY, CLASS, WAY = "why", "class", "reasons"
"""The query parameters: whether it is asked, of which class (its number), and in which way."""

MOST_BARS = 40
"""Words that have a bar, the strongest ones; the file holds all."""

FEW = 5
"""Classes up to which they stand beside each other."""


def why_panel(name: str, checkpoint: Checkpoint, shown: ModelRun) -> None:
    """Where a model put a whole text into classes: the question, and its answer once it is asked."""
    known = ways(checkpoint, shown)
    if not known or not address.switch(t("reasons.ask"), False, key=WHY, help=t("reasons.ask_help")):
        return
    classes = classes_of(checkpoint, shown.outputs["logits"])
    numbers = [str(number) for number in range(len(classes.names))]
    address.belong_to((name, shown.input), CLASS)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="why-options"):
        target = address.choice(
            t("reasons.class"), numbers, key=CLASS, default=numbers[int(classes.probabilities.argmax())],
            text=lambda number: classes.names[int(number)], form="segments" if len(numbers) <= FEW else "list",
        )  # fmt: skip
        asked = address.choice(
            t("reasons.way"), known, key=WAY, form="list", width=320,
            text=lambda one: said(Message(f"attribution_{one}")),
        )  # fmt: skip
        way = next(one for one in known if one == asked)
    try:
        found = _reasons(name, checkpoint, shown, int(target), way)
    except HeedmapError as error:  # of this question alone: the maps are there all the same
        controls.explain(error)
        return
    if found is not None:
        _answer(found, way, classes.names[int(target)], Origin(name, shown.input))


def _reasons(name: str, checkpoint: Checkpoint, shown: ModelRun, target: int, way: Way) -> Reasons | None:
    """What the words add; a bar tells how far it is, and a button stops it (None)."""
    passes = len(shown.ids) ** 2 * checkpoint.n_parameters

    def begin() -> Told | None:
        return None if passes < runs.QUICK else lambda done: plain("reasons.done", share=f"{done:.0%}")

    def compute(progress: Callable[[float], None]) -> Reasons:
        return class_reasons(checkpoint, shown, target, way, progress)

    what = plain("reasons.ask")
    return with_progress("class-reasons", (store.revision(name), shown.input, target, way), what, what, begin, compute)


def _answer(found: Reasons, way: Way, name: str, origin: Origin) -> None:
    """A bar a word, in the text's order, and the same as a file."""
    sizes = np.nan_to_num(np.abs(found.added))
    drawn = sorted(np.argsort(-sizes, kind="stable")[:MOST_BARS].tolist())
    effects(
        [found.words[i] for i in drawn], [float(np.nan_to_num(found.added[i])) for i in drawn],
        words("figure_added_to_log_odds", name=name), key="reasons",
    )  # fmt: skip
    if len(drawn) < len(found.words):
        st.caption(t("reasons.strongest", most=MOST_BARS, count=len(found.words)))
    st.caption(t(f"reasons.{way}"))
    about = plain("files.about_separator").join(origin.facts(said(Message(f"attribution_{way}"))))
    table = pd.DataFrame({plain("reasons.word"): found.words, plain("reasons.added", name=name): found.added})
    table = table.assign(**{plain("what_if.csv_about"): about})
    st.download_button(
        t("reasons.csv"), in_this_language(lambda: frame_csv(table)), f"{origin.stem('why', name)}.csv",
        "text/csv", on_click="ignore", icon=":material/download:", key="reasons-csv",
    )  # fmt: skip
