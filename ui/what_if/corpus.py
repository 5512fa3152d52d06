"""What was measured of the heads on a corpus: importance, and what is left as more and more of them are removed."""

from pathlib import Path
from typing import Final, Literal, cast

import pandas as pd
import streamlit as st

from transformer.errors import HeedmapError
from transformer.figures.export import PLOT_CONFIG
from transformer.figures.importance import removal_curves
from transformer.messages import words
from transformer.runs.importance import HeadImportance, removal_lines
from transformer.runs.importance_tables import FOLDER, WHOLE, Importance
from ui.shared import controls
from ui.shared.address import choice
from ui.shared.theme import is_dark
from ui.store.cache import cached
from ui.texts import plain, t
from ui.what_if.changes import Changes

MEASURES: Final = ("bleu", "nll")


def corpus_panel(folder: Path | None, changes: Changes) -> None:
    """Curves and a table, where the checkpoint brings them; heads that this sentence's changes touch are marked."""
    st.markdown(f"**{t('what_if.corpus')}**", help=t("what_if.corpus_help"))
    if folder is None or not (folder / FOLDER).is_dir():
        st.caption(t("what_if.no_importance"))
        return
    try:
        found = _importance(str(folder / FOLDER))
    except HeedmapError as error:
        controls.explain(error)
        return
    rows = found.removals[WHOLE]
    text = {"bleu": plain("what_if.measure_bleu"), "nll": plain("what_if.measure_nll")}
    measure = choice(t("what_if.measure"), MEASURES, key="measure", text=lambda one: text[one])
    kind = cast(Literal["bleu", "nll"], measure)
    left, right = st.columns([3, 2], gap="large")
    with left:
        figure = removal_curves(removal_lines(rows, kind), words(f"measure_{kind}"), dark=is_dark())
        st.plotly_chart(figure, key="removals", config=PLOT_CONFIG)
        st.caption(t("what_if.corpus_note", pairs=found.about["pairs"], source=found.about["source"]))
    with right:
        _table(found.heads[WHOLE], changes)


def _table(heads: tuple[HeadImportance, ...], changes: Changes) -> None:
    """Every head, the one whose loss costs most first."""
    ordered = sorted(heads, key=lambda one: -one.zero)
    table = pd.DataFrame(
        {
            "changed": ["●" if _is_touched(one, changes) else "" for one in ordered],
            "head": [f"{one.site} H{one.head}" for one in ordered],
            "zero": [one.zero for one in ordered],
            "mean": [one.mean for one in ordered],
            "gradient": [one.gradient for one in ordered],
        }
    )
    numbers = {
        name: st.column_config.NumberColumn(plain(f"what_if.column_{name}"), format="%.4f")
        for name in ("zero", "mean", "gradient")
    }
    columns = {
        "changed": st.column_config.TextColumn(plain("what_if.column_changed")),
        "head": st.column_config.TextColumn(plain("what_if.column_head")),
        **numbers,
    }
    st.dataframe(table, hide_index=True, column_config=columns, height=400)


def _is_touched(head: HeadImportance, changes: Changes) -> bool:
    return any(one.site == head.site and one.touches_head(head.head) for one in changes)


@cached(max_entries=8)
def _importance(folder: str) -> Importance:
    return Importance.of_folder(Path(folder))
