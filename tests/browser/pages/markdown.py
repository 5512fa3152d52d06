"""Hostile texts, escaped where Streamlit reads Markdown and as they are where it does not."""

import streamlit as st

from tests.browser.hostile import TEXTS
from ui.texts import as_code, as_text

for i, text in enumerate(TEXTS):
    shown = as_text(text)
    places = {
        "markdown": lambda shown=shown: st.markdown(shown),
        "middle": lambda shown=shown: st.markdown(f"before {shown} after"),
        "bold": lambda shown=shown: st.caption(f"**{shown}**"),
        "message": lambda shown=shown: st.warning(shown),
        "label": lambda shown=shown, i=i: st.button(shown, key=f"b{i}"),
        "title": lambda shown=shown: st.subheader(shown, anchor=False),
        "segment": lambda shown=shown, i=i: st.segmented_control(
            "label", [i], format_func={i: shown}.__getitem__, key=f"s{i}"
        ),
        "expander": lambda shown=shown: st.expander(shown),
        "metric": lambda shown=shown: st.metric(shown, "1"),
        "code": lambda text=text: st.markdown(f"`{as_code(text)}`"),
        "list": lambda text=text, i=i: st.selectbox("label", [i], format_func={i: text}.__getitem__, key=f"l{i}"),
        "plain": lambda text=text: st.text(text),
    }
    for place, show in places.items():
        with st.container(key=f"{place}-{i}"):
            show()
with st.container(key="end"):
    st.text("end")
