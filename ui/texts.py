"""Texts of the pages in the user's language, from the catalogue `transformer.messages`.

`t("lessons.try")` is the text `try` of messages/LANGUAGE/pages/lessons.toml in the user's language.

Streamlit shows Markdown in some places and plain text in others. `t` fills the blanks of a text for the first: what is
put in is shown letter by letter. `plain` fills them for the second: figures, components, cells, `st.text`, entries of a
list, errors, and whatever is put into another text. A count picks the word that fits it (`{count:token|tokens}`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from string import Formatter
from typing import TypeVar

import streamlit as st

from transformer.messages import LANGUAGES, Message, catalogue, speaking
from transformer.messages.counted import numbered
from ui.markdown import as_code, as_text

T = TypeVar("T")

KEY = "lang"
"""The query parameter, and the key of the control, that choose the language."""

_ASKED: ContextVar[str | None] = ContextVar("asked", default=None)
"""The user's language inside `one_language`."""

_FIRST_WORD = re.compile(r"[a-z]+(?=[\s,:;]|$)")


def t(key: str, /, **values: object) -> str:
    """Markdown: the text called `key` (`page.name`) in the user's language, with `values` put in as text.

    Raises:
        KeyError: there is no such text; a mistake in the code, which a test finds.
    """
    code = language()
    text = catalogue(code)[key]
    return _with_text(text, _in_language(code, values)) if values else text


def plain(key: str, /, **values: object) -> str:
    """Plain text: the text called `key` in the user's language, with `values` put in as they are.

    Raises:
        KeyError: there is no such text; a mistake in the code, which a test finds.
    """
    return in_language(language(), key, **values)


def in_language(code: str, key: str, /, **values: object) -> str:
    """Plain text: the text called `key` in a certain language.

    Raises:
        KeyError: there is no such text or language.
    """
    text = catalogue(code)[key]
    return text.format(**_in_language(code, values)) if values else text


def said(text: str) -> str:
    """What the library says (an error's message, a note) in the user's language; any other text as it is."""
    return text.in_language(language()) if isinstance(text, Message) else text


def in_this_language(make: Callable[[], T]) -> Callable[[], T]:
    """`make`, to be called outside of this run (as downloads are), but with words in the language of now."""
    code = language()

    def made() -> T:
        with speaking(code):
            return make()

    return made


def begins_with_a_word(message: str) -> bool:
    """Whether an English error, refusal or note begins with a word of ours, and not with the name of something."""
    if isinstance(message, Message):
        return _FIRST_WORD.match(catalogue("en")[message.code]) is not None
    first = _FIRST_WORD.match(message)
    return first is not None and first.group() in _words()


def language() -> str:
    """The user's language: English, unless another is chosen."""
    asked = _ASKED.get()
    if asked is not None:
        return asked
    chosen = st.session_state.get(KEY) or st.query_params.get(KEY, "en")
    return chosen if chosen in LANGUAGES else "en"


@contextmanager
def one_language() -> Iterator[None]:
    """Inside, the user's language is asked for once: a page has hundreds of texts, and Streamlit's state is slow."""
    token = _ASKED.set(language())
    try:
        yield
    finally:
        _ASKED.reset(token)


def _in_language(code: str, values: Mapping[str, object]) -> dict[str, object]:
    """Values for blanks, of which those that the library says are in the text's language."""
    return {
        name: value.in_language(code) if isinstance(value, Message) else numbered(value)
        for name, value in values.items()
    }


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
    texts = (text for key, text in catalogue("en").items() if "." in key)
    return frozenset(word for text in texts for word in re.findall(r"(?<![^\s(“])[a-z]+(?=[\s,:;.)”]|$)", text))
