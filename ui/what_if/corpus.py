"""What was measured of the heads on a corpus: importance, and what is left as more and more of them are removed."""

from pathlib import Path
from typing import Final, Literal, cast

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from transformer import Checkpoint
from transformer.errors import HeedmapError
from transformer.messages import words
from transformer.plots.curves import curves
from transformer.plots.export import plot_config
from transformer.runs.measures.importance import (
    FILE,
    WHOLE,
    HeadImportance,
    Importance,
    Lines,
    beats_random,
    removal_lines,
    steepest,
    training_lines,
)
from ui.shared import controls
from ui.shared.address import choice, parameter, switch
from ui.shared.changes import Changes
from ui.shared.numbers import as_written
from ui.shared.theme import is_dark
from ui.store import store
from ui.store.cache import cached
from ui.texts import plain, t

MEASURES: Final = ("bleu", "nll")

MEASURE: Final = "measure"
"""The query parameter of what is shown: a name of `MEASURES`, or `TRAINING`."""

OPEN: Final = "corpus"
"""The query parameter of whether anything is shown; older addresses name the measure alone."""

NUMBERS: Final = ("zero", "mean", "gradient")
"""What the table says of each head."""

TRAINING: Final = "training"
"""Shown instead of a measure: the same over the snapshots of the training."""


def importance_of(checkpoint: Checkpoint) -> Importance | None:
    """What was measured of a checkpoint's heads; None where nothing was, or only of weights of another moment.

    Raises:
        CheckpointError: a file of it is damaged.
    """
    path = checkpoint.beside(FILE.name)
    return None if path is None else _importance(str(path))


def corpus_panel(name: str, changes: Changes) -> None:
    """Curves and a table, where the checkpoint brings them; heads that this sentence's changes touch are marked.

    They are drawn when they are asked for: until then the page needs no library of charts.
    """
    if not switch(t("what_if.corpus"), parameter(MEASURE) is not None, key=OPEN, help=t("what_if.corpus_help")):
        return
    try:
        found = importance_of(store.checkpoint(name))
    except HeedmapError as error:
        controls.explain(error)
        return
    if found is None:
        st.caption(t("what_if.no_importance"))
        return
    over_training = len(found.removals) > 1
    text = {name: plain(f"what_if.measure_{name}") for name in (*MEASURES, TRAINING)}
    measure = choice(
        t("what_if.measure"), [*MEASURES, *([TRAINING] if over_training else [])], key=MEASURE,
        text=lambda one: text[one],
    )  # fmt: skip
    left, right = st.columns([3, 2], gap="large")
    with left:
        _curves(found, measure)
    with right:
        _table(found.heads[WHOLE], changes)


def _curves(found: Importance, measure: str) -> None:
    """What is left with more and more heads off, or what is lost at each snapshot; and what the numbers say of it."""
    rows, config = found.removals[WHOLE], plot_config(f"importance-{measure}")
    about = {"pairs": found.about.pairs, "source": found.about.source}
    if measure == TRAINING:
        figure = _figure(training_lines(found.removals), words("measure_nll_rise"))
        st.plotly_chart(figure, key="removals", config=config)
        st.caption(t("what_if.training_note", **about))
        return
    kind = cast(Literal["bleu", "nll"], measure)
    figure = _figure(removal_lines(rows, kind), words(f"measure_{kind}"))
    st.plotly_chart(figure, key="removals", config=config)
    st.caption(t("what_if.corpus_note", **about))
    for order in ("zero", "gradient"):
        shares = plain("what_if.between").join(f"{share} %" for share in beats_random(rows, order, kind))
        name = words(f"plan_{order}")
        said = t("what_if.beats_random", order=name, shares=shares) if shares else t("what_if.beats_none", order=name)
        st.caption(said)
    group, most = steepest(rows, kind)
    st.caption(t("what_if.steepest", group=group, share=most))


def _table(heads: tuple[HeadImportance, ...], changes: Changes) -> None:
    """Every head, the one whose loss costs most first."""
    ordered = sorted(heads, key=lambda one: -one.zero)
    table = pd.DataFrame(
        {
            "head": [f"{'● ' if _is_touched(one, changes) else ''}{one.site} H{one.head}" for one in ordered],
            **{name: as_written([getattr(one, name) for one in ordered], 4) for name in NUMBERS},
        }
    )
    columns = {
        name: st.column_config.NumberColumn(plain(f"what_if.column_{name}"), format="%.4f", width=61)
        for name in NUMBERS
    }
    head = st.column_config.TextColumn(plain("what_if.column_head"), width=144)
    st.caption(t("what_if.corpus_table"))
    st.dataframe(table, hide_index=True, column_config={"head": head, **columns}, height=400, placeholder="-")


def _figure(lines: Lines, quantity: str) -> go.Figure:
    """Values over the share of heads that is off."""
    shares, by_name = lines
    dots = range(len(shares))
    figure = curves(by_name, words("figure_heads_off"), quantity, x=shares, dots=dots, dashed=True, dark=is_dark())
    # Names are so long that a phone's window has one a row: above the picture there is room for all of them.
    return figure.update_layout(height=460, margin=dict(t=90, b=48), legend=dict(yref="paper", y=1.02))


def _is_touched(head: HeadImportance, changes: Changes) -> bool:
    return any(one.site == head.site and one.touches_head(head.head) for one in changes)


@cached()
def _importance(path: str) -> Importance:
    return FILE.read(Path(path))
