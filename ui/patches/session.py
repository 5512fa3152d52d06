"""What Streamlit knows of a session and says under no public name (docs/decisions/patches.md).

Where its version or a name is another, each answers as if Streamlit had nothing to say, and the log says so once.
"""

import logging
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import streamlit as st

T = TypeVar("T")


@cache
def apply(name: str) -> bool:
    """Whether a patch acts: on the version that it was written for, unless it is refused."""
    is_known = st.__version__.startswith("1.67.") and os.environ.get("HEEDMAP_PATCHES", "1") != "0"
    return is_known or _without(name, f"streamlit={st.__version__}")


def session_id() -> str:
    """The name of this run's session, as in the addresses of its uploads; empty outside of a run."""
    return _ask("session_id", lambda: getattr(_context(), "session_id", ""), "")


def is_connected(session: str) -> bool:
    """Whether a browser is connected to a session; True where nothing is served."""
    return _ask("is_connected", lambda: not _served() or _served().is_active_session(session), otherwise=True)


def came_by_history() -> bool:
    """Whether Back or Forward asked for this run."""
    return _ask("came_by_history", lambda: bool(getattr(_context(), "is_history_navigation", 0)), otherwise=False)


def brought() -> frozenset[str]:
    """Keys of the controls whose values the browser sent with this run."""
    sent = _ask("brought", lambda: list(_context().session_state.get_widget_states()), list[Any]())
    return frozenset(st_key for one in sent if (st_key := _of("state.common", "user_key_from_element_id")(one.id)))


def is_unanswered(key: str) -> bool:
    """Whether the browser has not answered yet to what a control was told."""
    return _ask("is_unanswered", lambda: _context().session_state.is_new_state_value(key), otherwise=False)


def drop_files(session: str, *file_ids: str) -> None:
    """Drop copies of files that a session sent (all where none is named), which would stay until it ends."""
    if manager := _ask("drop_files", lambda: getattr(_context() or _served(), "uploaded_file_mgr", None), None):
        for file_id in file_ids:
            manager.remove_file(session, file_id)
        if not file_ids:
            manager.remove_session_files(session)


def _ask(name: str, ask: Callable[[], T], otherwise: T) -> T:
    try:
        return ask() if apply(name) else otherwise
    except (AttributeError, ImportError) as error:
        _without(name, str(error))
        return otherwise


@cache
def _without(name: str, why: str) -> bool:
    logging.getLogger("heedmap").warning("warning without_patch name=%s %s", name, why)
    return False


def _of(module: str, name: str) -> Any:
    return getattr(import_module(f"streamlit.runtime.{module}"), name)


def _context() -> Any:
    return _of("scriptrunner", "get_script_run_ctx")(suppress_warning=True)


def _served() -> Any:
    return _of("runtime", "Runtime").instance() if _of("runtime", "Runtime").exists() else None
