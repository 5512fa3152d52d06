"""Every checkpoint that the dashboard knows, by its name in lists and addresses, and every record, wherever it lies.

Shipped ones are folders of `CHECKPOINTS` whose configs say everything. The user's own lie beside them, in a folder or
one file that all sessions share (`user_folder`), or were brought and are of one session (`uploads`). Files of both
are strangers', so worker processes read them.

Functions that are given a name raise CheckpointError where there is no such checkpoint, or what they need of it is
refused; the error's message is the report.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st

from heedmap import Checkpoint, distribution
from heedmap import load as load_ours
from heedmap.checkpoint.foreign.bundle import Bundle, is_vocabulary
from heedmap.checkpoint.foreign.bundle import bundle as bundled
from heedmap.checkpoint.huggingface.model import HUGGING_FACE
from heedmap.checkpoint.load import listed_architecture, read, vocabulary_files
from heedmap.checkpoint.ours import folder as ours
from heedmap.checkpoint.weight_files import CONFIG, WEIGHTS, find_files
from heedmap.checkpoint.worker import isolated
from heedmap.errors import CheckpointError, HeedmapError
from heedmap.messages import Message
from heedmap.runs.any_model import ModelRun
from heedmap.safe.contents import Contents, fingerprint_of
from heedmap.safe.limits import DEFAULT_LIMITS, check_inside
from ui.store import log, session_resources, uploads, user_folder
from ui.store.cache import MODELS, cached
from ui.store.refs import Answers, CheckpointRef, RefSource, Revision, once, stamp_of, stamp_of_folder

P = ParamSpec("P")
T = TypeVar("T")

CHECKPOINTS = distribution.CHECKPOINTS
"""The folder of the shipped checkpoints."""

FIRST = ("multi30k-en-de", "splice-junctions")
"""What a page starts with, where it has the choice: the translator, and the classifier with a known consensus."""


TRANSLATORS = ("seq2seq", "recurrent", f"{HUGGING_FACE}seq2seq")
"""The architectures that read one text and write another."""

CLASSIFIERS = "kmer"
"""The architecture that says what a sequence is."""

ARCHITECTURES = (*TRANSLATORS, "encoder", "decoder", "kmer", f"{HUGGING_FACE}encoder", f"{HUGGING_FACE}decoder")
"""Every architecture: those that write first."""

ORIGINS = (RefSource.SHIPPED, RefSource.UPLOAD, RefSource.USER_FOLDER)
"""Where checkpoints come from, in the order of lists."""

ANSWERS = "answers"
"""Where a session keeps what its user answered about files, by their fingerprints, wherever they are brought again."""

N_MODELS = 3
"""Models of uploads that a session keeps ready to run; each takes about as much memory as its file."""

_VOCABULARY = re.compile(r"vocab|tok|dict|words|spm|sentencepiece|\.model$", re.IGNORECASE)
"""What vocabularies in a folder of weights are called; other texts there are notes."""


def names(*origins: RefSource) -> list[str]:
    """Every checkpoint of some origins, in their order."""
    return [str(ref) for origin in origins for ref in _refs(origin)]


def _refs(origin: RefSource) -> list[CheckpointRef]:
    if origin is not RefSource.SHIPPED:
        return uploads.uploads() if origin is RefSource.UPLOAD else list(user_folder.own_paths()[0])
    here = [path.name for path in CHECKPOINTS.iterdir() if ours.is_folder(path)] if CHECKPOINTS.is_dir() else []
    return [CheckpointRef(origin, name) for name in sorted(here, key=lambda name: (name not in FIRST, name))]


def checkpoint_names(*architectures: str) -> list[str]:
    """Every checkpoint of these architectures by name: shipped ones, then the user's own.

    It goes by what configs and names say. What cannot be told is left out, and the page Your model says why; what
    cannot be loaded says so where it is chosen.
    """
    return [name for name in names(*ORIGINS) if architecture(name) in architectures]


def problems() -> list[CheckpointError]:
    """Why shipped folders are in no list of an architecture: their config cannot be read."""
    return [found for ref in _refs(RefSource.SHIPPED) if isinstance(found := _described(ref), CheckpointError)]


def architecture(name: str) -> str | None:
    """The architecture that a checkpoint describes; None for one that describes none, or is refused."""
    ref = _ref(name)
    if ref.origin is not RefSource.SHIPPED:
        return _architecture(revision(name))
    found = _described(ref)
    return found if isinstance(found, str) else None


@cached(spinner="store.looking_through")
def _architecture(revision: Revision) -> str | None:
    """What its config says, else what a worker finds, else what its shapes are taken for."""
    ref = revision.ref
    try:
        known = None if ref.private else listed_architecture(_path(ref))
        brought = None if known else _bundle(ref)
        if brought is None:
            return known or isolated.tried_folder(_path(ref)).architecture
        if ref.private:
            return load(revision).architecture
        found = brought.recognised(dict(revision.answers))
    except HeedmapError:
        return None
    return found.fit.architecture if found.fit is not None and found.fits else None


def _described(ref: CheckpointRef) -> str | CheckpointError:
    """The architecture that a shipped folder names, or why none can be read."""

    def look() -> str | CheckpointError:
        try:
            return ours.described_architecture(_path(ref))
        except CheckpointError as error:
            return error

    return once("architecture", _path(ref), look)


def is_known(name: str) -> bool:
    """Whether a name from an address is empty, or that of a checkpoint that is here and can be listed."""
    ref = CheckpointRef.parse(name)
    if not ref.name:
        return True
    if ref.origin is not RefSource.SHIPPED:
        return ref.origin is not RefSource.RECORD and ref in _refs(ref.origin)
    return is_shipped(ref.base) and architecture(str(ref.base)) is not None


def is_shipped(ref: CheckpointRef) -> bool:
    """Whether this is a checkpoint that ships with the app (no snapshot), without a look at the others."""
    here = CHECKPOINTS / ref.name  # which may lead out of it
    listed = once("listed", CHECKPOINTS, lambda: [*CHECKPOINTS.glob("*")])
    return here in listed and ours.is_folder(here) and ref == CheckpointRef(RefSource.SHIPPED, ref.name)


def revision(name: str) -> Revision:
    """What stands in cache keys; it changes when a checkpoint's weights, or the answers about it, do."""
    ref = _ref(name)
    return Revision(ref, _stamp(ref), _answers(ref))


