"""An error on its way from a worker: its code and fields as JSON, which the server checks before it says anything."""

from collections.abc import Mapping
from typing import Any

from transformer.checkpoint.worker.frames import GarbledError
from transformer.errors import CheckpointError, HeedmapError
from transformer.messages import LANGUAGES, Message

MOST_TEXT = 20_000
"""Characters of one field, and of a whole sentence in any language."""

MOST_PARTS = 2_000
"""Texts and numbers of one error together: a report has a line for each fact."""

DEEPEST = 40
"""Fields inside one another; a report has about ten."""


def packed(error: HeedmapError) -> Any:
    """The error as JSON can hold it."""
    return _packed(error.message)


def unpacked(told: Any) -> CheckpointError:
    """The error that a worker told of.

    Raises:
        GarbledError: it is none that the library knows.
    """
    message = _unpacked(told, 0, [MOST_PARTS])
    if not isinstance(message, Message):
        raise GarbledError("an error without a code")
    return CheckpointError(message.code, **message.fields)


def _packed(value: object) -> Any:
    if isinstance(value, Message):
        return {"code": value.code, "fields": {name: _packed(field) for name, field in value.fields.items()}}
    if isinstance(value, tuple):
        return [_packed(item) for item in value]
    return value if isinstance(value, int | float) else str(value)[:MOST_TEXT]


def _unpacked(told: Any, depth: int, left: list[int]) -> object:
    """What a JSON value stands for; `left` counts how many more are read."""
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        raise GarbledError("an error of too many parts")
    if isinstance(told, list):
        return tuple(_unpacked(item, depth + 1, left) for item in told)
    if isinstance(told, Mapping):
        return _message(told, depth, left)
    if type(told) is str and len(told) <= MOST_TEXT:
        return told
    if type(told) in {int, float, bool}:
        return told
    raise GarbledError("an error with a field of no known kind")


def _message(told: Mapping[Any, Any], depth: int, left: list[int]) -> Message:
    code, fields = told.get("code"), told.get("fields")
    if not isinstance(code, str) or not isinstance(fields, dict):
        raise GarbledError("an error without a code")
    values = {str(name): _unpacked(field, depth + 1, left) for name, field in fields.items()}
    try:
        message = Message(code, **values)
        longest = max(len(message.in_language(language)) for language in LANGUAGES)  # some texts name a field twice
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise GarbledError("an error that is in no catalogue") from error
    if longest > MOST_TEXT:
        raise GarbledError("an error of too many characters")
    return message
