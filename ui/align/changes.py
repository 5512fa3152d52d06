"""What changed from one model to the other: distances, waiting and multiplications, counted and measured."""

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from transformer.figures.curves import Line, growth
from transformer.figures.export import plot_config, table_csv
from transformer.figures.file_names import file_name
from transformer.lessons.architectures.costs import EncoderCosts, costs_of, crossing
from transformer.lessons.architectures.timing import LENGTHS, REPEATS, EncoderTime, encoder_times
from ui.align.choices import Pair
from ui.store import store
from ui.store.cache import session_store
from ui.texts import plain, t

PLOTTED = tuple(sorted({round(2 ** (power / 4)) for power in range(4, 49)}))
"""Lengths of the curves: 2 to 4,096 tokens."""

TIMES = "align.times"
"""Where the session keeps what it measured, by the two models and their revisions."""


def changes_panel(shown: Pair) -> None:
    """Counted from the configs for the sentence that was typed, drawn for all lengths, and measured on request."""
    tokens = len(shown.first.own.source_ids)
    costs = [costs_of(store.checkpoint(side.name).model.config, side.label) for side in shown.sides]
    st.caption(t("align.look_changes", tokens=tokens))
    table = _table(shown, costs, tokens)
    wide = {name: st.column_config.TextColumn(width=270) for name in table.columns}
    st.dataframe(table, width="content", column_config=wide, key="costs")
    counted, measured = st.columns(2, gap="large")
    dark = st.context.theme.type == "dark"
    with counted:
        st.markdown(f"**{t('align.counted')}**")
        lines = [
            Line(side.label, PLOTTED, [float(cost.multiply_adds(n)) for n in PLOTTED])
            for side, cost in zip(shown.sides, costs, strict=True)
        ]
        figure = _over_tokens(lines, t("align.multiply_adds"), tokens, dark)
        st.plotly_chart(figure, key="counted", config=plot_config("multiply-adds"))
        where = crossing(*costs)
        st.caption(t("align.crossing", tokens=where) if where else t("align.no_crossing"))
    with measured:
        st.markdown(f"**{t('align.measured')}**")
        _times_panel(shown, tokens, dark)


def _table(shown: Pair, costs: list[EncoderCosts], tokens: int) -> pd.DataFrame:
    rows = {
        t("align.path_length"): [f"{cost.path_length(tokens):,}" for cost in costs],
        t("align.path_growth"): ["n-1" if cost.recurrent else "1" for cost in costs],
        t("align.sequential"): [f"{cost.sequential_steps(tokens):,}" for cost in costs],
        t("align.sequential_growth"): [_waiting(cost) for cost in costs],
        t("align.multiply_adds"): [f"{cost.multiply_adds(tokens):,}" for cost in costs],
        t("align.formula"): [cost.formula for cost in costs],
        t("align.layers"): [str(cost.layers) for cost in costs],
    }
    names = [f"{i}. {side.label}" for i, side in enumerate(shown.sides, 1)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=names)


def _over_tokens(lines: list[Line], value: str, tokens: int, dark: bool, dots: bool = False) -> go.Figure:
    """How something grows with the length, that of the typed sentence marked."""
    marked = t("align.your_sentence", tokens=tokens)
    return growth(lines, value, length=tokens, length_name=marked, axis=t("align.tokens"), dots=dots, dark=dark)


def _waiting(cost: EncoderCosts) -> str:
    """Steps that wait for each other, for n tokens."""
    if not cost.recurrent:
        return str(cost.layers)
    return "n" if cost.layers == 1 else f"{cost.layers}n"


def _times_panel(shown: Pair, tokens: int, dark: bool) -> None:
    key = tuple(store.revision(side.name) for side in shown.sides)
    measured = session_store(TIMES)
    above = st.empty()
    if st.button(
        t("align.measure"), key="measure", icon=":material/timer:", help=t("align.measure_help", repeats=REPEATS)
    ):
        measured.put(key, _measured(shown))
    found: list[EncoderTime] | None = measured.find(key)
    if found is None:
        above.info(t("align.not_measured", shortest=LENGTHS[0], longest=LENGTHS[-1]))
        return
    lines = []
    for number, side in enumerate(shown.sides):
        mine = [time for time in found if time.model == number]
        lines.append(Line(side.label, [time.tokens for time in mine], [time.seconds for time in mine]))
    figure = _over_tokens(lines, t("align.seconds"), tokens, dark, dots=True)
    above.plotly_chart(figure, key="measured", config=plot_config("encoder-times"))
    rows = [(time.tokens, shown.sides[time.model].label, time.seconds) for time in found]
    header = [plain(f"align.table_{column}") for column in ("tokens", "model", "seconds")]
    names = [side.name for side in shown.sides]
    st.download_button(
        t("align.times_csv"), table_csv(header, rows), f"{file_name(*names, 'encoder-times')}.csv", "text/csv",
        on_click="ignore",
    )  # fmt: skip


def _measured(shown: Pair) -> list[EncoderTime]:
    """Time both encoders, and show how far it has come."""
    models = [store.checkpoint(side.name).model for side in shown.sides]
    bar, found = st.progress(0.0, t("align.measuring")), []
    for time in encoder_times(models):
        found.append(time)
        done = (LENGTHS.index(time.tokens) + (time.model + 1) / len(models)) / len(LENGTHS)
        bar.progress(done, t("align.measured_at", tokens=time.tokens, milliseconds=1000 * time.seconds))
    bar.empty()
    return found
