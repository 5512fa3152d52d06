"""The three ways to bring a model, each with the lines to copy."""

from typing import Final

import streamlit as st

from ui.texts import t

RECORD: Final = """\
from transformer import recording
with recording(model) as seen: model(x)
seen.record().save("run.heedmap")"""

LIVE: Final = """\
def make(): return model, read
def read(text): return text.split(), ids(text)
make run MODEL=my_model.py:make"""

WEIGHTS: Final = """\
import torch
weights = model.state_dict()
torch.save(weights, "model.pt")"""

EXAMPLE: Final = """\
import torch
from torch import nn

def make():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.Sequential(nn.Embedding(997, 32), nn.TransformerEncoder(layer, 2)).eval()

    def read(text):
        words = text.split()
        return words, torch.tensor([[sum(word.encode()) % 997 for word in words]])

    return model, read"""
"""A file for `make run MODEL=my_model.py:make`."""


def ways_panel() -> None:
    """A record file, the user's own code, weights alone: what to write in each case."""
    with st.popover(t("your_model.ways"), icon=":material/login:"):
        for name, lines in (("record", RECORD), ("live", LIVE), ("weights", WEIGHTS)):
            st.markdown(f"**{t(f'your_model.way_{name}')}**")
            st.code(lines, language=None)
        with st.expander(t("your_model.example"), icon=":material/code:"):
            st.caption(t("your_model.example_note"))
            st.code(EXAMPLE, language=None)
