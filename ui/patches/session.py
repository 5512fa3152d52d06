"""What Streamlit knows of a session and says under no public name.

Each function answers as if Streamlit had nothing to say where its version is another, a name is gone, or patches are
refused (`HEEDMAP_PATCHES=0`); the log says so once.
"""

import logging
import os
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import streamlit as st

P = ParamSpec("P")
T = TypeVar("T")

VERSION, VARIABLE = "1.67.", "HEEDMAP_PATCHES"


@cache
def apply(name: str) -> bool:
    """Whether a patch acts: on the version that it was written for, unless it is refused."""
    is_known = st.__version__.startswith(VERSION) and os.environ.get(VARIABLE, "1") != "0"
    if not is_known:
        logging.getLogger("heedmap").warning("warning without_patch name=%s streamlit=%s", name, st.__version__)
    return is_known


def _guarded(otherwise: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def asked(*args: P.args, **kwargs: P.kwargs) -> T:
            if not apply(function.__name__):
                return otherwise
            try:
                return function(*args, **kwargs)
            except (AttributeError, ImportError) as error:
                logging.getLogger("heedmap").warning("warning without_patch name=%s: %s", function.__name__, error)
                return otherwise

        return asked

    return decorate


@_guarded("")
def session_id() -> str:
    """The name of this run's session, as in the addresses of its uploads; empty outside of a run."""
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    context = get_script_run_ctx(suppress_warning=True)
    return "" if context is None else context.session_id


@_guarded(otherwise=True)
def is_connected(session: str) -> bool:
    """Whether a browser is connected to a session; True where nothing is served."""
    from streamlit import runtime

    return not runtime.exists() or runtime.get_instance().is_active_session(session)


@_guarded(None)
def end_run() -> None:
    """End this run of the script without a word, wherever it is."""
    from streamlit.runtime.scriptrunner import StopException

    raise StopException


@_guarded(otherwise=False)
def came_by_history() -> bool:
    """Whether Back or Forward asked for this run."""
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and context.is_history_navigation


@_guarded(frozenset[str]())
def brought() -> frozenset[str]:
    """Keys of the controls whose values the browser sent with this run."""
    from streamlit.runtime.state import get_session_state
    from streamlit.runtime.state.common import user_key_from_element_id

    keys = (user_key_from_element_id(state.id) for state in get_session_state().get_widget_states())
    return frozenset(key for key in keys if key is not None)


@_guarded(otherwise=False)
def is_unanswered(key: str) -> bool:
    """Whether the browser has not answered yet to what a control was told."""
    from streamlit.runtime.state import get_session_state

    return get_session_state().is_new_state_value(key)


@_guarded(None)
def drop_files(session: str, file_ids: tuple[str, ...] | None) -> None:
    """Drop copies of files that a session sent (None: all of them), which would stay until it ends."""
    from streamlit import runtime
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    context = get_script_run_ctx(suppress_warning=True)
    if context is None and not runtime.exists():
        return
    manager = runtime.get_instance().uploaded_file_mgr if context is None else context.uploaded_file_mgr
    for file_id in file_ids or ():
        manager.remove_file(session, file_id)
    if file_ids is None:
        manager.remove_session_files(session)
