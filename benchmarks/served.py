"""A Streamlit script in a server of its own, and a Chromium to look at it."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests import chromium

ROOT = Path(__file__).parents[1]
PATIENCE = 90.0
"""Seconds that a server may take to answer."""


@contextmanager
def served(script: Path, **settings: str) -> Iterator[str]:
    """The address of `script` while the block runs; `settings` are environment variables."""
    port = _free_port()
    where = {"STREAMLIT_SERVER_ADDRESS": "127.0.0.1", "STREAMLIT_SERVER_PORT": str(port), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "streamlit", "run", str(script)]
    server = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | where | settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(f"{address}/_stcore/health", server)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE)


@contextmanager
def opened_chromium() -> Iterator[Browser]:
    """The Chromium of the browser tests."""
    path = chromium.find_or_install()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(chromium.ARGUMENTS))
        yield browser
        browser.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError(f"the server at {address} does not answer")
