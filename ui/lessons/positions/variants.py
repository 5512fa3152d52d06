"""The screen of the lesson "Positions" that shows every variant of the table beside the paper's."""

import numpy as np
import streamlit as st

from transformer.errors import InputError
from transformer.figures.lessons import table_grid
from transformer.layers.positions import TablePositions
from transformer.lessons.positions import VARIANTS, Variant, first_rows, learned_positions, position_table
from ui.lessons.positions.controls import UNTRAINED, variant
from ui.lessons.positions.drawing import dark, formula, plot, table_downloads
from ui.shared import controls
from ui.shared.address import choice
from ui.store import store
from ui.texts import t


def variants_panel(d_model: int, length: int, base: float) -> None:
    """Every variant's table, and its difference from the paper's; the learned one may be a checkpoint's own."""
    st.caption(t("positions.look_variants"))
    learned = _learned_choice()
    if learned is not None:
        d_model = learned.table.shape[1]
        st.caption(t("positions.own_sizes", rows=len(learned.table), d_model=d_model))
    tables = _tables(d_model, length, base, learned)
    differences: dict[Variant, np.ndarray] = {
        name: table - tables["paper"] for name, table in tables.items() if name != "paper"
    }
    names = {name: t(f"positions.variant_{name}") for name in tables}
    figure = table_grid(
        {names[name]: table for name, table in tables.items()},
        {names[name]: table for name, table in differences.items()},
        (t("positions.position"), t("positions.dimension")),
        dark=dark(),
    )
    plot(figure, "variants")
    chosen = variant("other", list(differences), "doubled")
    formula(chosen)
    still = {
        name: int((np.ptp(table, axis=0) < 0.01).sum())
        for name, table in (("paper", tables["paper"]), ("variant", tables[chosen]))
    }
    largest = float(np.abs(differences[chosen]).max())
    st.caption(t("positions.largest_difference", value=largest, **still))
    table_downloads(**tables)


def _tables(d_model: int, length: int, base: float, learned: TablePositions | None) -> dict[Variant, np.ndarray]:
    """Every variant's table; without the learned one, and with the reason, where a checkpoint's is too short."""
    tables = {name: position_table(name, length, d_model, base) for name in VARIANTS}
    if learned is not None:
        try:
            tables["learned"] = first_rows(learned, length)
        except InputError as error:
            st.error(controls.sentence(error.message), icon=":material/block:")
            del tables["learned"]
    return tables


def _learned_choice() -> TablePositions | None:
    """Whose learned table is shown; None for a new one."""
    found = {
        name: learned
        for name in store.checkpoint_names("seq2seq", "encoder", "kmer")
        if (learned := learned_positions(store.checkpoint(name).model)) is not None
    }
    whose = choice(
        t("positions.whose"), [UNTRAINED, *found], key="whose", form="list", width=320,
        text=lambda name: t("positions.untrained") if name == UNTRAINED else name,
    )  # fmt: skip
    if not found:
        st.caption(t("positions.no_learned"))
    return found.get(whose)
