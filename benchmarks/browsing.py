"""What a page costs whoever looks at it: the CPU time of the whole Chromium, and bytes over the socket."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from tests.browser.visiting import PATIENCE, ROOT, start_server

CALM = 0.05
"""CPU seconds in a second of wall time below which a browser is taken to have drawn what it had to draw."""


@contextmanager
def served(app: str, **settings: str) -> Iterator[str]:
    """The address of a script of `apps/` (or of the dashboard itself, `app.py`) while the block runs."""
    script = ROOT / app if app == "app.py" else Path(__file__).parent / "apps" / app
    with tempfile.TemporaryDirectory() as folder:
        server, address = start_server(script, Path(folder) / "log", **settings)
        try:
            yield address
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


def chromium_seconds() -> float:
    """CPU seconds that the Chromium below this process has used so far, all its processes together (Linux only)."""
    parents, seconds = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        name_and_fields = _stat(entry)
        if name_and_fields:
            name, fields = name_and_fields
            parents[int(entry.name)] = int(fields[1])
            if "chrom" in name or "headless" in name:
                seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(used for process, used in seconds.items() if _descends(process, parents))


def seconds_until_calm(page: Page, longest: float) -> float:
    """CPU seconds that Chromium uses from now until it has nothing more to draw, or `longest` seconds have passed."""
    first = last = chromium_seconds()
    deadline = time.monotonic() + longest
    while time.monotonic() < deadline:
        page.wait_for_timeout(1_000)
        now = chromium_seconds()
        if now - last < CALM:
            break
        last = now
    return last - first


def _stat(entry: Path) -> tuple[str, list[str]] | None:
    """Name of a process and the fields after it; None when it has ended meanwhile."""
    try:
        text = (entry / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


def _descends(process: int, parents: dict[int, int]) -> bool:
    while process in parents:
        if process == os.getpid():
            return True
        process = parents[process]
    return False
