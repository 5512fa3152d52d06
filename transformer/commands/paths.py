"""Paths as the command line takes them."""

import argparse
from pathlib import Path


def checkpoint_path(text: str) -> Path:
    """A path whose last part is a name, which messages and folders are called by: `.` becomes the folder's own."""
    path = Path(text)
    named = path if path.name not in {"", ".."} else path.resolve()
    if not named.name:
        raise argparse.ArgumentTypeError(f"{text!r} has no name: give a file or a folder below it")
    return named
