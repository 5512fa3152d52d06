"""Messages as JSON: code and fields of a message that comes from a file or from another process, which is untrusted."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from transformer.messages import LANGUAGES, Message

MOST_TEXT = 20_000
"""Characters of one field, and of a whole sentence in any language."""

MOST_PARTS = 2_000
"""Texts and numbers of one message together: a report has a line for each fact."""

DEEPEST = 40
"""Fields inside one another; a report has about ten."""


class NoMessageError(ValueError):
    """JSON that stands for no message of the catalogue."""


def packed(value: object) -> Any:
    """A message, or a field of one, as JSON can hold it."""
    if isinstance(value, Message):
        return {"code": value.code, "fields": {name: packed(field) for name, field in value.fields.items()}}
    if isinstance(value, tuple):
        return [packed(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, Real):
        return value if isinstance(value, bool) else str(value)[:MOST_TEXT]
    return int(value) if isinstance(value, Integral) else float(value)


def unpacked(told: Any, left: list[int] | None = None) -> Message:
    """The message that a JSON value stands for; `left` holds how many more parts are read, and is counted down.

    Raises:
        NoMessageError: it is none of the catalogue, or one too large.
    """
    message = _unpacked(told, 0, [MOST_PARTS] if left is None else left)
    if not isinstance(message, Message):
        raise NoMessageError("a message without a code")
    return message


def _unpacked(told: Any, depth: int, left: list[int]) -> object:
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        raise NoMessageError("a message of too many parts")
    if isinstance(told, list):
        return tuple(_unpacked(item, depth + 1, left) for item in told)
    if isinstance(told, Mapping):
        return _message(told, depth, left)
    if type(told) is str and len(told) <= MOST_TEXT:
        return told
    if type(told) in {int, float, bool}:
        return told
    raise NoMessageError("a message with a field of no known kind")


def _message(told: Mapping[Any, Any], depth: int, left: list[int]) -> Message:
    code, fields = told.get("code"), told.get("fields")
    if not isinstance(code, str) or not isinstance(fields, dict):
        raise NoMessageError("a message without a code")
    values = {str(name): _unpacked(field, depth + 1, left) for name, field in fields.items()}
    try:
        message = Message(code, **values)
        longest = max(len(message.in_language(language)) for language in LANGUAGES)  # some texts name a field twice
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise NoMessageError("a message that is in no catalogue") from error
    if longest > MOST_TEXT:
        raise NoMessageError("a message of too many characters")
    return message
