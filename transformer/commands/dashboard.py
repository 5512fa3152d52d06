"""`open`: the dashboard in the browser, with a file of one's own; `serve`: with one's own code."""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from ..attention.record_files import is_record
from ..checkpoint.weight_files import ENDINGS
from ..distribution import DASHBOARD
from ..errors import InputError
from . import Arguments, Command

FIRST_PORT, PORTS = 8501, 50
"""The port that is tried first, and how many are tried."""

STARTS_WITHIN = 120.0
"""Seconds after which no browser is opened any more."""

PAGE, MODEL, OWN, LIVE = "your_model", "model", "mine/", "live"
"""The page of one's own models, its query parameter, and how it names a file of one's own and one's own code."""


def open_file(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C: the first page, or what a file of one's own shows.

    Raises:
        InputError: there is no such file or none that is shown, or the dashboard is not installed.
    """
    file: Path | None = arguments.file
    if file is None:
        return _served(arguments, "", [])
    if not file.exists():
        raise InputError("no_such_path", path=str(file))
    if not (file.is_dir() or is_record(file.name) or file.suffix in ENDINGS):
        raise InputError("not_to_open", path=str(file), endings=ENDINGS)
    file = file.resolve()
    query = "" if file.is_dir() else f"?{urlencode({MODEL: f'{OWN}{file.name}'}, safe='/')}"
    return _served(arguments, PAGE + query, ["--checkpoints", str(file)])


def serve(arguments: argparse.Namespace) -> int:
    """Serve a model of one's own code until Ctrl-C.

    Raises:
        InputError: there is no such Python file, or the dashboard is not installed.
    """
    file = Path(re.sub(r"(?<=\.py):.*", "", arguments.model)).expanduser()
    if file.suffix != ".py" or not file.is_file():
        raise InputError("live_no_file", file=str(file))
    return _served(arguments, f"{PAGE}?{MODEL}={LIVE}", ["--model", arguments.model])


def _served(arguments: argparse.Namespace, page: str, options: list[str]) -> int:
    if find_spec("streamlit") is None or not (DASHBOARD / "app.py").is_file():
        raise InputError("dashboard_not_installed")
    named = os.environ.get("STREAMLIT_SERVER_PORT", "")
    port = arguments.port or (int(named) if named.isdecimal() else _free_port())
    # -P: no module of the folder that this is called in may stand in for one of the dashboard's
    command = [sys.executable, "-P", "-m", "streamlit", "run", str(DASHBOARD / "app.py"), "--server.port", str(port)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    server = subprocess.Popen([*command, "--", *options], env={"MALLOC_ARENA_MAX": "1", **os.environ})  # noqa: S603
    try:
        shown: Callable[[str], object] = partial(print, flush=True) if arguments.no_browser else webbrowser.open
        Thread(target=_show, args=(server, port, page, shown), daemon=True).start()
        return server.wait()
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)):
                return port
    raise InputError("no_free_port", first=FIRST_PORT, last=FIRST_PORT + PORTS - 1)


def _show(server: "subprocess.Popen[bytes]", port: int, page: str, shown: Callable[[str], object]) -> None:
    """Open the page in a browser, or print its address, once the server answers."""
    until = time.monotonic() + STARTS_WITHIN
    while server.poll() is None and time.monotonic() < until:
        try:
            urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
        except (URLError, OSError):
            time.sleep(0.2)
        else:
            shown(f"http://localhost:{port}/{page}")
            return


_SERVER: Arguments = {
    "--port": dict(type=int, metavar="N", help=f"default: the first free one from {FIRST_PORT}"),
    "--no-browser": dict(action="store_true", help="print the address, and open no browser"),
}
_FILE = dict(nargs="?", type=Path, metavar="FILE", help="a record (run.heedmap), weights, or a folder of checkpoints")
_CODE = dict(metavar="FILE.py:FUNCTION", help="your file, and the function that makes the model")
COMMANDS = (
    Command(
        "open", open_file,
        "open the dashboard, with a record, weights or a folder of checkpoints (the default command)",
        {"file": _FILE, **_SERVER},
        "Start the dashboard on this machine and open it in the browser. Ctrl-C stops it.",
    ),
    Command(
        "serve", serve, "open the dashboard with a model of your own code", {"model": _CODE, **_SERVER},
        "Run your own code in the dashboard: `make()` gives a module and a function from text to inputs.",
    ),
)  # fmt: skip
