"""A page that draws the components from numbers that a test can compute again; the address says how many."""

from collections.abc import Callable

import numpy as np
import streamlit as st

from heedmap.messages import speaking
from tests.browser.pages.sample import HOSTILE, alignment_moments, attention, lines_sent, product_board
from ui.components.alignments.component import alignments
from ui.components.matrices.component import Cell, matrices
from ui.components.shared.mounting import CanvasComponent
from ui.components.views import all_heads, bitext, columns

st.set_page_config(layout="wide")
query = st.query_params
shown = query.get("show", "grid,lines").split(",")
layers, heads, queries, keys = (int(size) for size in query.get("shape", "3,5,11,7").split(","))
weights, visible = attention(layers, heads, queries, keys, causal="causal" in query)
if "nan" in query:
    weights[0, 0, 2, 1] = np.nan
labels = [HOSTILE[i % len(HOSTILE)] if "hostile" in query else f"q{i}" for i in range(queries)]
state = st.session_state
state.setdefault("selected", (min(1, layers - 1), min(2, heads - 1)) if layers and heads else None)
state.setdefault("cell", Cell("C", 0, 1))


def kept(name: str) -> Callable[..., None] | None:
    """What keeps what is picked, in the session; nothing listens on a deaf page."""
    return None if "deaf" in query else lambda *picked: setattr(state, name, picked if len(picked) > 1 else picked[0])


def grid() -> None:
    all_heads(weights[..., :64, :64], visible[:64, :64], state.selected, key="grid", on_pick=kept("selected"))
    st.text(f"selected {state.selected}")


def maps() -> None:
    moments, columns = alignment_moments()
    alignments(moments, columns, key="maps", same_rows=True)


def board() -> None:
    matrices(product_board(), ["A", "B", "C"], state.cell, key="board", weights=["A"], on_pick=kept("cell"))
    st.text(f"cell {state.cell}")


def keep_word(said: dict[str, int]) -> None:
    state.word = None if state.get("word") == said["query"] else said["query"]


def lines(component: CanvasComponent) -> None:
    layer, head = state.selected or (0, 0)
    shown = weights[layer] if layers else weights.reshape(0, queries, keys)
    read = [f"k{i}" for i in range(keys)]
    header, arrays = lines_sent(shown, visible, labels, read, min(head, heads - 1), mean="mean" in query)
    events = {"picked": None if "deaf" in query else keep_word}
    component(key=component.name, header=header, arrays=arrays, options={"selected": state.get("word")}, events=events)
    st.text(f"word {state.get('word')}")


PARTS = {
    "grid": grid, "lines": lambda: lines(columns), "maps": maps, "board": board, "bitext": lambda: lines(bitext),
}  # fmt: skip
with speaking(query.get("lang", "en")):
    for name, draw in PARTS.items():
        if name in shown:
            draw()
