"""Every checkpoint that the dashboard knows, by its name in lists and addresses, wherever it comes from."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st

from transformer import Checkpoint
from transformer.checkpoint.checkpoint import HUGGING_FACE
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.ours.history import Snapshot
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.contents import Contents
from ui.store.cache import cached
from ui.store.refs import CheckpointRef, Origin, Revision
from ui.store.shipped import Shipped
from ui.store.source import Answers, CheckpointSource
from ui.store.uploads import Uploads
from ui.store.user_folder import UserFolder

P = ParamSpec("P")
T = TypeVar("T")

TRANSLATORS = ("seq2seq", "recurrent", f"{HUGGING_FACE}seq2seq")
"""The architectures that read one text and write another."""

CLASSIFIERS = "kmer"
"""The architecture that says what a sequence is."""

ARCHITECTURES = (*TRANSLATORS, "encoder", "decoder", "kmer", f"{HUGGING_FACE}encoder", f"{HUGGING_FACE}decoder")
"""Every architecture: those that write first."""

ANSWERS = "answers"
"""Where a session keeps what its user answered about files, by their fingerprints, wherever they are brought again."""

SHIPPED = Shipped()
SOURCES: Mapping[Origin, CheckpointSource] = {
    Origin.SHIPPED: SHIPPED,
    Origin.UPLOAD: Uploads(),
    Origin.USER_FOLDER: UserFolder(),
}
"""Who knows the checkpoints of each origin, in the order of lists."""


def names(*origins: Origin) -> list[str]:
    """Every checkpoint of some origins, in their order."""
    return [str(ref) for origin in origins for ref in SOURCES[origin].refs()]


def checkpoint_names(*architectures: str) -> list[str]:
    """Every checkpoint of these architectures by name: shipped ones, then the user's own.

    It goes by what configs and names say. What cannot be told is left out, and the page Your model says why; what
    cannot be loaded says so where it is chosen.
    """
    return [name for name in names(*SOURCES) if architecture(name) in architectures]


def architecture(name: str) -> str | None:
    """The architecture that a checkpoint describes; None for one that describes none.

    Raises:
        CheckpointError: there is no such checkpoint.
    """
    source, ref = _found(name)
    return source.architecture(ref, _answers(source, ref))


def is_known(name: str) -> bool:
    """Whether a name from an address is empty, or that of a checkpoint that is here and can be listed."""
    ref = CheckpointRef.parse(name)
    if not ref.name:
        return True
    if ref.origin is Origin.RECORD or not SOURCES[ref.origin].has(ref.base):
        return False
    return ref.origin is not Origin.SHIPPED or architecture(str(ref.base)) is not None


def revision(name: str) -> Revision:
    """What stands in cache keys; it changes when a checkpoint's weights, or the answers about it, do.

    Raises:
        CheckpointError: there is no such checkpoint.
    """
    return _revision(*_found(name))


def checkpoint(name: str) -> Checkpoint:
    """A checkpoint, ready to run, with the answers that the user gave.

    Raises:
        CheckpointError: there is none, or it cannot be loaded; the message is the report.
    """
    return load(revision(name))


def load(revision: Revision) -> Checkpoint:
    """The checkpoint of a revision: what cached functions run.

    Raises:
        CheckpointError: there is none, or it cannot be loaded.
    """
    source = SOURCES[revision.ref.origin]
    return source.load(revision, _answers(source, revision.ref))


def of_checkpoint(
    *, spinner: str = ""
) -> Callable[[Callable[Concatenate[Revision, P], T]], Callable[Concatenate[str | Revision, P], T]]:
    """Remember what a function makes of a checkpoint's revision; it is called with the checkpoint's name as well.

    `spinner` as in `cached`. What it raises where there is no such checkpoint is a CheckpointError.
    """

    def decorate(function: Callable[Concatenate[Revision, P], T]) -> Callable[Concatenate[str | Revision, P], T]:
        remembered = cached(spinner=spinner)(function)

        @wraps(function)
        def call(of: str | Revision, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return remembered(revision(of) if isinstance(of, str) else of, *args, **kwargs)

        return call

    return decorate


def guesses(name: str) -> tuple[Message, ...]:
    """What the maps of a checkpoint rest on that its files do not say; nothing of a shipped one.

    Raises:
        CheckpointError: there is none, or it cannot be loaded.
    """
    is_shipped = CheckpointRef.parse(name).origin is Origin.SHIPPED
    return () if is_shipped else checkpoint(name).guesses


def base(name: str) -> str:
    """The name of the checkpoint whose training this is a snapshot of; its own where it is none."""
    return str(CheckpointRef.parse(name).base)


def is_snapshot(name: str) -> bool:
    """Whether this is a snapshot of a training, and not its end."""
    return bool(CheckpointRef.parse(name).snapshot)


def snapshots(name: str) -> dict[str, Snapshot]:
    """The snapshots of a checkpoint's training by name, the earliest first; none of one that did not ship.

    Raises:
        CheckpointError: their index is damaged.
    """
    ref = CheckpointRef.parse(name)
    if ref.origin is not Origin.SHIPPED:
        return {}
    return {str(ref.at(snapshot.name)): snapshot for snapshot in SHIPPED.snapshots(ref)}


def bundle(name: str) -> Bundle | None:
    """The files of a checkpoint that may have questions; None for a folder whose config says everything.

    Raises:
        CheckpointError: there is none, or it is refused.
    """
    source, ref = _found(name)
    return source.bundle(ref)


def contents(name: str) -> Contents:
    """The tensors of a checkpoint as its files hold them.

    Raises:
        CheckpointError: there is none, or they cannot be read.
    """
    source, ref = _found(name)
    return source.contents(_revision(source, ref))


def vocabulary_files(name: str) -> Sequence[Path] | None:
    """The files of a folder's tokenizers; None where only loading the checkpoint tells what reads its text.

    Raises:
        CheckpointError: there is none, or one of them leads out of the folder.
    """
    source, ref = _found(name)
    return source.vocabulary_files(ref)


def is_upload(name: str) -> bool:
    """Whether this name is one of an upload (of this session or another)."""
    return CheckpointRef.parse(name).private


def answers_for(name: str) -> Answers:
    """What the user answered about a checkpoint's file.

    Raises:
        CheckpointError: there is none.
    """
    return _answers(*_found(name))


def set_answers(name: str, answers: Mapping[str, Any]) -> None:
    """Remember answers about a checkpoint's file, wherever it is brought again in the user's session.

    Raises:
        CheckpointError: there is none.
    """
    source, ref = _found(name)
    st.session_state.setdefault(ANSWERS, {})[source.fingerprint(ref)] = dict(answers)


def problems() -> Sequence[CheckpointError]:
    """Why shipped folders are in no list: their config cannot be read."""
    return SHIPPED.problems()


def _found(name: str) -> tuple[CheckpointSource, CheckpointRef]:
    ref = CheckpointRef.parse(name)
    if ref.origin is Origin.RECORD:  # which is no checkpoint
        raise CheckpointError("checkpoint_not_here", name=name)
    return SOURCES[ref.origin], ref


def _answers(source: CheckpointSource, ref: CheckpointRef) -> Answers:
    return tuple(sorted(st.session_state.get(ANSWERS, {}).get(source.fingerprint(ref), {}).items()))


def _revision(source: CheckpointSource, ref: CheckpointRef) -> Revision:
    return Revision.of(ref, source.stamp(ref), _answers(source, ref))
