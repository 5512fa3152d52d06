"""What the interface says, in English and Simplified Chinese: one small catalogue, a TOML file a page.

`t("lessons.try")` is the text in the reader's language. Each key of a file is a table with one text a language.
"""

import tomllib
from functools import cache
from pathlib import Path

import streamlit as st

from ui.address import choice

LANGUAGES = {"en": "English", "zh": "简体中文"}
"""Every language, by the code that stands in the address, under its own name."""

KEY = "lang"
"""The query parameter, and the key of the control, that choose the language."""

HERE = Path(__file__).parent


def t(key: str, **values: object) -> str:
    """The text called `key` (`page.name`) in the reader's language, with `values` put in.

    Raises:
        KeyError: there is no such text; a mistake in the code, which a test finds.
    """
    page, name = key.split(".", 1)
    text = catalogue()[page][name][language()]
    return text.format(**values) if values else text


def language() -> str:
    """The reader's language: English, unless another is chosen."""
    chosen = st.session_state.get(KEY) or st.query_params.get(KEY, "en")
    return chosen if chosen in LANGUAGES else "en"


def language_choice() -> None:
    """Choose the language; stands in the app's frame, before any page, so that the choice stays across pages."""
    with st.sidebar:
        choice("Language · 语言", list(LANGUAGES), key=KEY, text=LANGUAGES.__getitem__)


@cache
def catalogue() -> dict[str, dict[str, dict[str, str]]]:
    """Every text: page, name, language."""
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("*.toml"))}
