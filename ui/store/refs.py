"""Which checkpoint is meant: the one place where a name from a list or an address is read.

A name says where a checkpoint comes from by how it starts: `multi30k-en-de` shipped with the app, `mine/model.pt` lies
in the user's folder, `upload/model` was uploaded in this session, and so was `record/run`, the file of a record.
`multi30k-en-de@000400` is a snapshot of a shipped checkpoint's training.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

AT = "@"
"""Parts a shipped checkpoint's name from the snapshot of its training that is meant."""


class Origin(Enum):
    """Where a checkpoint comes from; the value is what its name starts with."""

    SHIPPED = ""
    USER_FOLDER = "mine/"
    UPLOAD = "upload/"
    RECORD = "record/"


@dataclass(frozen=True)
class CheckpointRef:
    """One checkpoint: its origin, its name there, and the snapshot of its training that is meant ("" for the last).

    `str` of it is what stands in lists and addresses, and `parse` reads that again.
    """

    origin: Origin
    name: str
    snapshot: str = ""

    @classmethod
    def parse(cls, text: str) -> "CheckpointRef":
        """What a name from a list or an address means; nothing says that there is such a checkpoint."""
        for origin in (Origin.USER_FOLDER, Origin.UPLOAD, Origin.RECORD):
            if text.startswith(origin.value):
                return cls(origin, text.removeprefix(origin.value))
        name, _, snapshot = text.partition(AT)
        return cls(Origin.SHIPPED, name, snapshot)

    def __str__(self) -> str:
        return f"{self.origin.value}{self.name}{AT if self.snapshot else ''}{self.snapshot}"

    @property
    def private(self) -> bool:
        """Whether it belongs to one session, and with it all that is computed from it."""
        return self.origin in (Origin.UPLOAD, Origin.RECORD)

    @property
    def base(self) -> "CheckpointRef":
        """The checkpoint whose training this is a snapshot of; itself where it is none."""
        return replace(self, snapshot="")

    def at(self, snapshot: str) -> "CheckpointRef":
        """A snapshot of its training."""
        return replace(self, snapshot=snapshot)


@dataclass(frozen=True)
class Revision:
    """A checkpoint as it is now: `stamp` changes when its weights, or the answers about it, do.

    It stands in the key of every cached result, so the cache knows from the key whose the result is.
    """

    ref: CheckpointRef
    stamp: int

    @classmethod
    def of(cls, ref: CheckpointRef, stamp: int, answers: tuple[tuple[str, Any], ...]) -> "Revision":
        """A checkpoint whose files have this stamp, with these answers about it."""
        return cls(ref, hash((stamp, answers)))
