"""The theme of the user's browser."""

import streamlit as st


def is_dark() -> bool:
    """Whether pages are light on dark, so that figures are drawn so too."""
    return st.context.theme.type == "dark"
