"""What is installed: the dashboard and the shipped checkpoints, and what extras of the package bring.

The first two lie beside the library in a checkout, and inside it if it is installed.
"""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from .errors import InputError

_LIBRARY = Path(__file__).resolve().parent
_INSTALLED = _LIBRARY / "dashboard"

DASHBOARD = _INSTALLED if _INSTALLED.is_dir() else _LIBRARY.parent
"""The folder of app.py, with `pages` and `ui` beside it."""

CHECKPOINTS = DASHBOARD / "checkpoints"
"""The folder of the shipped checkpoints, one folder each."""


def version() -> str:
    """The version of this code: a checkout's own, else what is installed; `unknown` for files that were copied."""
    project = _LIBRARY.parent / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    try:
        return metadata.version("heedmap")
    except metadata.PackageNotFoundError:
        return "unknown"


def located(path: str | Path) -> Path:
    """The path of a checkpoint: `path` itself, or the shipped checkpoint of that name where nothing lies at `path`."""
    path = Path(path)
    shipped = CHECKPOINTS / path
    is_name = len(path.parts) == 1 and path.name not in {"", ".."}
    return shipped if is_name and not path.exists() and shipped.is_dir() else path


@contextmanager
def extra(name: str) -> Iterator[None]:
    """For imports of what an extra of the package brings, which recording and records do not need.

    Raises:
        InputError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError("extra_missing", module=error.name, extra=name) from error
