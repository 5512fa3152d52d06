"""The catalogue of texts: each sentence of the library and of the pages by its code, in every language.

A language is one folder of TOML files; a third one is a third folder, and no code. Keys are codes and values are
sentences with named fields: `too_many_tokens = "the {what} has {found} tokens, at most {most} are read"`. A count picks
the word that fits it: `{found} {found:token|tokens}`. A sentence in another language is made from the code and the
fields again, never by reading an English one. Files in the folder `pages` hold what the dashboard says; their codes
begin with the file's name: `title` in pages/map.toml is `map.title`.

A message crosses to other processes and files, which are untrusted, as its code and fields in JSON (`packed_message`).
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from itertools import groupby
from numbers import Integral, Real
from typing import Any

LANGUAGES = tuple(
    sorted((one.name for one in files(__name__).iterdir() if one.joinpath("language.toml").is_file()), key="en".__ne__)
)
"""Every language that has a folder here, by its code; the first is the library's own."""

_BEFORE_Z = re.compile(r"(?:.?[<>=^])?[-+ ]?")
"""What stands in a format before the `z` that leaves out the minus of a number that rounds to zero (PEP 682)."""

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
    """`text` in the language of this context, if it is a message; any other text with nothing hidden (`revealed`)."""
    return text.in_language(_language.get()) if isinstance(text, Message) else revealed(text)


MOST_MARKS = 6
"""Marks on one letter that are drawn; writing needs five at most (Hebrew with vowels and accents)."""

_HIDDEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
    "|(?<![^\0-\x7f])[\u200c\u200d]|(?<=[\u200c\u200d])[\u200c\u200d]"  # joiners belong behind letters and emoji
)


def revealed(text: str) -> str:
    """A text that may be anybody's, as it is shown: nothing in it is hidden, turns the line round or covers the rest.

    Controls (but tabs and ends of lines), marks of direction and what has no width stand as `⟨U+202E⟩` or `␛`; of many
    combining marks the first `MOST_MARKS` are left. Scripts that are written from right to left stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = _HIDDEN.sub(_named, text)
    runs = (
        (marks, "".join(run)) for marks, run in groupby(shown, lambda one: unicodedata.category(one) in {"Mn", "Me"})
    )
    return "".join(
        f"{run[:MOST_MARKS]}⟨+{len(run) - MOST_MARKS}⟩" if marks and len(run) > MOST_MARKS else run
        for marks, run in runs
    )


def _named(hidden: re.Match[str]) -> str:
    code = ord(hidden[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


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
    return catalogue(language)[code].format(**{name: field_said(value, language) for name, value in fields.items()})


def field_said(value: object, language: str) -> object:
    """A field in the language: messages are translated, tuples joined; numbers stay, for the text formats them."""
    if isinstance(value, Message):
        return value.in_language(language)
    if isinstance(value, tuple):
        return catalogue(language)["language_separator"].join(str(field_said(item, language)) for item in value)
    return revealed(value) if isinstance(value, str) else numbered(value)


class Counted(int):
    """A whole number that a text may ask for the word that fits it: `{count} {count:token|tokens}`.

    Any other format is that of a whole number.
    """

    def __format__(self, form: str) -> str:
        one, divided, many = form.partition("|")
        if not divided:
            return super().__format__(form)
        return one if self == 1 else many


class Measured(float):
    """A number of a text that is never written as -0.00: one that rounds to zero there has no minus."""

    def __format__(self, form: str) -> str:
        return super().__format__(_BEFORE_Z.sub(lambda found: f"{found[0]}z", form, count=1))


def numbered(value: object) -> object:
    """A whole number as `Counted`, another one as `Measured`; anything else, and a truth, as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return Counted(value) if isinstance(value, Integral) else Measured(value)


MOST_TEXT = 20_000
"""Characters of one field, and of a whole sentence in any language."""

MOST_PARTS = 2_000
"""Texts and numbers of one message together: a report has a line for each fact."""

DEEPEST = 40
"""Fields inside one another; a report has about ten."""


class NoMessageError(ValueError):
    """JSON that stands for no message of the catalogue."""


def packed_message(value: object) -> Any:
    """A message, or a field of one, as JSON can hold it."""
    if isinstance(value, Message):
        return {"code": value.code, "fields": {name: packed_message(field) for name, field in value.fields.items()}}
    if isinstance(value, tuple):
        return [packed_message(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, Real):
        return value if isinstance(value, bool) else str(value)[:MOST_TEXT]
    return int(value) if isinstance(value, Integral) else float(value)


def unpacked_message(packed: Any, left: list[int] | None = None) -> Message:
    """The message that a JSON value stands for; `left` holds how many more parts are read, and is counted down.

    Raises:
        NoMessageError: it is none of the catalogue, or one too large.
    """
    message = _part(packed, 0, [MOST_PARTS] if left is None else left)
    if not isinstance(message, Message):
        raise NoMessageError("a message without a code")
    return message


def _part(packed: Any, depth: int, left: list[int]) -> object:
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        raise NoMessageError("a message of too many parts")
    if isinstance(packed, list):
        return tuple(_part(item, depth + 1, left) for item in packed)
    if isinstance(packed, Mapping):
        return _message(packed, depth, left)
    if type(packed) is str and len(packed) <= MOST_TEXT:
        return packed
    if type(packed) in {int, float, bool}:
        return packed
    raise NoMessageError("a message with a field of no known kind")


def _message(packed: Mapping[Any, Any], depth: int, left: list[int]) -> Message:
    code, fields = packed.get("code"), packed.get("fields")
    if not isinstance(code, str) or not isinstance(fields, dict):
        raise NoMessageError("a message without a code")
    values = {str(name): _part(field, depth + 1, left) for name, field in fields.items()}
    try:
        message = Message(code, **values)
        longest = max(len(message.in_language(language)) for language in LANGUAGES)  # some texts name a field twice
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise NoMessageError("a message that is in no catalogue") from error
    if longest > MOST_TEXT:
        raise NoMessageError("a message of too many characters")
    return message
