"""The selected pair of tokens: one query and one key, the same in every view, kept in the address."""

import streamlit as st

from transformer.pictures.picture import Picture

PAIR = "pair"


def pair(picture: Picture) -> tuple[int, int] | None:
    """The selected (query, key), if this picture has such a cell."""
    found = st.query_params.get(PAIR, "")
    parts = found.split("-")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 6 for part in parts):
        return None
    query, key = map(int, parts)
    return (query, key) if query < len(picture.queries) and key < len(picture.keys) else None


def select_pair(query: int, key: int) -> None:
    """Mark a pair in every view; marking it again takes the mark away."""
    value = f"{query}-{key}"
    if st.query_params.get(PAIR) == value:
        forget_pair()
    else:
        st.query_params[PAIR] = value


def forget_pair() -> None:
    """Mark nothing."""
    if PAIR in st.query_params:
        del st.query_params[PAIR]
