"""The `transformers` library: an optional extra, kept off the network and quiet, whose failures become refusals."""

import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from threading import RLock
from typing import Any

from ...errors import CheckpointError, HeedmapError
from ...messages import Message
from ...safe.limits import refused

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""What the library is told by the environment when this process imports it first: a folder is all that it reads."""

REQUIREMENTS = "requirements-hf.txt"
"""Where the extra is pinned."""

MODELS = "transformers.modeling_utils"
"""What every model is made with: two seconds to import, which no worker needs that is forked afterwards."""

TABLES = "transformers.models.auto.modeling_auto"
"""Which family has which classes: quickly there, and nothing is made ready to run."""

OLDEST = (5, 24)
"""The first release whose models take a key/value cache by the name `cache`; older ones may ignore it in silence."""


def check_installed() -> None:
    """Say, as a CheckpointError, what to install where the library is missing or too old; it is not imported."""
    if find_spec("transformers") is None:
        raise _missing(Message("no_such_module"))
    found = version("transformers")
    if tuple(map(int, found.split(".")[:2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise CheckpointError("library_too_old", found=found, needed=needed, requirements=REQUIREMENTS)


@cache
def library(module: str = "transformers") -> Any:
    """The library, or one of its modules, where `check_installed` finds it."""
    check_installed()
    if "huggingface_hub" not in sys.modules:
        os.environ.update({name: value for name, value in OFFLINE.items() if name not in os.environ})
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(str(error)) from error


def _missing(reason: str) -> CheckpointError:
    return CheckpointError("library_missing", reason=reason, requirements=REQUIREMENTS)


_quiet = RLock()
"""What is turned off is turned off for the whole process, so it must be turned on again in order."""


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's progress bars and advice, which speak to the author of a script. One caller at a time."""
    logging = library().utils.logging
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()


PANIC = ("pyo3_runtime", "PanicException")
"""The module and the name of the class; it can be imported from nowhere."""


class PanicError(Exception):
    """Native code gave up; the message is its own."""


@contextmanager
def panics_raised() -> Iterator[None]:
    """Turn a panic of native code into a PanicError, which can be caught as others are."""
    try:
        yield
    except BaseException as error:
        if (type(error).__module__, type(error).__name__) != PANIC:
            raise
        raise PanicError(f"its native code gave up: {error}") from error


REMEDY = Message("remedy_save_pretrained")


def unreadable(source: str, error: Exception) -> CheckpointError:
    """How a failure of the library is told: by its own first line."""
    return refused("library_cannot_read", source, REMEDY, error=first_line(error))


def first_line(error: Exception) -> str:
    """What an error says, in a line."""
    if isinstance(error, HeedmapError):
        return error.message
    return next(iter(str(error).splitlines()), "")[:300] or type(error).__name__
