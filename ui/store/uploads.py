"""Checkpoints that a reader uploads: they live in his session, and nowhere else. Nothing is written to disk.

The session's state holds them, so another session has no way to them, and they go when it ends. What they hold in
memory is bounded for a session and for all sessions together.
"""

import os
import secrets
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import streamlit as st

from transformer.checkpoint.foreign.bundle import Bundle, bundle, is_vocabulary, read_vocabulary
from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.errors import CheckpointError

PREFIX = "upload/"
"""What the names of uploads start with in lists and addresses."""

STATE = "uploads"
ENDINGS = ("pt", "pth", "bin", "ckpt", "chkpt", "safetensors", "json", "model", "txt", "vocab", "pkl", "pickle")
"""What may be chosen; pickled vocabularies only to be told how to write them as text."""


@dataclass(frozen=True)
class UploadLimits:
    """How much may be held: `file_bytes` and `session_bytes` for one session, `server_bytes` for all together.

    Sizes are those of the weights as files; a model that runs takes as much again.
    """

    file_bytes: int = 200 * MEGABYTE
    session_bytes: int = 400 * MEGABYTE
    server_bytes: int = 2048 * MEGABYTE
    checkpoints: int = 8

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "UploadLimits":
        """The limits, with HEEDMAP_UPLOAD_MB, _SESSION_MB and _SERVER_MB in the place of the defaults.

        Raises:
            CheckpointError: one of them is no number of megabytes.
        """
        found = {}
        names = {"UPLOAD": "file_bytes", "SESSION": "session_bytes", "SERVER": "server_bytes"}
        for name, field_name in names.items():
            value = environment.get(f"HEEDMAP_{name}_MB")
            if value is not None:
                if not (value.isascii() and value.isdecimal() and 0 < int(value) < 10**6):
                    raise CheckpointError(f"HEEDMAP_{name}_MB={value!r} is no number of megabytes: give one")
                found[field_name] = int(value) * MEGABYTE
        return cls(**found)


class File(Protocol):
    """A file as the browser sent it."""

    @property
    def name(self) -> str:
        """What it is called on the reader's machine."""

    @property
    def size(self) -> int:
        """Its bytes."""


class Ledger:
    """How many bytes all sessions hold. An upload is struck off when nothing refers to it any more."""

    def __init__(self) -> None:
        self._lock, self._held = Lock(), 0

    @property
    def held(self) -> int:
        """Bytes of all uploads of all sessions."""
        return self._held

    def add(self, n_bytes: int, limit: int) -> None:
        """Count bytes before they are read.

        Raises:
            CheckpointError: all sessions together would hold more than `limit`.
        """
        with self._lock:
            if self._held + n_bytes > limit:
                raise CheckpointError(
                    f"the server holds {_megabytes(self._held)} of its readers' checkpoints and has no room for "
                    f"{_megabytes(n_bytes)} more: try again later, or run the app yourself"
                )
            self._held += n_bytes

    def strike(self, n_bytes: int) -> None:
        """Count them no more."""
        with self._lock:
            self._held -= n_bytes


LEDGER = Ledger()


@dataclass(eq=False)
class Upload:
    """One checkpoint of the reader's session. `token` stands in cache keys: nobody else can guess it."""

    bundle: Bundle
    token: int = field(default_factory=lambda: secrets.randbits(62))

    def bring(self, vocabularies: Mapping[str, bytes]) -> None:
        """Read with other vocabularies from now on."""
        self.bundle, self.token = self.bundle.with_vocabularies(vocabularies), secrets.randbits(62)


def uploads() -> dict[str, Upload]:
    """The reader's uploads by name."""
    held: dict[str, Upload] = st.session_state.setdefault(STATE, {})
    return held


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


def take(files: Sequence[Any], chosen: str | None, limits: UploadLimits | None = None) -> str:
    """Read what was brought and keep it in the session; returns its name.

    Vocabularies that come without weights go to the upload called `chosen`.

    Raises:
        CheckpointError: something is refused, of no use, or more than a session or the server may hold.
    """
    limits = limits or UploadLimits.of(os.environ)
    for file in files:
        if file.size > limits.file_bytes:
            raise CheckpointError(
                f"{file.name} has {_megabytes(file.size)}, at most {_megabytes(limits.file_bytes)} are taken here: "
                "save the weights alone or in half precision, or start the app with a folder of your own"
            )
    streams: dict[str, BufferedIOBase] = {Path(file.name).name: file for file in files}
    if len(streams) < len(files):
        raise CheckpointError("two files of one name were brought: bring each once")
    held = uploads()
    if chosen in held and all(map(is_vocabulary, streams)):
        held[chosen].bring({name: read_vocabulary(stream, name) for name, stream in streams.items()})
        return chosen
    n_bytes = sum(file.size for file in files)
    _check_room(n_bytes, limits)
    LEDGER.add(n_bytes, limits.server_bytes)
    made: Upload | None = None
    try:
        made = Upload(bundle(streams))
        weakref.finalize(made, LEDGER.strike, n_bytes)
    finally:
        if made is None:
            LEDGER.strike(n_bytes)
    name = _name(made.bundle.name)
    held[name] = made
    return name


def forget(name: str) -> None:
    """Let go of an upload and of all that was computed from it."""
    uploads().pop(name, None)


def _check_room(n_bytes: int, limits: UploadLimits) -> None:
    held = uploads()
    if len(held) >= limits.checkpoints:
        raise CheckpointError(f"your list holds {len(held)} checkpoints, which is all it may: remove one first")
    together = n_bytes + sum(one.bundle.n_bytes for one in held.values())
    if together > limits.session_bytes:
        raise CheckpointError(
            f"the uploads would take {_megabytes(together)}, at most {_megabytes(limits.session_bytes)} are kept: "
            "remove a checkpoint first"
        )


def _name(stem: str) -> str:
    """A name that no upload of the reader's has, of plain characters, so that it can stand in an address."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:60] or "checkpoint"
    name, count = f"{PREFIX}{plain}", 2
    while name in uploads():
        name, count = f"{PREFIX}{plain}-{count}", count + 1
    return name


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / MEGABYTE:,.1f} MB"
