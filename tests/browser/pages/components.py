"""A page that draws the components from numbers that a test can compute again; the address says how many."""

import numpy as np
import streamlit as st

from tests.browser.pages.sample import HOSTILE, attention
from ui.components.all_heads.component import Picked, all_heads
from ui.components.head_view.component import HeadViewEvent, Token, head_view

st.set_page_config(layout="wide")
query = st.query_params
layers, heads, queries, keys = (int(size) for size in query.get("shape", "3,5,11,7").split(","))
weights, visible = attention(layers, heads, queries, keys, causal="causal" in query)
if "nan" in query:
    weights[0, 0, 2, 1] = np.nan
labels = [HOSTILE[i % len(HOSTILE)] if "hostile" in query else f"q{i}" for i in range(queries)]
state = st.session_state
state.setdefault("selected", (min(1, layers - 1), min(2, heads - 1)) if layers and heads else None)
state.setdefault("events", [])


def open_head(picked: Picked) -> None:
    state.selected = (picked.layer, picked.head)


def note(event: HeadViewEvent) -> None:
    state.events.append(event)
    if event.locked or event.released:
        state.locked = event.locked
    if event.pair:
        state.pair = event.pair
    if event.heads is not None:
        state.active = event.heads


if "grid" not in query.get("without", ""):
    picked = all_heads(
        weights[..., :64, :64],
        visible[:64, :64],
        [f"layer {layer}" for layer in range(layers)],
        [f"head {head}" for head in range(heads)],
        state.selected,
        key="grid",
        caption="Every head",
        notes=[[f"note of {layer}, {head}" for head in range(heads)] for layer in range(layers)],
        on_pick=open_head,
    )
    st.text(f"picked {picked}")
    st.text(f"selected {state.selected}")

threshold = st.slider("threshold", 0.0, 1.0, 0.0, 0.05)
if st.button("select the pair 1, 2 and lock key 3"):
    state.pair, state.locked = (1, 2), Token("key", 3)
if "lines" not in query.get("without", ""):
    event = head_view(
        weights[state.selected[0]] if state.selected else weights.reshape(0, queries, keys),
        visible,
        labels,
        [f"k{i}" for i in range(keys)],
        [f"head {head}" for head in range(heads)],
        state.get("active"),
        key="lines",
        selected_pair=state.get("pair"),
        locked=state.get("locked"),
        threshold=threshold,
        query_title="queries (German, being written)",
        key_title="keys (English, read)",
        on_event=note,
    )
    st.text(f"event {event}")
    st.text(f"events {state.events}")
