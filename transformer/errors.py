"""One error tree: everything that a user of the library or the dashboard can meet on purpose.

An error is a code and its fields; the sentence, in each language, is made from them by the catalogue of `messages`. It
names the argument, the value and the remedy, so a page can show it as it is.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from .messages import Message


class HeedmapError(Exception):
    """Base of every deliberate error; catching it catches nothing else."""

    def __init__(self, code: str, /, **fields: object) -> None:
        self.message = Message(code, **fields)
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:  # an error that crosses processes is made again from its parts
        return partial(type(self), **self.fields), (self.code,)

    @property
    def code(self) -> str:
        """What happened, as a key of the catalogue."""
        return self.message.code

    @property
    def fields(self) -> Mapping[str, object]:
        """What it happened to: the values that the sentence names."""
        return self.message.fields


class ConfigError(HeedmapError, ValueError):
    """A model cannot be built with these sizes or options."""


class InputError(HeedmapError, ValueError):
    """The input cannot be run."""


class CheckpointError(HeedmapError):
    """A checkpoint cannot be read, does not fit, or is refused."""


class RecordError(HeedmapError, KeyError):
    """The record has no such site, head, position or form."""

    __str__ = Exception.__str__  # a KeyError would quote its sentence


class AttributionError(HeedmapError, ValueError):
    """The attribution method is not defined for this model or this input."""


class NotDefinedError(AttributionError):
    """A method of attribution is not defined for this model: another one may be."""


class TrainingError(HeedmapError):
    """Training cannot start."""


class AtlasError(HeedmapError):
    """A pass over a corpus cannot start, or cannot go on."""
