"""The server's life: what is done when it starts and when it stops, and what a page says that failed."""

import asyncio
import gc
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st

from heedmap.checkpoint.checkpoint import device_here
from heedmap.errors import CheckpointError, HeedmapError
from heedmap.messages import Message
from heedmap.safe.limits import MEGABYTE
from heedmap.safe.zips import sweep
from ui.guard import LOCAL
from ui.store import limits, live, log, render_slots, session_resources
from ui.store.user_folder import own_folder
from ui.texts import as_text, said, t

COLLECTIONS = 2_000, 10, 50
"""How many objects are made between two looks for garbage, and how many such looks at the young and the middle-aged
come before one at all there is. With 200 readers that one stops everybody for a quarter of a second; with Python's
700, 10, 10 it came every six seconds. Runs leave little that only it would find."""

ANY_PAGE = Path(__file__).parents[1] / "pages" / "map.py"


@asynccontextmanager
async def life(_app: object) -> AsyncIterator[None]:
    """Around all that is served: settings are checked before anything is, and what has happened is written down.

    Raises:
        CheckpointError: a setting is none, or more than the web server takes; the server does not start.
    """
    log.begin()
    bounds = {name.removeprefix("HEEDMAP_").lower(): limits.n_bytes(name) // MEGABYTE for name in limits.MEGABYTES}
    taken = int(st.get_option("server.maxUploadSize"))
    if bounds["upload_mb"] > taken:
        raise CheckpointError("upload_beyond_the_web_server", asked=bounds["upload_mb"], taken=taken)
    device, precision = limits.placement()
    # A folder called pages/ makes Streamlit take this for its older kind of app until `st.navigation` was called once:
    # of several users who come at the same moment to a server that has just started, the second would see a page alone.
    logging.disable(logging.WARNING)  # it expects to be called by a page
    st.navigation([ANY_PAGE], position="hidden")
    logging.disable(logging.NOTSET)
    render_slots.begin()
    sweep(own=True)
    # What is imported by now stays: a collection of garbage need not look through it (0.4 s with torch loaded).
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    asyncio.get_running_loop().set_exception_handler(outside_of_runs)
    start = time.monotonic()
    session_resources.HOUSEKEEPER.begin()
    _begin_live()
    log.event(
        "start",
        pid=os.getpid(),
        address=st.get_option("server.address"),
        port=st.get_option("server.port"),
        own_checkpoints=own_folder() is not None,
        files=limits.raise_open_files(),
        device=device_here(device),
        precision=precision,
        **bounds,
    )
    try:
        yield
    finally:
        sweep(own=True)
        log.event("stop", seconds=round(time.monotonic() - start))


def _begin_live() -> None:
    """Load the model that the server was started with; the server lives on where that fails, and the page says why."""
    if not live.named():
        return
    address = st.get_option("server.address") or "0.0.0.0"  # noqa: S104  (what a server without one listens on)
    if address not in LOCAL:
        log.event("live", "warning", text=Message("live_open", address=address))
    try:
        live.loaded()
    except HeedmapError as error:
        log.event("live", "warning", text=error.message)


def on_error(error: Exception) -> bool:
    """Say on the page that it failed, and by what name the line in the log is found; returns that it was said."""
    name, short = log.failed(error), limits.shortage(error)
    st.error(t("store.failed", id=name) if short is None else as_text(said(short)), icon=":material/error:")
    return True


def outside_of_runs(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """One line for what fails between requests; asyncio itself writes a traceback for each."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        log.failed(error)
    else:
        log.event("loop", "warning", text=context["message"])
