"""What changed from one model to the other: distances, waiting and multiplications, counted."""

import pandas as pd
import streamlit as st

from transformer.lessons.architectures.costs import EncoderCosts, costs_of, crossing
from transformer.plots.curves import curves
from transformer.plots.export import plot_config
from ui.align.choices import Pair
from ui.shared.theme import is_dark
from ui.store import store
from ui.texts import t

PLOTTED = tuple(sorted({round(2 ** (power / 4)) for power in range(4, 49)}))
"""Lengths of the curves: 2 to 4,096 tokens."""


def changes_panel(shown: Pair) -> None:
    """Counted from the configs for the sentence that was typed, and drawn for all lengths."""
    tokens = len(shown.first.own.source_ids)
    costs = [costs_of(store.checkpoint(side.name).model.config, side.title) for side in shown.sides]
    st.markdown(f"**{t('align.look_changes', tokens=tokens)}**", help=t("align.look_changes_help"))
    table = _table(shown, costs, tokens)
    wide = {name: st.column_config.TextColumn(width=270) for name in table.columns}
    st.dataframe(table, width="content", column_config=wide, key="costs", placeholder="-")
    st.markdown(f"**{t('align.counted')}**")
    lines = {
        name: [float(cost.multiply_adds(n)) for n in PLOTTED] for name, cost in zip(table.columns, costs, strict=True)
    }
    figure = curves(
        lines, t("align.tokens"), t("align.multiply_adds"), x=PLOTTED, log_x=True, log_y=True, mark=float(tokens),
        mark_name=t("align.your_sentence", tokens=tokens), dashed=True, dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="counted", config=plot_config("multiply-adds"))
    where = crossing(*costs)
    st.caption(t("align.crossing", tokens=where) if where else t("align.no_crossing"))


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
    names = [f"{i}. {side.title}" for i, side in enumerate(shown.sides, 1)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=names)


def _waiting(cost: EncoderCosts) -> str:
    """Steps that wait for each other, for n tokens."""
    if not cost.recurrent:
        return str(cost.layers)
    return "n" if cost.layers == 1 else f"{cost.layers}n"
