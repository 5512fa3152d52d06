"""The user's own checkpoints and records, in a folder or one file beside the shipped ones: `--checkpoints PATH`.

All sessions share them, as they share the shipped ones. Their files are strangers', so worker processes read them.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from transformer import Checkpoint
from transformer.attention.record_files.contents import is_record
from transformer.checkpoint.foreign.bundle import Bundle, bundle, is_vocabulary
from transformer.checkpoint.load import listed_architecture, vocabulary_files
from transformer.checkpoint.weight_files import CONFIG, ENDINGS, find_files
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError, HeedmapError
from transformer.messages import Message
from transformer.safe.contents import Contents
from transformer.safe.fingerprints import fingerprint_of
from transformer.safe.paths import check_inside
from ui.store import log
from ui.store.budget import MODELS
from ui.store.cache import cached
from ui.store.file_versions import stamp_of, stamp_of_folder
from ui.store.refs import CheckpointRef, Origin, Revision
from ui.store.source import Answers, CheckpointSource

VARIABLE = "HEEDMAP_CHECKPOINTS"

_VOCABULARY = re.compile(r"vocab|tok|dict|words|spm|sentencepiece|\.model$", re.IGNORECASE)
"""What vocabularies in a folder of weights are called; other texts there are notes."""


class UserFolder(CheckpointSource):
    """The files and folders with weights in the user's folder."""

    def refs(self) -> list[CheckpointRef]:
        return list(own_paths()[0])

    def stamp(self, ref: CheckpointRef) -> int:
        path = _path(ref)
        return stamp_of([path]) if path.is_file() else stamp_of_folder(path)

    def fingerprint(self, ref: CheckpointRef) -> str | None:
        return None if _says_all(_path(ref)) else _fingerprint(_of_files(ref))

    def architecture(self, ref: CheckpointRef, answers: Answers) -> str | None:
        return _architecture(_of_files(ref), answers)

    def load(self, revision: Revision, answers: Answers) -> Checkpoint:
        return _loaded(revision, answers)

    def bundle(self, ref: CheckpointRef) -> Bundle | None:
        return None if _says_all(_path(ref)) else _bundle(_of_files(ref))

    def contents(self, revision: Revision) -> Contents:
        found = self.bundle(revision.ref)
        return _contents(revision) if found is None else found.contents

    def vocabulary_files(self, ref: CheckpointRef) -> tuple[Path, ...] | None:
        return vocabulary_files(_path(ref))


@cache
def own_folder() -> Path | None:
    """The folder, or the one file, that the app was started with, by argument or else by variable; None without one."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--checkpoints", type=Path)
    given, _ = parser.parse_known_args(sys.argv[1:])
    named = given.checkpoints or os.environ.get(VARIABLE)
    return Path(named).expanduser().resolve() if named else None


def own_paths() -> tuple[dict[CheckpointRef, Path], list[str]]:
    """Where every checkpoint of the folder lies, and messages on what is not listed: links out of the folder."""
    paths, refused = _listed()
    found = dict[CheckpointRef, Path]()
    for path in paths:
        inside = path.iterdir() if path.is_dir() else [path]
        if any(file.suffix in ENDINGS for file in inside):
            found[CheckpointRef(Origin.USER_FOLDER, path.name)] = path
    return found, refused


def own_records() -> dict[CheckpointRef, Path]:
    """Where every record file of the folder lies."""
    return {CheckpointRef(Origin.USER_FOLDER, path.name): path for path in _listed()[0] if is_record(path.name)}


def _listed() -> tuple[list[Path], list[str]]:
    """What lies in the user's folder, or the one file that stands for it; and why anything is left out."""
    folder, refused = own_folder(), list[str]()
    if folder is None or folder.is_file():
        return [folder] if folder else [], refused
    if not folder.is_dir():
        return [], [Message("no_user_folder", name=folder.name)]
    found = []
    for path in sorted(folder.iterdir()):
        try:
            check_inside(path, folder)
        except CheckpointError as error:
            refused.append(error.message)
        else:
            found.append(path)
    return found, refused


def _path(ref: CheckpointRef) -> Path:
    paths, _ = own_paths()
    if ref not in paths:
        raise CheckpointError("checkpoint_not_here", name=str(ref))
    return paths[ref]


def _says_all(path: Path) -> bool:
    """Whether a folder's config says what shapes cannot."""
    return (path / CONFIG).is_file()


@cached(spinner="store.loading", budget=MODELS)
def _loaded(revision: Revision, answers: Answers) -> Checkpoint:
    ref, path = revision.ref, _path(revision.ref)
    found = None if _says_all(path) else _bundle(_of_files(ref))
    with log.timed("checkpoint_loaded", name=ref):
        if found is None:
            return replace(isolated.load_folder(path), name=str(ref))
        return found.checkpoint(dict(answers), str(ref))


@cached(spinner="store.looking_through")
def _architecture(revision: Revision, answers: Answers) -> str | None:
    path = _path(revision.ref)
    return architecture_of(lambda: listed_architecture(path) or _recognised(path, revision, answers))


def _recognised(path: Path, revision: Revision, answers: Answers) -> str | None:
    """What files without a config of a known kind are taken for; None where they fit no layout."""
    if _says_all(path):
        return isolated.tried_folder(path).architecture
    found = _bundle(_of_files(revision.ref)).recognised(dict(answers))
    return found.fit.architecture if found.fit is not None and found.report.fits else None


def architecture_of(found: Callable[[], str | None]) -> str | None:
    """What `found` finds; None where it is refused: the page Your model says why."""
    try:
        return found()
    except HeedmapError:
        return None


@cached()
def _fingerprint(revision: Revision) -> str | None:
    try:
        files = find_files(_path(revision.ref))
    except CheckpointError:
        return None
    return fingerprint_of(files[part] for part in sorted(files))


@cached(spinner="store.reading_weights")
def _contents(revision: Revision) -> Contents:
    return isolated.read_path(_path(revision.ref))


def _of_files(ref: CheckpointRef) -> Revision:
    """The revision of the files alone, whatever is answered about them."""
    return Revision(ref, UserFolder().stamp(ref))


@cached(spinner="store.reading_file")
def _bundle(revision: Revision) -> Bundle:
    """The weights, and the vocabularies that lie beside them in their folder."""
    path = _path(revision.ref)
    files = {file.name: file for file in find_files(path).values()}
    if path.is_dir():
        beside = [file for file in sorted(path.iterdir()) if file.is_file() and _VOCABULARY.search(file.name)]
        for file in beside:
            check_inside(file, path)
        files |= {file.name: file for file in beside if is_vocabulary(file.name)}
    opened = {name: file.open("rb") for name, file in files.items()}
    try:
        return replace(bundle(opened), name=path.stem)
    finally:
        for stream in opened.values():
            stream.close()
