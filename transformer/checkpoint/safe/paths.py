"""No file of a checkpoint's folder may lie outside of it."""

from pathlib import Path

from transformer.checkpoint.safe.refusal import refusal


def check_inside(file: Path, folder: Path) -> None:
    """Refuse a file of a folder that is a link to somewhere else.

    Raises:
        CheckpointError: it is.
    """
    if not file.resolve().is_relative_to(folder.resolve()):
        raise refusal(f"{folder.name}/{file.name}", "it is a link that leads out of its folder", "copy the file itself")
