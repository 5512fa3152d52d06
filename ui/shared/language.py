"""The choice of a language, which stands on every page."""

import streamlit as st

from transformer.messages import LANGUAGES, catalogue
from ui.markdown import as_text
from ui.shared.address import choice
from ui.texts import KEY


def language_choice() -> None:
    """Choose the language; stands in the app's frame, before any page, so that the choice stays across pages."""
    labels = " · ".join(catalogue(code)["language_label"] for code in LANGUAGES)
    with st.sidebar:
        choice(as_text(labels), list(LANGUAGES), key=KEY, text=lambda code: catalogue(code)["language_name"])
