"""Texts of the pages in the user's language, from the catalogue `heedmap.messages`.

`t("lessons.try")` is the text `try` of messages/LANGUAGE/pages/lessons.toml in the user's language.

Streamlit shows Markdown in some places and plain text in others. `t` fills the blanks of a text for the first: what is
put in is shown letter by letter. `plain` fills them for the second: figures, components, cells, `st.text`, entries of a
list, errors, and whatever is put into another text. A count picks the word that fits it (`{count:token|tokens}`).

Streamlit reads Markdown in labels, captions, messages and tooltips. Unescaped, the name of a tensor could make the
reader's browser fetch an image from anywhere, or place a link in one of the dashboard's own sentences.
"""

import re
from collections.abc import Callable, Mapping
from html import escape
from string import Formatter
from typing import TypeVar

import streamlit as st

from heedmap.messages import LANGUAGES, catalogue, field_said, revealed, say, speaking
from heedmap.messages import language as spoken

T = TypeVar("T")

language, said = spoken, say
"""The language of this run, and what the library says (an error, a note) in it; any other text as it is."""

KEY = "lang"
"""The query parameter, and the key of the control, that choose the language."""

JOINER = "\u2060"
"""A word joiner: no width, and no line break; it parts what Streamlit looks for in text that is escaped already."""

_SPACE = re.compile(r"[\t\n\v\f\r \x85\u2028\u2029]+")
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~$&]|:(?=[\w:])")
_BLOCK = re.compile(r"^([-+=])|^(\d{1,9})([.)])")
_FOUND_IN_TEXT = re.compile(
    r"""
    (?<=:)(?=//|material/|streamlit:|[\w+-]+:)        # addresses, icons, the logo, emoji
    | (?<=www)(?=\.)                                  # addresses without a protocol
    | (?<=@)                                          # addresses of mail
    | (?<=[<>~])(?==) | (?<=-)(?=[->]) | (?<=<)(?=-)  # arrows, dashes and signs that are drawn as one
    """,
    re.VERBOSE | re.IGNORECASE,
)


def as_text(text: object) -> str:
    """Markdown that shows `text` as it is: no emphasis, formula, directive, icon, entity, link or image comes of it.

    White space becomes single spaces, as a browser shows it, and none at the ends; a word joiner, which has no width,
    parts web and mail addresses, icons and emoji, which Streamlit looks for even in escaped text.
    """
    line = _FOUND_IN_TEXT.sub(JOINER, _SPACE.sub(" ", revealed(str(text))).strip())
    return _BLOCK.sub(r"\1\2\\\3" if line[:1].isdigit() else r"\\\1", _SPECIAL.sub(r"\\\g<0>", line))


def as_code(text: object) -> str:
    """What stands between two backticks to show `text` in a row of code; a backtick in it becomes an apostrophe."""
    return _SPACE.sub(" ", revealed(str(text))).replace("`", "'").replace(":material/", f":{JOINER}material/")


def as_html(text: str) -> str:
    """HTML that shows `text` as it is, in the language of this run where it is a message."""
    return escape(said(text))


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


def in_this_language(make: Callable[[], T]) -> Callable[[], T]:
    """`make`, to be called outside of this run (as downloads are), but with words in the language of now."""
    code = language()

    def made() -> T:
        with speaking(code):
            return make()

    return made


def asked_language() -> str:
    """The language that the control or else the address asks for, which a run `speak`s from its start."""
    chosen = st.session_state.get(KEY) or st.query_params.get(KEY, "en")
    return chosen if chosen in LANGUAGES else "en"


def _in_language(code: str, values: Mapping[str, object]) -> dict[str, object]:
    """Values for blanks, of which those that the library says are in the text's language."""
    return {name: field_said(value, code) for name, value in values.items()}


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
