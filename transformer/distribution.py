"""Where the dashboard and the shipped checkpoints lie: beside the library in a checkout, in `heedmap` if installed."""

import tomllib
from importlib import metadata
from pathlib import Path

_ABOVE = Path(__file__).resolve().parents[1]
_INSTALLED = _ABOVE / "heedmap" / "dashboard"

DASHBOARD = _INSTALLED if _INSTALLED.is_dir() else _ABOVE
"""The folder of app.py, with `pages` and `ui` beside it."""

CHECKPOINTS = DASHBOARD / "checkpoints"
"""The folder of the shipped checkpoints, one folder each."""


def version() -> str:
    """The version of this code: a checkout's own, else what is installed; `unknown` for files that were copied."""
    project = _ABOVE / "pyproject.toml"
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
