"""What the interface says, in English and Simplified Chinese: one small catalogue, a TOML file a page.

`t("lessons.try")` is the text in the reader's language. Each key of a file is a table with one text a language.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from string import Formatter

import streamlit as st

LANGUAGES = {"en": "English", "zh": "简体中文"}
"""Every language, by the code that stands in the address, under its own name."""

KEY = "lang"
"""The query parameter, and the key of the control, that choose the language."""

HERE = Path(__file__).parent


def t(key: str, /, **values: object) -> str:
    """The text called `key` (`page.name`) in the reader's language, with `values` put in.

    Raises:
        KeyError: there is no such text; a mistake in the code, which a test finds.
    """
    return in_language(language(), key, **values)


def in_language(code: str, key: str, /, **values: object) -> str:
    """The text called `key` in a certain language.

    Raises:
        KeyError: there is no such text or language.
    """
    page, name = key.split(".", 1)
    text = catalogue()[page][name][code]
    return text.format(**values) if values else text


def error_text(message: str) -> str:
    """An error's English sentence in the reader's language; as it is, where the catalogue does not have it."""
    for name, pattern in _error_patterns():
        if found := pattern.fullmatch(message):
            nouns = catalogue()["errors"]
            parts = {
                blank: nouns[f"what_{part}"][language()] if blank == "what" and f"what_{part}" in nouns else part
                for blank, part in found.groupdict().items()
            }
            return nouns[name][language()].format(**parts)
    return message


def language() -> str:
    """The reader's language: English, unless another is chosen."""
    chosen = st.session_state.get(KEY) or st.query_params.get(KEY, "en")
    return chosen if chosen in LANGUAGES else "en"


@cache
def _error_patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Every error's name, and what its English sentence looks like with anything in its blanks."""
    found = []
    for name, texts in catalogue()["errors"].items():
        blanks = set[str]()
        pattern = ""
        for literal, blank, _, _ in Formatter().parse(texts["en"]):
            pattern += re.escape(literal)
            if blank is not None:
                pattern += f"(?P={blank})" if blank in blanks else f"(?P<{blank}>.+?)"
                blanks.add(blank)
        if not name.startswith("what_"):
            found.append((name, re.compile(pattern, re.DOTALL)))
    return found


@cache
def catalogue() -> dict[str, dict[str, dict[str, str]]]:
    """Every text: page, name, language."""
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("*.toml"))}
