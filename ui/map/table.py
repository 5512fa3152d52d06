"""The map as a table, for screen readers and for whoever likes tables: every part in the order in which it runs."""

import numpy as np
import pandas as pd
import streamlit as st

from ui.components.map.component import Tower
from ui.map.drawing import Drawing
from ui.texts import t


def table_panel(found: Drawing, step: int, source: int) -> None:
    """Folded at first, when nothing of it is made; it opens with all that the map says of its parts at this step."""
    with st.expander(t("map.as_table"), icon=":material/table_rows:", key="parts-open", on_change="rerun") as shown:
        if shown.open:
            st.dataframe(parts_table(found, step, source), hide_index=True, key="parts", placeholder="-")


def parts_table(found: Drawing, step: int, source: int) -> pd.DataFrame:
    """One row a part: where it is, what it is, its formula and shapes, what it adds, where its surest head looks."""
    adds: dict[int, float] = {}
    looks: dict[int, str] = {}
    for tower in found.towers:
        position = step if tower.stepped else source
        for number in tower.found:
            adds[number] = _share(tower, number, position)
        for row in tower.rows:
            heads = row.heads
            if heads is not None and tower.stepped and 0 <= step < heads.n_queries == len(found.steps.labels):
                head, key, weight = heads.sure[step]
                looks[row.boxes[0]] = f"H{int(head)} \N{RIGHTWARDS ARROW} {heads.keys[int(key)]} {weight:.2f}"
    numbers = range(len(found.parts))
    return pd.DataFrame(
        {
            t("map.where"): [found.wheres[part.name] for part in found.parts],
            t("map.part"): [part.title for part in found.parts],
            t("map.purpose"): [part.plain for part in found.parts],
            t("map.formula"): [part.formula for part in found.parts],
            t("map.facts"): ["; ".join(part.facts) for part in found.parts],
            t("map.share"): [adds.get(number, np.nan) for number in numbers],
            t("map.looks"): [looks.get(number, "") for number in numbers],
        }
    )


def _share(tower: Tower, number: int, position: int) -> float:
    """What a sum adds, against that and what was there: at a position, or in the mean."""
    found, state = tower.found[number], tower.state[number]
    shares = np.divide(found, found + state, out=np.zeros_like(found), where=found + state > 0)
    return float(shares[position] if 0 <= position < len(shares) else shares.mean())
