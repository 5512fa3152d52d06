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
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
"""How the tests start it: no sandbox, so that it starts for root in a container, and nothing in the background."""


def find() -> Path | None:
    """$CHROMIUM, else one on the PATH, else the one that Playwright downloaded; None when there is none.

    Raises:
        FileNotFoundError: $CHROMIUM names no file.
    """
    named = os.environ.get("CHROMIUM")
    if named and shutil.which(named) is None:
        raise FileNotFoundError(f"CHROMIUM={named} is no program: correct it, or unset it to let one be found")
    found = next((path for name in ([named] if named else NAMES) if (path := shutil.which(name))), None)
    if found is None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            found = playwright.chromium.executable_path
    return Path(found) if Path(found).exists() else None


def find_or_install() -> Path:
    """A Chromium, installed by the system's packages (root on Debian) or by Playwright when there is none.

    Raises:
        FileNotFoundError: none could be installed.
    """
    ways = [[[sys.executable, "-m", "playwright", "install", "chromium"]]]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        ways.insert(0, [["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", "chromium"]])
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    found = find()
    while found is None and ways:
        all(subprocess.run(command, check=False, env=quiet).returncode == 0 for command in ways.pop(0))
        found = find()
    if found is None:
        raise FileNotFoundError(
            "no Chromium was found and none could be installed: install chromium or google-chrome, "
            "or set CHROMIUM to the path of one"
        )
    return found


if __name__ == "__main__":
    try:
        print(f"Browser tests use {find_or_install()}")
    except FileNotFoundError as problem:
        sys.exit(f"Browser tests cannot run: {problem}.")
