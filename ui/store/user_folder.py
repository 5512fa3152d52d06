"""The user's folder, or the one file, that the app was started with (`--checkpoints PATH`), and where things lie there.

Links that lead out of the folder are left out.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from heedmap.attention.record_files import is_record
from heedmap.checkpoint.weight_files import ENDINGS
from heedmap.errors import CheckpointError
from heedmap.messages import Message
from heedmap.safe.limits import check_inside
from ui.store import limits
from ui.store.refs import CheckpointRef, RefSource

VARIABLE = "HEEDMAP_CHECKPOINTS"


@cache
def own_folder() -> Path | None:
    """The folder, or the one file, that the app was started with, by argument or else by variable; None without one."""
    named = limits.argument("checkpoints") or os.environ.get(VARIABLE)
    return Path(named).expanduser().resolve() if named else None


def own_paths() -> tuple[dict[CheckpointRef, Path], list[str]]:
    """Where every checkpoint of the folder lies, and messages on what is not listed: links out of the folder."""
    paths, refused = _listed()
    found = dict[CheckpointRef, Path]()
    for path in paths:
        inside = path.iterdir() if path.is_dir() else [path]
        if any(file.suffix in ENDINGS for file in inside):
            found[CheckpointRef(RefSource.USER_FOLDER, path.name)] = path
    return found, refused


def own_records() -> dict[CheckpointRef, Path]:
    """Where every record file of the folder lies."""
    return {CheckpointRef(RefSource.USER_FOLDER, path.name): path for path in _listed()[0] if is_record(path.name)}


def _listed() -> tuple[list[Path], list[str]]:
    """What lies in the user's folder, or the one file that stands for it; and why anything is left out."""
    folder, refused = own_folder(), list[str]()
    if folder is None or folder.is_file():
        return [folder] if folder else [], refused
    if not folder.is_dir():
        return [], [Message("no_user_folder", name=folder.name)]
    found = []
    for path in sorted(folder.iterdir()):
        try:
            check_inside(path, folder)
        except CheckpointError as error:
            refused.append(error.message)
        else:
            found.append(path)
    return found, refused


def lies_at(ref: CheckpointRef, paths: Mapping[CheckpointRef, Path]) -> Path:
    """Where one of these lies; a CheckpointError where it is none of them."""
    if ref not in paths:
        raise CheckpointError("checkpoint_not_here", name=str(ref))
    return paths[ref]
