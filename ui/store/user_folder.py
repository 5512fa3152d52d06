"""The reader's own checkpoints, in a folder beside the shipped ones: `--checkpoints DIR`, or a variable."""

import argparse
import os
import sys
from functools import cache
from pathlib import Path

from transformer.checkpoint.safe.paths import check_inside
from transformer.checkpoint.weight_files import ENDINGS
from transformer.errors import CheckpointError

VARIABLE = "HEEDMAP_CHECKPOINTS"
PREFIX = "mine/"
"""What the names of the folder's checkpoints start with in lists and addresses."""


@cache
def own_folder() -> Path | None:
    """The folder that the app was started with; None without one. The argument counts before the variable."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--checkpoints", type=Path)
    given, _ = parser.parse_known_args(sys.argv[1:])
    named = given.checkpoints or os.environ.get(VARIABLE)
    return Path(named).expanduser().resolve() if named else None


def own_paths() -> tuple[dict[str, Path], list[str]]:
    """Every checkpoint of the folder by name, and sentences on what is not listed: links out of the folder."""
    folder, found, refused = own_folder(), dict[str, Path](), list[str]()
    if folder is None:
        return found, refused
    if not folder.is_dir():
        return found, [f"{folder.name} is no folder: start the app with one that holds checkpoints"]
    for path in sorted(folder.iterdir()):
        try:
            check_inside(path, folder)
        except CheckpointError as error:
            refused.append(str(error))
            continue
        inside = path.iterdir() if path.is_dir() else [path]
        if any(file.suffix in ENDINGS for file in inside):
            found[f"{PREFIX}{path.name}"] = path
    return found, refused
