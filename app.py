"""Attention Atlas: `streamlit run app.py`."""

import streamlit as st

st.set_page_config(page_title="Attention Atlas", page_icon="ui/icon.png", layout="wide")
st.navigation(
    {
        "See attention": [
            st.Page("pages/translate.py", title="Translate", icon=":material/translate:", default=True),
        ]
    }
).run()
