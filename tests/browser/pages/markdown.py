"""Hostile texts, escaped where Streamlit reads Markdown and as they are where it does not."""

import streamlit as st

from tests.browser.hostile import TEXTS
from ui.markdown import as_code, as_text

for i, text in enumerate(TEXTS):
    shown = as_text(text)
    with st.container(key=f"markdown-{i}"):
        st.markdown(shown)
    with st.container(key=f"middle-{i}"):
        st.markdown(f"before {shown} after")
    with st.container(key=f"bold-{i}"):
        st.caption(f"**{shown}**")
    with st.container(key=f"message-{i}"):
        st.warning(shown)
    with st.container(key=f"label-{i}"):
        st.button(shown, key=f"b{i}")
    with st.container(key=f"title-{i}"):
        st.subheader(shown, anchor=False)
    with st.container(key=f"segment-{i}"):
        st.segmented_control("label", [i], format_func={i: shown}.__getitem__, key=f"s{i}")
    with st.container(key=f"expander-{i}"):
        st.expander(shown)
    with st.container(key=f"metric-{i}"):
        st.metric(shown, "1")
    with st.container(key=f"code-{i}"):
        st.markdown(f"`{as_code(text)}`")
    with st.container(key=f"list-{i}"):
        st.selectbox("label", [i], format_func={i: text}.__getitem__, key=f"l{i}")
    with st.container(key=f"plain-{i}"):
        st.text(text)
with st.container(key="end"):
    st.text("end")