def _stamp(ref: CheckpointRef) -> int:
    """A number that changes when the files of a checkpoint do."""
    if ref.private:
        return uploads.upload(ref).token
    path = _path(ref)
    if ref.origin is RefSource.USER_FOLDER:
        return stamp_of([path]) if path.is_file() else stamp_of_folder(path)
    try:
        return hash((stamp_of([_weights(ref)]), stamp_of_folder(path)))
    except OSError as error:
        raise CheckpointError("checkpoint_not_here", name=str(ref)) from error


def checkpoint(name: str) -> Checkpoint:
    """A checkpoint, ready to run, with the answers that the user gave."""
    return load(revision(name))


@cached(spinner="store.loading", budget=MODELS, entries=N_MODELS)
def load(revision: Revision) -> Checkpoint:
    """The checkpoint of a revision: what cached functions run."""
    ref = revision.ref
    whole = load(Revision(ref.base, _stamp(ref.base))) if ref.snapshot else None
    brought = _bundle(ref)
    with log.timed("checkpoint_loaded", name=ref.origin.value if ref.private else ref):  # the rest is the user's word
        if whole is not None:
            return ours.load_snapshot(whole, _weights(ref))
        if ref.origin is RefSource.SHIPPED:
            return load_ours(_path(ref))
        if brought is not None:
            found = brought.checkpoint(dict(revision.answers), str(ref))
        else:
            found = replace(isolated.load_folder(_path(ref)), name=str(ref))
    if not ref.private:
        return found
    session_resources.stop_without(session_resources.mine(), found.model)
    return replace(found, folder=None)


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
    """What the maps of a checkpoint rest on that its files do not say; nothing of a shipped one."""
    return () if CheckpointRef.parse(name).origin is RefSource.SHIPPED else checkpoint(name).guesses


def base(name: str) -> str:
    """The name of the checkpoint whose training this is a snapshot of; its own where it is none."""
    return str(CheckpointRef.parse(name).base)


def snapshots(name: str) -> dict[str, ours.Snapshot]:
    """The snapshots of a checkpoint's training by name, the earliest first; none of one that did not ship."""
    ref = CheckpointRef.parse(name)
    found = ours.snapshots(_path(ref)) if ref.origin is RefSource.SHIPPED and not ref.snapshot else ()
    return {str(replace(ref, snapshot=snapshot.name)): snapshot for snapshot in found}


def bundle(name: str) -> Bundle | None:
    """The files of a checkpoint that may have questions; None for a folder whose config says everything."""
    return _bundle(_ref(name))


def _bundle(ref: CheckpointRef) -> Bundle | None:
    if ref.private:
        found = uploads.upload(ref).brought
        return found if isinstance(found, Bundle) else None
    is_plain = ref.origin is RefSource.USER_FOLDER and not _says_all(ref)
    return _read_bundle(Revision(ref, _stamp(ref))) if is_plain else None


