"""Which words a head looks at most, over a whole corpus, each with sentences in which it does."""

from html import escape

import streamlit as st

from transformer.atlas.roles import ABOVE_CHANCE
from ui.store.atlases import Atlas, Row
from ui.texts import plain, t

N_TOP = 4
"""Words that a card names."""

N_CONTEXTS = 2
"""Sentences that are shown of each word."""

LEAST = 0.001
"""A word is named from this share of the rows on."""


def telling(atlas: Atlas, row: Row) -> list[Row]:
    """The words that a head looks at clearly more than by chance."""
    return [
        one
        for one in atlas.words
        if (one["site"], one["head"]) == (row["site"], row["head"])
        and one["share"] >= max(LEAST, ABOVE_CHANCE * one["chance"])
    ]


def top_words(atlas: Atlas, row: Row) -> str:
    """Them in one line; empty where there are none."""
    words = [one["word"] for one in telling(atlas, row)[:N_TOP]]
    return plain("atlas.card_words", words=" · ".join(words)) if words else ""


def words_panel(atlas: Atlas, row: Row) -> None:
    """Each word with its share, how many times chance that is, and its contexts."""
    found = telling(atlas, row)
    if not found:
        return
    st.markdown(f"**{t('atlas.words')}**", help=t("atlas.words_note"))
    lines = "".join(
        f"<tr><td><b>{escape(one['word'])}</b> {100 * one['share']:.1f} % · {_times(one)}"
        f"{''.join(map(_context, one['contexts'][:N_CONTEXTS]))}</td></tr>"
        for one in found
    )
    st.html(f'<table class="atlas-words">{lines}</table>')


def _times(one: Row) -> str:
    return f"{one['share'] / one['chance']:.1f} &times;" if one["chance"] else ""


def _context(one: dict[str, object]) -> str:
    before, word, after, query = (escape(str(one[key])) for key in ("before", "word", "after", "query"))
    return f"<div>{before} <mark>{word}</mark> {after} &larr; <b>{query}</b> {one['weight']:.2f}</div>"
