"""What the two translations differ in, in one line above the maps, made from the run."""

import streamlit as st

from transformer.runs.forgetting import Forgotten, forgotten
from transformer.runs.what_if import aligned_words
from ui.align.choices import Pair, Side
from ui.markdown import as_text
from ui.store import runs
from ui.texts import plain, t

MOST = 3
"""Words that the line names."""


def finding(shown: Pair) -> None:
    """A word that one model forgets; or else where they part, or that both write the same."""
    for keeps, loses in (shown.sides, shown.sides[::-1]):
        found = _forgotten(shown, keeps, loses)
        if found:
            words = _quoted([one.word for one in found[:MOST]])
            st.subheader(as_text(plain("align.forgets", model=loses.title, words=words)), anchor=False)
            first = found[0]
            st.caption(
                t(
                    "align.forgets_why", word=first.word, model=loses.title, lost=max(0.0, first.needed[1]),
                    other=keeps.title, written=" ".join(first.written), needed=first.needed[0],
                )
            )  # fmt: skip
            return
    texts = [side.own.text for side in shown.sides]
    parts = [[word.text for word in words if word.changed][:MOST] for words in aligned_words(*texts)]
    if not any(parts):
        st.subheader(t("align.same_translation"), anchor=False)
        st.caption(as_text(texts[0]))
        return
    empty = plain("align.empty")
    one, two = (_quoted(words) if words else empty for words in parts)
    said = plain("align.parts", first=shown.first.title, second=shown.second.title, one=one, two=two)
    st.subheader(as_text(said), anchor=False)
    st.caption(as_text(plain("align.both", first=texts[0] or empty, second=texts[1] or empty)))


def _forgotten(shown: Pair, keeps: Side, loses: Side) -> tuple[Forgotten, ...]:
    own = [side.own for side in (keeps, loses)]
    if not all(one.text.strip() for one in own):
        return ()
    decided = [runs.deciding(side.name, shown.first.own.input, shown.options, None, None) for side in (keeps, loses)]
    return forgotten(own, decided)


def _quoted(words: list[str]) -> str:
    return plain("align.between").join(plain("align.quoted", word=word) for word in words)