@cached(spinner="store.reading_file")
def _read_bundle(revision: Revision) -> Bundle:
    """The weights, and the vocabularies that lie beside them in their folder."""
    path = _path(revision.ref)
    found = {file.name: file for file in find_files(path)}
    if path.is_dir():
        beside = [file for file in sorted(path.iterdir()) if file.is_file() and _VOCABULARY.search(file.name)]
        for file in beside:
            check_inside(file, path)
        found |= {file.name: file for file in beside if is_vocabulary(file.name)}
    with ExitStack() as until_read:
        opened = {name: until_read.enter_context(file.open("rb")) for name, file in found.items()}
        return replace(bundled(opened), name=path.stem)


def contents(name: str) -> Contents:
    """The tensors of a checkpoint as its files hold them."""
    brought = bundle(name)
    return _contents(revision(name)) if brought is None else brought.contents


@cached(spinner="store.reading_weights")
def _contents(revision: Revision) -> Contents:
    ref = revision.ref
    if ref.origin is RefSource.SHIPPED:
        return read(_weights(ref) if ref.snapshot else _path(ref), DEFAULT_LIMITS)
    return isolated.read_path(_path(ref))


def vocabularies(name: str) -> Sequence[Path] | None:
    """The files of a folder's tokenizers; None where only loading the checkpoint tells what reads its text."""
    ref = _ref(name)
    return None if ref.private and _bundle(ref) is not None else vocabulary_files(_path(ref))


def is_upload(name: str) -> bool:
    """Whether this name is one of an upload (of this session or another)."""
    return CheckpointRef.parse(name).private


def answers_for(name: str) -> Answers:
    """What the user answered about a checkpoint's file."""
    return _answers(_ref(name))


def _answers(ref: CheckpointRef) -> Answers:
    return tuple(sorted(st.session_state.get(ANSWERS, {}).get(_fingerprint(ref), {}).items()))


def set_answers(name: str, answers: Mapping[str, Any]) -> None:
    """Remember answers about a checkpoint's file, wherever it is brought again in the user's session."""
    st.session_state.setdefault(ANSWERS, {})[_fingerprint(_ref(name))] = dict(answers)


def _fingerprint(ref: CheckpointRef) -> str | None:
    """What answers are remembered under; None where there is nothing to answer, or to read."""
    if ref.origin is RefSource.USER_FOLDER:
        return None if _says_all(ref) else _fingerprint_of(Revision(ref, _stamp(ref)))
    found = _bundle(ref)
    return None if found is None else found.fingerprint


@cached()
def _fingerprint_of(revision: Revision) -> str | None:
    try:
        found = find_files(_path(revision.ref))
    except CheckpointError:
        return None
    return fingerprint_of(found)


def records() -> list[str]:
    """The names of all records: the session's, the earliest first, then those of the user's folder."""
    return [str(ref) for ref in (*uploads.uploads(RefSource.RECORD), *user_folder.own_records())]


def record(name: str) -> ModelRun:
    """What a record holds: a run.

    Raises:
        CheckpointError: there is none of this name, or it is refused.
    """
    of = record_revision(name)
    if of.ref.origin is RefSource.USER_FOLDER:
        return _opened(of)
    found = uploads.upload(of.ref).brought
    if not isinstance(found, ModelRun):
        raise CheckpointError("checkpoint_not_here", name=name)
    return found


def record_revision(name: str) -> Revision:
    """What stands in keys of what is computed from a record; one that was brought belongs to its session.

    Raises:
        CheckpointError: there is none of this name.
    """
    ref = CheckpointRef.parse(name)
    if ref.origin is RefSource.USER_FOLDER:
        return Revision(ref, stamp_of([user_folder.lies_at(ref, user_folder.own_records())]))
    return Revision(ref, uploads.upload(ref).token)


@cached(spinner="store.reading_file")
def _opened(revision: Revision) -> ModelRun:
    path = user_folder.lies_at(revision.ref, user_folder.own_records())
    with path.open("rb") as stream:
        return uploads.as_run(isolated.open_record(stream, path.name), path.stem)


def _ref(name: str) -> CheckpointRef:
    ref = CheckpointRef.parse(name)
    if ref.origin is RefSource.RECORD:  # which is no checkpoint
        raise CheckpointError("checkpoint_not_here", name=name)
    return ref


def _path(ref: CheckpointRef) -> Path:
    """Where the folder, or the one file, of a checkpoint lies."""
    if ref.origin is RefSource.SHIPPED:
        return CHECKPOINTS / ref.name
    return uploads.folder(ref) if ref.private else user_folder.lies_at(ref, user_folder.own_paths()[0])


def _weights(ref: CheckpointRef) -> Path:
    """Those of a shipped checkpoint, or of a snapshot of its training."""
    return _path(ref) / (f"{ours.FOLDER}/{ref.snapshot}.safetensors" if ref.snapshot else WEIGHTS)


def _says_all(ref: CheckpointRef) -> bool:
    """Whether a folder's config says what shapes cannot."""
    return (_path(ref) / CONFIG).is_file()
