"""A page that draws 10,000 points in the plane of queries and keys: 250 sentences of 20 tokens on both sides."""

import numpy as np
import streamlit as st

from ui.components.vectors.component import Sentence, vectors

N_SENTENCES, N_TOKENS = 250, 20

st.set_page_config(layout="wide")
rng = np.random.default_rng(0)
words = [f"w{token}" for token in range(N_TOKENS)]
count = N_SENTENCES * N_TOKENS
vectors(
    [Sentence(words, words, rng.dirichlet(np.full(N_TOKENS, 0.3), N_TOKENS)) for _ in range(N_SENTENCES)],
    rng.normal(size=(count, 2)),
    rng.normal(size=(count, 2)),
    rng.integers(0, 3, 2 * count),
    ["one", "two", "three"],
    key="plane",
)
st.text("ready")
