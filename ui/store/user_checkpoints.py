"""Checkpoints that did not ship with the app: the reader's own folder, and the reader's uploads.

Those of the folder are shared by all sessions, as the shipped ones are; what belongs to an upload is kept in its
session alone. Answers about a file are kept in the session, by the file's fingerprint.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from transformer import Checkpoint
from transformer.checkpoint.foreign.bundle import Bundle, bundle, is_vocabulary
from transformer.checkpoint.load import find_files
from transformer.checkpoint.ours.folder import CONFIG
from transformer.checkpoint.safe.fingerprints import fingerprint_of
from transformer.checkpoint.safe.paths import check_inside
from transformer.checkpoint.worker import apart
from transformer.errors import CheckpointError, HeedmapError
from ui.store.cache import in_session, kept
from ui.store.uploads import is_upload, upload, uploads
from ui.store.user_folder import PREFIX, own_paths

_VOCABULARY = re.compile(r"vocab|tok|dict|words|spm|sentencepiece|\.model$", re.IGNORECASE)
"""What vocabularies in a folder of weights are called; other texts there are notes."""

Answers = tuple[tuple[str, Any], ...]
"""Answers as a key of caches: names and values, sorted."""

ANSWERS, CHOSEN, PLACE = "answers", "chosen", "chosen.place"
MODELS = 3
"""Models of uploads that a session keeps ready to run; each takes about as much memory as its file."""


def holds(name: str) -> bool:
    """Whether a checkpoint of this name would stand here, and not among the shipped ones."""
    return is_upload(name) or name.startswith(PREFIX)


def names() -> list[str]:
    """Every checkpoint here: uploads first."""
    return [*uploads(), *own_paths()[0]]


def names_of(*architectures: str) -> list[str]:
    """Those of some architectures; what cannot be loaded is left out, and the page Checkpoints says why."""
    return [name for name in names() if architecture(name) in architectures]


def architecture(name: str) -> str | None:
    """The architecture of a checkpoint; None for one that cannot be loaded as it stands."""
    if is_upload(name):
        key = (name, upload(name).token, given(name))
        return in_session("architecture", key, lambda: _architecture_of(lambda: checkpoint(name).architecture))
    path = _path(name)
    return _architecture(name, str(path), _stamp(path), given(name))


def checkpoint(name: str) -> Checkpoint:
    """A checkpoint of this name, ready to run, with the answers that the reader gave.

    Raises:
        CheckpointError: there is none, or it cannot be loaded; the message is the report.
    """
    if is_upload(name):
        key = (name, upload(name).token, given(name))
        return in_session("checkpoint", key, lambda: _of_bundle(upload(name).bundle, name, given(name)), MODELS)
    path = _path(name)
    if _says_all(path):
        return _loaded(name, str(path), _stamp(path))
    return _answered(name, str(path), _stamp(path), given(name))


def bundle_of(name: str) -> Bundle | None:
    """The files of a checkpoint that may have questions; None for a folder whose config says everything.

    Raises:
        CheckpointError: there is none, or it is refused.
    """
    if is_upload(name):
        return upload(name).bundle
    path = _path(name)
    return None if _says_all(path) else _bundle(str(path), _stamp(path))


def path_of(name: str) -> Path | None:
    """Where a checkpoint of the reader's folder lies; None for an upload.

    Raises:
        CheckpointError: there is none of this name.
    """
    return None if is_upload(name) else _path(name)


def revision(name: str) -> int:
    """Changes when the weights of a checkpoint, or the answers about it, do.

    Raises:
        CheckpointError: there is none of this name.
    """
    stamp = upload(name).token if is_upload(name) else _stamp(_path(name))
    return hash((stamp, given(name)))


def given(name: str) -> Answers:
    """What the reader answered about a file."""
    return tuple(sorted(st.session_state.get(ANSWERS, {}).get(_fingerprint_of(name), {}).items()))


def answer(name: str, answers: Mapping[str, Any]) -> None:
    """Remember answers about a file, wherever it is brought again in the reader's session."""
    st.session_state.setdefault(ANSWERS, {})[_fingerprint_of(name)] = dict(answers)


