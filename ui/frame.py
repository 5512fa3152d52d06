"""The frame around every page."""

import streamlit as st

_STYLE = """
<style>
[data-testid="stMainBlockContainer"] { padding: 2.6rem 2rem 4rem; max-width: 110rem; }
@media (max-width: 640px) { [data-testid="stMainBlockContainer"] { padding: 2.6rem .8rem 3rem; } }
</style>
"""


def heading(title: str, line: str) -> None:
    """The page's title, and one line that says what it shows."""
    st.html(_STYLE)
    st.title(title, anchor=False)
    st.caption(line)
