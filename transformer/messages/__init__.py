"""The catalogue of texts: each sentence of the library and of the pages by its code, in every language.

A language is one folder of TOML files; a third one is a third folder, and no code. Keys are codes and values are
sentences with named fields: `too_many_tokens = "the {what} has {found} tokens, at most {most} are read"`. A count picks
the word that fits it: `{found} {found:token|tokens}`. A sentence in another language is made from the code and the
fields again, never by reading an English one. Files in the folder `pages` hold what the dashboard says; their codes
begin with the file's name: `title` in pages/map.toml is `map.title`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files

from transformer.messages.counted import numbered

LANGUAGES = tuple(
    sorted((one.name for one in files(__name__).iterdir() if one.joinpath("language.toml").is_file()), key="en".__ne__)
)
"""Every language that has a folder here, by its code; the first is the library's own."""

_language: ContextVar[str] = ContextVar("language", default=LANGUAGES[0])


class Message(str):
    """A text in English with its code and fields, from which it is written in any language.

    Fields are plain values, messages (a noun, another sentence), or tuples of either.
    """

    code: str
    fields: Mapping[str, object]

    def __new__(cls, code: str, /, **fields: object) -> "Message":
        """The message called `code`.

        Raises:
            KeyError: the catalogue has no such code, or its text names a field that is not given.
        """
        made = super().__new__(cls, _text(code, LANGUAGES[0], fields))
        made.code, made.fields = code, fields
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        return (self.code,), dict(self.fields)

    def in_language(self, language: str) -> str:
        """The same in another language.

        Raises:
            KeyError: there is no such language.
        """
        return _text(self.code, language, self.fields)


def say(text: str) -> str:
    """`text` in the language of this context, if it is a message; any other text as it is."""
    return text.in_language(_language.get()) if isinstance(text, Message) else text


def words(code: str, /, **fields: object) -> str:
    """The text called `code` in the language of this context: for what is drawn at once and not kept.

    Raises:
        KeyError: the catalogue has no such code, or its text names a field that is not given.
    """
    return _text(code, _language.get(), fields)


def language() -> str:
    """The language of this context, one of `LANGUAGES`."""
    return _language.get()


def speak(language: str) -> None:
    """Say everything in `language` from now on, in this context alone (English, where there is no such language)."""
    _language.set(language if language in LANGUAGES else LANGUAGES[0])


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Say everything in `language` inside; it belongs to the caller's context, so threads do not mix."""
    token = _language.set(language if language in LANGUAGES else LANGUAGES[0])
    try:
        yield
    finally:
        _language.reset(token)


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Every text of a language by code.

    Raises:
        KeyError: there is no such language, or two files have the same code.
    """
    if language not in LANGUAGES:
        raise KeyError(language)
    found: dict[str, str] = {}
    folder = files(__name__).joinpath(language)
    for place in (folder, folder.joinpath("pages")):
        for file in sorted((file for file in place.iterdir() if file.is_file()), key=lambda file: file.name):
            page = "" if place is folder else f"{file.name.removesuffix('.toml')}."
            texts = {page + code: text for code, text in tomllib.loads(file.read_text(encoding="utf-8")).items()}
            if double := found.keys() & texts.keys():
                raise KeyError(f"{file.name}: {', '.join(sorted(double))} stands in another file as well")
            found |= texts
    return found


def _text(code: str, language: str, fields: Mapping[str, object]) -> str:
    return catalogue(language)[code].format(**{name: _said(value, language) for name, value in fields.items()})


def _said(value: object, language: str) -> object:
    """A field in the language: messages are translated, tuples joined; numbers stay, for the text formats them."""
    if isinstance(value, Message):
        return value.in_language(language)
    if isinstance(value, tuple):
        return catalogue(language)["language_separator"].join(str(_said(item, language)) for item in value)
    return numbered(value)