def start_with(names: Sequence[str], key: str) -> None:
    """Let a page's list of checkpoints begin with the one that was chosen last, on any page, unless its address says.

    Comes before the list; Streamlit forgets a list's choice when the page changes.
    """
    place = f"{st.context.url} {key} {' '.join(names)}"
    moved = st.session_state.get(PLACE) != place
    st.session_state[PLACE] = place
    chosen = st.session_state.get(CHOSEN)
    if moved and chosen in names and st.query_params.get(key, chosen) == chosen:
        st.session_state[key] = chosen


def choose(name: str) -> None:
    """Remember what was chosen, for the lists of other pages."""
    st.session_state[CHOSEN] = name


def _path(name: str) -> Path:
    paths, _ = own_paths()
    if name not in paths:
        raise CheckpointError(f"checkpoint {name!r} is not here: choose one from the list")
    return paths[name]


def _fingerprint_of(name: str) -> str | None:
    """What answers about a checkpoint are remembered under; None where there is nothing to answer, or to read."""
    if is_upload(name):
        return upload(name).bundle.fingerprint
    path = _path(name)
    return None if _says_all(path) else _fingerprint(str(path), _stamp(path))


def _says_all(path: Path) -> bool:
    """Whether a folder's config says what shapes cannot."""
    return (path / CONFIG).is_file()


def _stamp(path: Path) -> int:
    """Changes when a file of the checkpoint does."""
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    return hash(tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files))


def _of_bundle(found: Bundle, name: str, answers: Answers) -> Checkpoint:
    return found.checkpoint(dict(answers), name)


@kept(max_entries=8, show_spinner="Loading the checkpoint …")
def _loaded(name: str, path: str, stamp: int) -> Checkpoint:  # noqa: ARG001  (part of the cache key)
    return replace(apart.load_folder(Path(path)), name=name)


@kept(max_entries=8, show_spinner="Loading the checkpoint …")
def _answered(name: str, path: str, stamp: int, answers: Answers) -> Checkpoint:
    return _of_bundle(_bundle(path, stamp), name, answers)


@kept(max_entries=256, show_spinner="Looking through your checkpoints …")
def _architecture(name: str, path: str, stamp: int, answers: Answers) -> str | None:
    """Kept apart from the model, so that a list of many checkpoints does not hold them all."""
    if _says_all(Path(path)):
        return _architecture_of(lambda: apart.folder_architecture(Path(path)))
    return _architecture_of(lambda: _answered(name, path, stamp, answers).architecture)


def _architecture_of(found: Callable[[], str]) -> str | None:
    try:
        return found()
    except HeedmapError:
        return None


@kept(max_entries=256, show_spinner=False)
def _fingerprint(path: str, stamp: int) -> str | None:  # noqa: ARG001  (part of the cache key)
    try:
        files = find_files(Path(path))
    except CheckpointError:
        return None
    return fingerprint_of(files[part] for part in sorted(files))


@kept(max_entries=2, show_spinner="Reading the file …")
def _bundle(path: str, stamp: int) -> Bundle:  # noqa: ARG001  (part of the cache key)
    """The weights at a path, and the vocabularies that lie beside them in its folder."""
    place = Path(path)
    files = {file.name: file for file in find_files(place).values()}
    if place.is_dir():
        beside = [file for file in sorted(place.iterdir()) if file.is_file() and _VOCABULARY.search(file.name)]
        for file in beside:
            check_inside(file, place)
        files |= {file.name: file for file in beside if is_vocabulary(file.name)}
    opened = {name: file.open("rb") for name, file in files.items()}
    try:
        return replace(bundle(opened), name=place.stem)
    finally:
        for stream in opened.values():
            stream.close()
