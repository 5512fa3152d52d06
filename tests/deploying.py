"""What deploys the dashboard, for tests: a free port, and the proxy, which Python brings (package caddyserver)."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

from tests.waiting import PATIENCE, until

ROOT = Path(__file__).resolve().parents[1]
CADDYFILE = ROOT / "deploy" / "Caddyfile"
CADDY = str(Path(sys.executable).with_name("caddy"))
"""The executable of the proxy."""

END_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG of prctl(2)
if os.getppid() == int(sys.argv[1]):  # it may be gone already
    os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Becomes the program that it is given, which ends when the thread that started it is gone, however that ended."""

PORTS = range(20_000, 32_000)
"""Below those that a system gives away by itself, which others get before a server that was told of one listens."""


def free_port() -> int:
    """A port that nobody listens on, and that no other process of the tests is told of: one of many, by chance."""
    while True:
        with socket.socket() as probe:
            port = SystemRandom().choice(PORTS)
            if probe.connect_ex(("127.0.0.1", port)):
                return port


def status_of(address: str, method: str = "GET", **headers: str) -> int:
    """The HTTP status with which something answers; 0 where nothing does."""
    try:
        asked = urllib.request.Request(address, method=method, headers=headers)
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def launched(command: Sequence[str | Path], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """A process that writes to `log` and outlives neither this one nor the thread that calls this.

    `options` are those of `subprocess.Popen`.
    """
    first = [sys.executable, "-S", "-c", END_WITH_PARENT, str(os.getpid())] if sys.platform == "linux" else []
    with log.open("wb") as output:
        return subprocess.Popen([*first, *command], stdout=output, stderr=output, **options)


@contextmanager
def proxy_before(
    servers: list[str], log: Path, ready: str = "/_stcore/health", status: int = 200, file: Path = CADDYFILE
) -> Iterator[str]:
    """Caddy before some servers, with the project's file or another; gives its address once it answers `ready` so."""
    site = f"http://127.0.0.1:{free_port()}"
    environment = os.environ | {"HEEDMAP_SITE": site, "HEEDMAP_SERVERS": " ".join(servers)}
    proxy = launched([CADDY, "run", "--config", file, "--adapter", "caddyfile"], log, env=environment)

    def answers() -> None:
        assert status_of(f"{site}{ready}") == status, log.read_text()

    try:
        until(answers)
        yield site
    finally:
        proxy.terminate()
        proxy.wait(PATIENCE)
