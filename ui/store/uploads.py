"""Checkpoints that a reader uploads: they live in the memory of his session, and nowhere else.

Another session has no way to them, and they go when it ends. What they hold is bounded for a session and for all
sessions together. The app writes none of it to disk; while a file of more than 1 MB arrives, the web server keeps it in
a temporary file without a name (see TMPDIR), which is gone as soon as it has arrived.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol

from transformer.checkpoint.foreign.bundle import Bundle, bundle, is_vocabulary, read_vocabulary
from transformer.errors import CheckpointError
from ui.store import arrivals, holdings, ledger
from ui.store.holdings import PREFIX
from ui.store.ledger import Counted, UploadLimits, megabytes
from ui.store.memory import give_back

ENDINGS = ("pt", "pth", "bin", "ckpt", "chkpt", "safetensors", "json", "model", "txt", "vocab", "pkl", "pickle")
"""What may be chosen; pickled vocabularies only to be told how to write them as text."""


class File(Protocol):
    """A file as the browser sent it."""

    @property
    def name(self) -> str:
        """What it is called on the reader's machine."""

    @property
    def size(self) -> int:
        """Its bytes."""


@dataclass(eq=False)
class Upload:
    """One checkpoint of the reader's session. `token` stands in cache keys: nobody else can guess it.

    `weights` and `words` count in the ledger what the files that were brought first and the vocabularies that came
    later take.
    """

    bundle: Bundle
    weights: Counted
    words: Counted | None = None
    token: int = field(default_factory=lambda: secrets.randbits(62))

    @property
    def n_bytes(self) -> int:
        """Bytes of its files."""
        return self.weights.n_bytes + (self.words.n_bytes if self.words else 0)

    def bring(self, vocabularies: Mapping[str, bytes], words: Counted) -> None:
        """Read with other vocabularies from now on, instead of those that came later than the weights."""
        self.bundle, self.token = self.bundle.with_vocabularies(vocabularies), secrets.randbits(62)
        self.words = words


def uploads() -> dict[str, Upload]:
    """The reader's uploads by name."""
    return holdings.mine().uploads


def is_upload(name: str) -> bool:
    """Whether this name is one of an upload (of the reader or another)."""
    return name.startswith(PREFIX)


def upload(name: str) -> Upload:
    """An upload of the reader's.

    Raises:
        CheckpointError: the reader has none of this name.
    """
    if name not in uploads():
        raise CheckpointError(f"{name} is not here: uploads live in one session only, so bring the file again")
    return uploads()[name]


def room(limits: UploadLimits) -> int:
    """Bytes that the session may still bring."""
    return max(0, limits.session_bytes - sum(one.n_bytes for one in uploads().values()))


def may_arrive(limits: UploadLimits) -> int:
    """Bytes of a file that may arrive at this moment; more would be refused by the web server, without a sentence."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    return max(0, min(limits.file_bytes, limits.server_bytes - ledger.LEDGER.held, free))


def take(files: Sequence[Any], chosen: str | None, limits: UploadLimits | None = None) -> str:
    """Read what was brought and keep it in the session; returns its name.

    Vocabularies that come without weights go to the upload called `chosen`. Whatever becomes of the files, they are
    closed, and the copies of the web server let go: both would stay in memory until the session ends.

    Raises:
        CheckpointError: something is refused, of no use, or more than a session or the server may hold.
    """
    arrivals.let_go(files)
    try:
        return _taken(files, chosen, limits or UploadLimits.of(os.environ))
    finally:
        for file in files:
            file.close()


def _taken(files: Sequence[Any], chosen: str | None, limits: UploadLimits) -> str:
    for file in files:
        if file.size > limits.file_bytes:
            raise CheckpointError(
                f"{file.name} has {megabytes(file.size)}, at most {megabytes(limits.file_bytes)} are taken here: "
                "save the weights alone or in half precision, or start the app with a folder of your own"
            )
    streams: dict[str, BufferedIOBase] = {Path(file.name).name: file for file in files}
    if len(streams) < len(files):
        raise CheckpointError("two files of one name were brought: bring each once")
    held = uploads()
    extended = held[chosen] if chosen in held and all(map(is_vocabulary, streams)) else None
    n_bytes = sum(file.size for file in files)
    _check_room(n_bytes, limits, extended)
    counted = Counted(n_bytes, limits.server_bytes)
    kept = False
    try:
        if extended is not None:
            extended.bring({name: read_vocabulary(stream, name) for name, stream in streams.items()}, counted)
            name = str(chosen)
        else:
            made = Upload(bundle(streams), counted)
            name = _name(made.bundle.name)
            held[name] = made
        kept = True
    finally:
        if not kept:  # at once: the error's traceback may live on
            counted.strike()
    return name


def forget(name: str) -> None:
    """Let go of an upload, and of all that was computed from the session's uploads."""
    held = holdings.mine()
    held.uploads.pop(name, None)
    held.results.clear()
    give_back()


def _check_room(n_bytes: int, limits: UploadLimits, extended: Upload | None) -> None:
    """Whether a session may hold so much more; the vocabularies that `extended` got before are replaced."""
    held = uploads()
    if extended is None and len(held) >= limits.checkpoints:
        raise CheckpointError(f"your list holds {len(held)} checkpoints, which is all it may: remove one first")
    replaced = extended.words.n_bytes if extended is not None and extended.words else 0
    together = n_bytes - replaced + sum(one.n_bytes for one in held.values())
    if together > limits.session_bytes:
        raise CheckpointError(
            f"the uploads would take {megabytes(together)}, at most {megabytes(limits.session_bytes)} are kept: "
            "remove a checkpoint first"
        )


def _name(stem: str) -> str:
    """A name that no upload of the reader's has, of plain characters, so that it can stand in an address."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:60] or "checkpoint"
    name, count = f"{PREFIX}{plain}", 2
    while name in uploads():
        name, count = f"{PREFIX}{plain}-{count}", count + 1
    return name
