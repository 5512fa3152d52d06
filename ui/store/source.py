"""What every origin of checkpoints can do; `shipped`, `user_folder` and `uploads` each have a class that does it."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from transformer import Checkpoint
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.safe.contents import Contents
from ui.store.refs import CheckpointRef, Revision

Answers = tuple[tuple[str, Any], ...]
"""Answers about a file as part of a key: names and values, sorted."""


class CheckpointSource(ABC):
    """One origin of checkpoints; methods raise CheckpointError where there is no such one, or it is refused."""

    @abstractmethod
    def refs(self) -> list[CheckpointRef]:
        """Every checkpoint that is here, in the order of lists."""

    def has(self, ref: CheckpointRef) -> bool:
        """Whether this is one of `refs`."""
        return ref in self.refs()

    @abstractmethod
    def stamp(self, ref: CheckpointRef) -> int:
        """A number that changes when the files of a checkpoint do."""

    @abstractmethod
    def architecture(self, ref: CheckpointRef, answers: Answers) -> str | None:
        """The architecture that a checkpoint describes; None for one that describes none."""

    @abstractmethod
    def load(self, revision: Revision, answers: Answers) -> Checkpoint:
        """A checkpoint, ready to run; the error's message is the report."""

    @abstractmethod
    def contents(self, revision: Revision) -> Contents:
        """The tensors of a checkpoint as its files hold them."""

    def fingerprint(self, ref: CheckpointRef) -> str | None:  # noqa: B027  (what asks nothing needs none)
        """What answers about a checkpoint are remembered under; None where there is nothing to answer, or to read."""

    def bundle(self, ref: CheckpointRef) -> Bundle | None:  # noqa: B027
        """The files of a checkpoint that may have questions; None for a folder whose config says everything."""

    def vocabulary_files(self, ref: CheckpointRef) -> tuple[Path, ...] | None:  # noqa: B027
        """The files of its tokenizers; None where only loading it tells."""
