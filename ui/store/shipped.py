"""The checkpoints that ship with the app, and the snapshots of their training. They are the same for all sessions."""

from pathlib import Path

from transformer import Checkpoint, distribution, load
from transformer.checkpoint.load import read
from transformer.checkpoint.ours.folder import described_architecture, is_folder, load_snapshot
from transformer.checkpoint.ours.history import FOLDER, Snapshot, snapshots
from transformer.checkpoint.weight_files import WEIGHTS
from transformer.errors import CheckpointError
from transformer.safe.contents import Contents
from transformer.safe.limits import DEFAULT_LIMITS
from ui.store import file_versions, log
from ui.store.budget import MODELS
from ui.store.cache import cached
from ui.store.file_versions import stamp_of, stamp_of_folder
from ui.store.refs import CheckpointRef, Origin, Revision
from ui.store.source import Answers, CheckpointSource

CHECKPOINTS = distribution.CHECKPOINTS
"""The folder of the shipped checkpoints."""

FIRST = ("multi30k-en-de", "splice-junctions")
"""What a page starts with, where it has the choice: the translator, and the classifier with a known consensus."""


class Shipped(CheckpointSource):
    """The folders of `CHECKPOINTS`. Their configs say everything, so nothing is asked about them."""

    def refs(self) -> list[CheckpointRef]:
        names = [path.name for path in CHECKPOINTS.iterdir() if is_folder(path)] if CHECKPOINTS.is_dir() else []
        return [CheckpointRef(Origin.SHIPPED, name) for name in sorted(names, key=lambda n: (n not in FIRST, n))]

    def has(self, ref: CheckpointRef) -> bool:
        """Whether this is one of `refs`, without a look at the others."""
        here = CHECKPOINTS / ref.name  # which may lead out of it
        listed = file_versions.once("listed", CHECKPOINTS, lambda: [*CHECKPOINTS.glob("*")])
        return here in listed and is_folder(here) and ref == CheckpointRef(Origin.SHIPPED, ref.name)

    def problems(self) -> list[CheckpointError]:
        """Why folders are in no list of an architecture: their config cannot be read."""
        return [found for ref in self.refs() if isinstance(found := _described(ref), CheckpointError)]

    def stamp(self, ref: CheckpointRef) -> int:
        try:
            return hash((stamp_of([_weights(ref)]), stamp_of_folder(CHECKPOINTS / ref.name)))
        except OSError as error:
            raise CheckpointError("checkpoint_not_here", name=str(ref)) from error

    def architecture(self, ref: CheckpointRef, answers: Answers) -> str | None:
        found = _described(ref.base)
        return found if isinstance(found, str) else None

    def load(self, revision: Revision, answers: Answers) -> Checkpoint:
        ref = revision.ref
        if not ref.snapshot:
            return _folder(revision)
        return _snapshot(revision, Revision.of(ref.base, self.stamp(ref.base), answers))

    def snapshots(self, ref: CheckpointRef) -> tuple[Snapshot, ...]:
        """The snapshots of a checkpoint's training, the earliest first.

        Raises:
            CheckpointError: their index is damaged.
        """
        return () if ref.snapshot else snapshots(CHECKPOINTS / ref.name)

    def contents(self, revision: Revision) -> Contents:
        return _contents(revision)


def _path(ref: CheckpointRef) -> Path:
    """The folder of a checkpoint, or the file of a snapshot."""
    return _weights(ref) if ref.snapshot else CHECKPOINTS / ref.name


def _weights(ref: CheckpointRef) -> Path:
    return CHECKPOINTS / ref.name / (f"{FOLDER}/{ref.snapshot}.safetensors" if ref.snapshot else WEIGHTS)


def _described(ref: CheckpointRef) -> str | CheckpointError:
    """The architecture that a folder names, or why none can be read."""
    folder = CHECKPOINTS / ref.name

    def look() -> str | CheckpointError:
        try:
            return described_architecture(folder)
        except CheckpointError as error:
            return error

    return file_versions.once("architecture", folder, look)


@cached(spinner="store.loading", budget=MODELS)
def _folder(revision: Revision) -> Checkpoint:
    with log.timed("checkpoint_loaded", name=revision.ref):
        return load(CHECKPOINTS / revision.ref.name)


@cached(spinner="store.loading_snapshot", budget=MODELS)
def _snapshot(revision: Revision, base: Revision) -> Checkpoint:
    whole = _folder(base)
    with log.timed("checkpoint_loaded", name=revision.ref):
        return load_snapshot(whole, _weights(revision.ref))


@cached(spinner="store.reading_weights")
def _contents(revision: Revision) -> Contents:
    return read(_path(revision.ref), DEFAULT_LIMITS)
