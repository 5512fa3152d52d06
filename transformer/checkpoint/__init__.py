"""Checkpoints: folder -> model; foreign layouts; safe reading."""

from pathlib import Path

from transformer.checkpoint.folder import Checkpoint, is_folder, load_folder
from transformer.errors import CheckpointError

__all__ = ["Checkpoint", "load"]


def load(path: str | Path) -> Checkpoint:
    """The checkpoint at `path`, ready to run and watched.

    Raises:
        CheckpointError: it is missing, cannot be read, or is refused.
    """
    path = Path(path)
    if is_folder(path):
        return load_folder(path)
    raise CheckpointError(f"{path} is no checkpoint folder: it needs config.json and model.safetensors")
