"""What the interface says, in English and Simplified Chinese: one small catalogue, a TOML file a page.

`t("lessons.try")` is the text in the reader's language. Each key of a file is a table with one text a language.

Streamlit shows Markdown in some places and plain text in others. `t` fills the blanks of a text for the first: what is
put in is shown letter by letter. `plain` fills them for the second: figures, components, cells, `st.text`, entries of a
list, errors, and whatever is put into another text.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Formatter

import streamlit as st

from ui.texts.markdown import as_code, as_text

LANGUAGES = {"en": "English", "zh": "简体中文"}
"""Every language, by the code that stands in the address, under its own name."""

KEY = "lang"
"""The query parameter, and the key of the control, that choose the language."""

HERE = Path(__file__).parent

_FIRST_WORD = re.compile(r"[a-z]+(?=[\s,:;]|$)")


def t(key: str, /, **values: object) -> str:
    """Markdown: the text called `key` (`page.name`) in the reader's language, with `values` put in as text.

    Raises:
        KeyError: there is no such text; a mistake in the code, which a test finds.
    """
    text = _template(key, language())
    return _with_text(text, values) if values else text


def plain(key: str, /, **values: object) -> str:
    """Plain text: the text called `key` in the reader's language, with `values` put in as they are.

    Raises:
        KeyError: there is no such text; a mistake in the code, which a test finds.
    """
    return in_language(language(), key, **values)


def in_language(code: str, key: str, /, **values: object) -> str:
    """Plain text: the text called `key` in a certain language.

    Raises:
        KeyError: there is no such text or language.
    """
    text = _template(key, code)
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


def begins_with_a_word(message: str) -> bool:
    """Whether an English error, refusal or note begins with a word of ours, and not with the name of something."""
    for name, pattern in _error_patterns():
        if pattern.fullmatch(message):
            return _FIRST_WORD.match(catalogue()["errors"][name]["en"]) is not None
    first = _FIRST_WORD.match(message)
    return first is not None and first.group() in _words()


def language() -> str:
    """The reader's language: English, unless another is chosen."""
    chosen = st.session_state.get(KEY) or st.query_params.get(KEY, "en")
    return chosen if chosen in LANGUAGES else "en"


def _template(key: str, code: str) -> str:
    page, name = key.split(".", 1)
    return catalogue()[page][name][code]


def _with_text(template: str, values: Mapping[str, object]) -> str:
    """A template with its blanks filled for Markdown; a blank in backticks is filled for a row of code."""
    made = ""
    for literal, blank, form, conversion in Formatter().parse(template):
        made += literal
        if blank is not None:
            value = Formatter().convert_field(values[blank], conversion)
            filled = format(value, form or "")
            if not isinstance(value, int | float):
                filled = as_code(filled) if literal.endswith("`") else as_text(filled)
            made += filled
    return made


@cache
def _words() -> frozenset[str]:
    """Every word of the English texts that is written with small letters alone."""
    texts = (text["en"] for page in catalogue().values() for text in page.values())
    return frozenset(word for text in texts for word in re.findall(r"(?<![^\s(“])[a-z]+(?=[\s,:;.)”]|$)", text))


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
