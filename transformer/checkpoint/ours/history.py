"""Snapshots of a training: those in a checkpoint's `history/`, and what was measured at each."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.errors import CheckpointError

FOLDER, INDEX = "history", "index.json"


@dataclass(frozen=True)
class Snapshot:
    """Weights after so many `update`s, their greedy BLEU (0 to 100) and loss (nats a token) on the validation pairs."""

    path: Path
    update: int
    epoch: int
    bleu: float
    loss: float

    @property
    def name(self) -> str:
        """What stands for it after a checkpoint's name, as in `multi30k-en-de@000400`."""
        return self.path.stem


def snapshots(checkpoint_folder: Path) -> tuple[Snapshot, ...]:
    """The snapshots of a checkpoint, the earliest first; none where it kept none.

    Raises:
        CheckpointError: the index cannot be read, or names a file that is not in the folder.
    """
    folder = checkpoint_folder / FOLDER
    index = folder / INDEX
    if not index.is_file():
        return ()
    try:
        entries: list[dict[str, Any]] = json.loads(index.read_text(encoding="utf-8"))
        found = [
            Snapshot(
                folder / str(entry["file"]),
                int(entry["update"]),
                int(entry["epoch"]),
                float(entry["bleu_greedy"]),
                float(entry["loss"]),
            )
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError("history_unreadable", folder=checkpoint_folder.name, error=repr(error)) from error
    for snapshot in found:
        if snapshot.path.parent != folder or not snapshot.path.is_file():
            raise CheckpointError("snapshot_not_there", folder=checkpoint_folder.name, name=snapshot.path.name)
    return tuple(sorted(found, key=lambda snapshot: snapshot.update))
