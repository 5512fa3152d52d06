"""A page that draws the components from numbers that a test can compute again; the address says how many."""

import numpy as np
import streamlit as st

from tests.browser.pages.sample import HOSTILE, alignment_moments, attention, lines_sent, product_board
from transformer.messages import speaking
from ui.components.alignments.component import alignments
from ui.components.all_heads.component import Picked, all_heads
from ui.components.bitext.component import Words
from ui.components.bitext.component import component as bitext
from ui.components.head_view.component import component as head_view
from ui.components.matrices.component import Cell, matrices

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
state.setdefault("pairs", [])
state.setdefault("cell", Cell("C", 0, 1))


def open_head(picked: Picked) -> None:
    state.selected = (picked.layer, picked.head)


def keep_pair(said: dict[str, int]) -> None:
    state.pair = said["query"], said["key"]
    state.pairs.append(state.pair)


def keep_cell(cell: Cell | None) -> None:
    state.cell = cell


def grid() -> None:
    all_heads(
        weights[..., :64, :64],
        visible[:64, :64],
        [f"L{layer}" for layer in range(layers)],
        [f"H{head}" for head in range(heads)],
        state.selected,
        key="grid",
        on_pick=None if "deaf" in query else open_head,
    )
    st.text(f"selected {state.selected}")


def lines() -> None:
    if st.button("select the pair 1, 2"):
        state.pair = (1, 2)
    shown = weights[state.selected[0]] if state.selected else weights.reshape(0, queries, keys)
    header, arrays = lines_sent(shown, visible, labels, [f"k{i}" for i in range(keys)])
    pair = state.get("pair")
    options = {"active": state.get("active"), "selected_pair": pair and list(pair), "threshold": 0.0}
    events = {"pair": None if "deaf" in query else keep_pair}
    head_view(key="lines", header=header, arrays=arrays, options=options, events=events)
    st.text(f"pairs {state.pairs}")


def maps() -> None:
    moments, columns = alignment_moments()
    alignments(moments, columns, key="maps", same_rows=True)


def board() -> None:
    hear = None if "deaf" in query else keep_cell
    matrices(product_board(), ["A", "B", "C"], state.cell, key="board", weights=["A"], on_pick=hear)
    st.text(f"cell {state.cell}")


def keep_word(said: dict[str, int]) -> None:
    state.word = None if state.get("word") == said["query"] else said["query"]


def sentences() -> None:
    attached = [i % 3 == 2 for i in range(max(queries, keys))]
    target = Words(labels, attached[:queries], [i == queries - 1 for i in range(queries)], "T")
    source = Words([f"k{i}" for i in range(keys)], attached[:keys], [i == keys - 1 for i in range(keys)], "S")
    decided = [[(i * 5) % keys if i % 4 else -1, 0.5 + i] for i in range(queries)]
    header = {
        "shape": [queries, keys], "head": "L1 H2", "within": False, "how": "D1", "file_name": "bitext",
        "key": source.message(), "query": target.message(), "decided": decided,
        "about": {"title": "", "lines": []},
    }  # fmt: skip
    bitext(
        key="bitext",
        header=header,
        arrays={"weights": np.where(visible, weights[1, 2], -np.inf).astype(np.float32)},
        options={"selected": state.get("word")},
        events={"picked": None if "deaf" in query else keep_word},
    )
    st.text(f"word {state.get('word')}")


PARTS = {"grid": grid, "lines": lines, "maps": maps, "board": board, "bitext": sentences}
with speaking(query.get("lang", "en")):
    for name, draw in PARTS.items():
        if name in shown:
            draw()
