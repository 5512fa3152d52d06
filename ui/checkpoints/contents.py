"""What lies in a checkpoint's files, worked out once: for all sessions, or for the one that uploaded it.

Files that did not ship with the app are read and looked through in worker processes, and the latter only when asked.
"""

from collections.abc import Callable

from transformer.checkpoint.inspect.circuits import HeadCircuits
from transformer.checkpoint.inspect.compare import TensorComparison, compare_contents
from transformer.checkpoint.inspect.tensors import Inspection, inspect_contents
from transformer.checkpoint.worker import isolated
from ui.store import store
from ui.store.cache import cached, in_session, session_store
from ui.store.refs import Revision

LOOKED_THROUGH = "inspection"
"""What the session keeps of strangers' files that were looked through."""


def inspection(name: str) -> Inspection | None:
    """Every tensor in numbers; None for a stranger's file that was not looked through in this session.

    Raises:
        CheckpointError: the weights cannot be read.
    """
    revision = store.revision(name)
    if store.is_trusted(name):
        return _inspection(revision)
    found: Inspection | None = session_store(LOOKED_THROUGH).find(revision)
    return found


def look_through(name: str, on_progress: Callable[[float], None]) -> None:
    """Look through a stranger's file in a worker process; `on_progress` hears how far it is, and may raise to stop it.

    Raises:
        CheckpointError: it cannot be read, or takes too much memory or time.
    """
    contents, n_bytes = store.contents(name), store.n_bytes(name)
    in_session(LOOKED_THROUGH, store.revision(name), lambda: isolated.inspect(contents, n_bytes, on_progress))


def comparison(first: str, second: str) -> TensorComparison:
    """Which tensors moved from one to the other.

    Raises:
        CheckpointError: one of them cannot be read.
    """
    return _comparison(store.revision(first), store.revision(second))


def circuits(name: str, compute: Callable[[], tuple[HeadCircuits, ...]]) -> tuple[HeadCircuits, ...]:
    """Singular values of every head."""
    return in_session("circuits", store.revision(name), compute)


@cached(spinner="store.looking_through_tensors")
def _inspection(revision: Revision) -> Inspection:
    name = str(revision.ref)
    return inspect_contents(store.contents(name), store.n_bytes(name))


@cached(spinner="store.comparing")
def _comparison(first: Revision, second: Revision) -> TensorComparison:
    return compare_contents(store.contents(str(first.ref)), store.contents(str(second.ref)))
