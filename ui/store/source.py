"""What every origin of checkpoints can do; `shipped`, `user_folder` and `uploads` each have a class that does it."""

from pathlib import Path
from typing import Any, Protocol

from transformer import Checkpoint
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.safe.contents import Contents
from ui.store.refs import CheckpointRef, Revision

Answers = tuple[tuple[str, Any], ...]
"""Answers about a file as part of a key: names and values, sorted."""


class CheckpointSource(Protocol):
    """One origin of checkpoints. Its methods raise CheckpointError where there is no such checkpoint."""

    trusted: bool
    """Whether its files come with the app; others are read and looked through in worker processes."""

    def refs(self) -> list[CheckpointRef]:
        """Every checkpoint that is here, in the order of lists."""

    def stamp(self, ref: CheckpointRef) -> int:
        """A number that changes when the files of a checkpoint do."""

    def fingerprint(self, ref: CheckpointRef) -> str | None:
        """What answers about a checkpoint are remembered under; None where there is nothing to answer, or to read."""

    def architecture(self, ref: CheckpointRef, answers: Answers) -> str | None:
        """The architecture that a checkpoint describes; None for one that describes none."""

    def load(self, revision: Revision, answers: Answers) -> Checkpoint:
        """A checkpoint, ready to run.

        Raises:
            CheckpointError: it cannot be loaded; the message is the report.
        """

    def bundle(self, ref: CheckpointRef) -> Bundle | None:
        """The files of a checkpoint that may have questions; None for a folder whose config says everything.

        Raises:
            CheckpointError: the files are refused.
        """

    def contents(self, revision: Revision) -> Contents:
        """The tensors of a checkpoint as its files hold them.

        Raises:
            CheckpointError: they cannot be read.
        """

    def vocabulary_files(self, ref: CheckpointRef) -> tuple[Path, ...] | None:
        """The files of its tokenizers; None where only loading it tells.

        Raises:
            CheckpointError: one of them leads out of its folder.
        """

    def n_bytes(self, ref: CheckpointRef) -> int:
        """Bytes of its files."""
