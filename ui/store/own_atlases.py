"""Atlases that a session makes of its own texts: each on its way, then kept, for that session alone."""

import hashlib
from dataclasses import dataclass

from transformer.atlas.in_memory import Held, Making
from ui.store import store
from ui.store.atlases import Atlas
from ui.store.cache import in_session, session_store
from ui.store.sliced import SlicedWork

PREFIX = "own/"
"""How the names of these atlases begin in lists and addresses."""

KIND, MAKING = "own-atlas", "own-atlas-making"

KEPT = 4
"""How many a session keeps."""


@dataclass(frozen=True, eq=False)
class Own:
    """An atlas of as much of a text as was read, and the checkpoint that it is of."""

    checkpoint: str
    atlas: Atlas


@dataclass(kw_only=True)
class Job(SlicedWork):
    """An atlas on its way."""

    name: str
    checkpoint: str
    making: Making


def job(checkpoint: str, text: Held) -> Job:
    """The atlas of a text, as far as this session has made it.

    Raises:
        InputError: the text is not one for this checkpoint.
        CheckpointError: the checkpoint cannot be loaded, or cannot read.
    """
    content = b"\n".join(line + b"\t" + (other or b"") for line, other in text.pairs)
    digest = hashlib.sha256(content).hexdigest()[:12]
    revision = store.revision(checkpoint)

    def begin() -> Job:
        making = Making(store.load(revision), text)
        name = f"{PREFIX}{digest}"
        return Job(steps=making.steps(), total=making.total, name=name, checkpoint=checkpoint, making=making)

    return in_session(MAKING, (revision, digest), begin, 1, pinned=True)


def keep(made: Job) -> str:
    """Keep what a job has measured; returns the atlas's name.

    Raises:
        InputError: no line could be run.
    """
    tables, about = made.making.tables()
    heads, pairs, examples, words = (
        tuple(tables[name].to_pylist()) for name in ("heads", "pairs", "examples", "words")
    )
    others = {name: one for name, one in _kept().items() if name != made.name}
    own = Own(made.checkpoint, Atlas(heads, pairs, examples, words, about, 0))
    session_store(KIND, 1, pinned=True).put(KIND, dict([*others.items(), (made.name, own)][-KEPT:]))
    return made.name


def names() -> list[str]:
    """The atlases that this session keeps, the oldest first."""
    return list(_kept())


def own(name: str) -> Own | None:
    """An atlas that this session made; None where it made none of this name, or keeps it no more."""
    return _kept().get(name)


def _kept() -> dict[str, Own]:
    found: dict[str, Own] = session_store(KIND, 1, pinned=True).find(KIND) or {}
    return found
