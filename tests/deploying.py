"""What deploys the dashboard, for tests: a free port, and the proxy, which Python brings (package caddyserver)."""

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

ROOT = Path(__file__).resolve().parents[1]
CADDYFILE = ("--config", str(ROOT / "deploy" / "Caddyfile"), "--adapter", "caddyfile")
CADDY = str(Path(sys.executable).with_name("caddy"))
"""The executable of the proxy."""

PATIENCE = 60


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


def status_of(address: str, method: str = "GET") -> int:
    """The HTTP status with which something answers; 0 where nothing does."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextmanager
def proxy_before(servers: list[str], log: Path, ready: str = "/_stcore/health", status: int = 200) -> Iterator[str]:
    """Caddy before some servers, with the project's own file; gives its address once it answers `ready` so."""
    site = f"http://127.0.0.1:{free_port()}"
    environment = os.environ | {"HEEDMAP_SITE": site, "HEEDMAP_SERVERS": " ".join(servers)}
    with log.open("wb") as output:
        proxy = subprocess.Popen([CADDY, "run", *CADDYFILE], env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + PATIENCE
        while status_of(f"{site}{ready}") != status:
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield site
    finally:
        proxy.terminate()
        proxy.wait(PATIENCE)
