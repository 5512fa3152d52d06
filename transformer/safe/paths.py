"""No file of a checkpoint's folder may lie outside of it."""

from pathlib import Path

from transformer.messages import Message
from transformer.safe.refusal import refused


def check_inside(file: Path, folder: Path) -> None:
    """Refuse a file of a folder that is a link to somewhere else.

    Raises:
        CheckpointError: it is.
    """
    if not file.resolve().is_relative_to(folder.resolve()):
        raise refused("link_leads_out", f"{folder.name}/{file.name}", Message("remedy_copy_file"))
