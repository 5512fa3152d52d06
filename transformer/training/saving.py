"""Files of a training that are there whole or not at all: a full disk costs what is being saved, never what was."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer.errors import TrainingError


@contextmanager
def saved_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write, which then takes its place.

    Raises:
        TrainingError: it cannot be written; what was there before still is, and nothing of the new file.
    """
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield new
        new.replace(path)
    except (OSError, RuntimeError) as error:  # torch's own writer hides the system's error behind one of its own
        new.unlink(missing_ok=True)
        said = error if isinstance(error, OSError) else error.__context__
        reason = said.strerror if isinstance(said, OSError) else None
        raise TrainingError("training_cannot_write", path=path, reason=reason or str(error)) from error
