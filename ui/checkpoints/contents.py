"""What lies in a checkpoint's files, worked out once: for all sessions, or for the one that uploaded it.

Files that did not ship with the app are read and looked through in worker processes, and the latter only when asked.
"""

from collections.abc import Callable
from pathlib import Path

from transformer.checkpoint.inspect.circuits import HeadCircuits
from transformer.checkpoint.inspect.compare import Comparison, compare_contents
from transformer.checkpoint.inspect.tensors import Inspection, inspect_contents
from transformer.checkpoint.load import find_files, read
from transformer.checkpoint.safe.contents import Contents
from transformer.checkpoint.safe.limits import DEFAULT_LIMITS
from transformer.checkpoint.worker import apart
from ui.store import cached, user_checkpoints
from ui.store.cache import in_session, kept
from ui.store.uploads import is_upload, upload


def inspection(name: str) -> Inspection | None:
    """Every tensor in numbers; None for a stranger's file that was not looked through in this session.

    Raises:
        CheckpointError: the weights cannot be read.
    """
    if not user_checkpoints.holds(name):
        return _inspection(name, cached.revision(name))
    try:
        return in_session("inspection", _key(name), _not_yet)
    except _NotYetError:
        return None


def look_through(name: str, on_progress: Callable[[float], None]) -> None:
    """Look through a stranger's file in a worker process; `on_progress` hears how far it is, and may raise to stop it.

    Raises:
        CheckpointError: it cannot be read, or takes too much memory or time.
    """
    in_session("inspection", _key(name), lambda: apart.inspect(contents(name), _file_bytes(name), on_progress))


def comparison(first: str, second: str) -> Comparison:
    """Which tensors moved from one to the other.

    Raises:
        CheckpointError: one of them cannot be read.
    """
    return _comparison(first, second, cached.revision(first), cached.revision(second))


def circuits(name: str, compute: Callable[[], tuple[HeadCircuits, ...]]) -> tuple[HeadCircuits, ...]:
    """Singular values of every head."""
    return in_session("circuits", (name, cached.revision(name)), compute)


def contents(name: str) -> Contents:
    """The tensors of a checkpoint as its files hold them.

    Raises:
        CheckpointError: they cannot be read.
    """
    found = user_checkpoints.bundle_of(name) if user_checkpoints.holds(name) else None
    if found is not None:
        return found.contents
    if user_checkpoints.holds(name):
        return _own_contents(str(user_checkpoints.path_of(name)), cached.revision(name))
    path = cached.weights_path(name) if cached.MOMENT in name else cached.CHECKPOINTS / name
    return _contents(str(path), cached.revision(name))


class _NotYetError(Exception):
    """A file was not looked through."""


def _not_yet() -> Inspection:
    raise _NotYetError


def _key(name: str) -> tuple[str, int]:
    return name, cached.revision(name)


@kept(max_entries=32, show_spinner="Looking through the tensors …")
def _inspection(name: str, revision: int) -> Inspection:  # noqa: ARG001  (part of the cache key)
    return inspect_contents(contents(name), _file_bytes(name))


@kept(max_entries=32, show_spinner="Comparing …")
def _comparison(first: str, second: str, *revisions: int) -> Comparison:  # noqa: ARG001  (part of the cache key)
    return compare_contents(contents(first), contents(second))


@kept(max_entries=2, show_spinner="Reading the weights …")
def _contents(path: str, revision: int) -> Contents:  # noqa: ARG001  (part of the cache key)
    return read(Path(path), DEFAULT_LIMITS)


@kept(max_entries=2, show_spinner="Reading the weights …")
def _own_contents(path: str, revision: int) -> Contents:  # noqa: ARG001  (part of the cache key)
    return apart.read_path(Path(path))


def _file_bytes(name: str) -> int:
    if is_upload(name):
        return upload(name).bundle.n_bytes
    path = user_checkpoints.path_of(name) if user_checkpoints.holds(name) else None
    return sum(file.stat().st_size for file in find_files(path or cached.CHECKPOINTS / name).values())
