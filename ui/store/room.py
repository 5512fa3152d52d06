"""Whether what a user brings has room in their session, and under which name it is kept there."""

from transformer.errors import CheckpointError
from ui.store import holdings
from ui.store.ledger import UploadLimits, megabytes
from ui.store.refs import CheckpointRef, Origin


def check_size(name: str, size: int, limits: UploadLimits) -> None:
    """Whether a file may be so large.

    Raises:
        CheckpointError: it may not.
    """
    if size > limits.file_bytes:
        most = megabytes(limits.file_bytes)
        raise CheckpointError("upload_too_large", name=name, found=megabytes(size), most=most)


def check_room(more: int, limits: UploadLimits, *, is_new: bool = True) -> None:
    """Whether the session may hold so many more bytes, and one thing more where it `is_new`.

    Raises:
        CheckpointError: it may not.
    """
    held = holdings.mine()
    count, together = len(held.uploads) + len(held.records), held.n_bytes + more
    if is_new and count >= limits.checkpoints:
        raise CheckpointError("upload_too_many", count=count)
    if together > limits.session_bytes:
        raise CheckpointError("uploads_too_large", found=megabytes(together), most=megabytes(limits.session_bytes))


def free_ref(stem: str, origin: Origin = Origin.UPLOAD) -> CheckpointRef:
    """One that nothing of the session has, of plain characters, so that it can stand in an address."""
    mine = holdings.mine()
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:60] or "checkpoint"
    ref, count = CheckpointRef(origin, plain), 2
    while ref in mine.uploads or ref in mine.records:
        ref, count = CheckpointRef(origin, f"{plain}-{count}"), count + 1
    return ref
