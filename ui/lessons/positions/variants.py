"""The screen of the lesson "Positions" that shows every variant of the table beside the paper's."""

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.positions import VARIANTS, Variant, position_table
from transformer.plots.lessons import table_grid
from ui.lessons import shared
from ui.lessons.positions.controls import variant
from ui.lessons.positions.drawing import dark, formula, plot, table_downloads
from ui.lessons.positions.learned import Shown, learned_choice, learned_table
from ui.texts import plain, t


def variants_panel(d_model: int, length: int, base: float, bar: DeltaGenerator) -> None:
    """Every variant's table, and its difference from the paper's of that size; a trained one keeps its own width."""
    with bar:
        chosen = variant("other", [name for name in VARIANTS if name != "paper"], "doubled")
        whose = learned_choice()
    learned = learned_table(whose, length, d_model)
    tables = _tables(d_model, length, base, learned)
    papers = {name: position_table("paper", len(table), table.shape[1], base) for name, table in tables.items()}
    differences: dict[Variant, np.ndarray] = {
        name: table - papers[name] for name, table in tables.items() if name != "paper"
    }
    names = {name: plain(f"positions.variant_{name}") for name in tables}
    figure = table_grid(
        {names[name]: table for name, table in tables.items()},
        {names[name]: table for name, table in differences.items()},
        (plain("positions.position"), plain("positions.dimension")),
        dark=dark(),
    )
    still = {
        name: int((np.ptp(table, axis=0) < 0.01).sum())
        for name, table in (("paper", papers[chosen]), ("variant", tables[chosen]))
    }
    largest = float(np.abs(differences[chosen]).max())
    left, right = shared.columns()
    with left:
        plot(figure, "variants")
        table_downloads({str(name): table for name, table in tables.items()})
    with right:
        formula(chosen)
        note = learned.note if chosen == "learned" else t(f"positions.note_{chosen}")
        shared.explain(f"{t('positions.largest_difference', value=largest, **still)} {note}")
        if (own := learned.table.shape[1]) != d_model:
            st.markdown(t("positions.own_width", own=own, d_model=d_model))
        shared.explain(f"{t('positions.look_variants')} {t('positions.no_learned')}")


def _tables(d_model: int, length: int, base: float, learned: Shown) -> dict[Variant, np.ndarray]:
    """Every variant's table; the learned one has as many rows as there are."""
    return {
        name: learned.table if name == "learned" else position_table(name, length, d_model, base) for name in VARIANTS
    }
