"""A page that draws 12 x 12 heads of 128 tokens when its button is pressed: thumbnails of at most 64 x 64 blocks."""

import numpy as np
import streamlit as st

from benchmarks.heads import N_HEADS, N_LAYERS, attention_of_heads
from ui.components.all_heads.component import LARGEST_SIDE, all_heads

st.set_page_config(layout="wide")
if st.button("Draw"):
    maps = attention_of_heads()
    all_heads(
        np.array([[layer.overview(head, LARGEST_SIDE) for head in range(N_HEADS)] for layer in maps]),
        None,
        [f"L{layer}" for layer in range(N_LAYERS)],
        [f"H{head}" for head in range(N_HEADS)],
        None,
        key="grid",
    )
st.text("ready")
