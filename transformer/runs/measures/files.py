"""What a measure leaves beside a checkpoint: JSON, which is read as strictly as any stranger's file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.messages import Message
from transformer.safe.refusal import refused

T = TypeVar("T")


def write(path: Path, about: Any) -> None:
    """Write what `read` reads.

    Raises:
        OSError: the file cannot be written.
    """
    path.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(path: Path, made: Callable[[Any], T], kind: str) -> T:
    """What `made` makes of a file of this kind of measure.

    Raises:
        CheckpointError: it cannot be read, or `made` could make nothing of it.
    """
    try:
        return made(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        name = f"{path.parent.name}/{path.name}"
        raise refused("damaged_measure", name, Message("remedy_measure", kind=kind), kind=kind) from error


def beside(checkpoint: Checkpoint, name: str, read_file: Callable[[Path], T]) -> T | None:
    """What lies beside a checkpoint's weights; None where nothing does, or where these are weights of another moment.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = checkpoint.beside(name)
    return None if path is None else read_file(path)
