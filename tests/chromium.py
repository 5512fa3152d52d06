"""The Chromium that the browser tests drive: found on this machine, or installed.

`python -m tests.chromium` prints its path and, when there is none yet, installs one first.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""How the tests start it: no sandbox, so that it starts for root in a container, and nothing in the background."""


def find() -> Path | None:
    """$CHROMIUM, else one on the PATH, else the one that Playwright downloaded; None when there is none.

    Raises:
        FileNotFoundError: $CHROMIUM names no file.
    """
    named = os.environ.get("CHROMIUM")
    if named:
        path = shutil.which(named)
        if path is None:
            raise FileNotFoundError(f"CHROMIUM={named} is no program: correct it, or unset it to let one be found")
        return Path(path)
    on_path = (shutil.which(name) for name in NAMES)
    return next((Path(path) for path in on_path if path), None) or _of_playwright()


def find_or_install() -> Path:
    """A Chromium, installed by the system's packages (root on Debian) or by Playwright when there is none.

    Raises:
        FileNotFoundError: none could be installed.
    """
    found = find()
    if found:
        return found
    for commands in _installations():
        if all(subprocess.run(command, check=False, env=_quiet()).returncode == 0 for command in commands):
            found = find()
            if found:
                return found
    raise FileNotFoundError(
        "no Chromium was found and none could be installed: install chromium or google-chrome, "
        "or set CHROMIUM to the path of one"
    )


def _of_playwright() -> Path | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.exists() else None


def _installations() -> list[list[list[str]]]:
    """Ways to install one, best first; each is a list of commands."""
    ways = []
    if os.geteuid() == 0 and shutil.which("apt-get"):
        ways.append([["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", "chromium"]])
    ways.append([[sys.executable, "-m", "playwright", "install", "chromium"]])
    return ways


def _quiet() -> dict[str, str]:
    return os.environ | {"DEBIAN_FRONTEND": "noninteractive"}


if __name__ == "__main__":
    try:
        print(f"Browser tests use {find_or_install()}")
    except FileNotFoundError as problem:
        sys.exit(f"Browser tests cannot run: {problem}.")
