"""What every head of a checkpoint does over a corpus: the atlases that lie beside it, and a session's own."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from heedmap.atlas.corpus import MemoryCorpus
from heedmap.atlas.roles import FOLDER, line_of
from heedmap.atlas.run import Making
from heedmap.errors import InputError
from heedmap.messages import Message
from ui.store import store, user_folder
from ui.store.cache import cached, in_session, session_store
from ui.store.progress import SlicedWork
from ui.store.refs import CheckpointRef, RefSource

TABLES = ("heads", "pairs", "examples", "words")
"""The tables of an atlas, each a file."""

HISTORY = "history"
"""Where the atlases of the snapshots of a training lie, in the folder of a checkpoint's atlas."""

OWN = "own/"
"""How the names of atlases that a session made of its own texts begin, in lists and addresses."""

KIND, MAKING, KEPT = "own-atlas", "own-atlas-making", 4
"""Where a session keeps the last few of them, and the one that is on its way."""

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Atlas:
    """One atlas: the rows of its tables (see `heedmap.atlas.result`), `run.json`, and when it was written (ns).

    A session's own was not, and names the checkpoint that it is of.
    """

    heads: tuple[Row, ...]
    pairs: tuple[Row, ...]
    examples: tuple[Row, ...]
    words: tuple[Row, ...]
    about: dict[str, Any]
    written: int
    checkpoint: str = ""

    @property
    def groups(self) -> dict[str, list[Row]]:
        """The heads by kind, in the order of layers and heads."""
        found: dict[str, list[Row]] = {}
        for row in self.heads:
            found.setdefault(row["group"], []).append(row)
        return found

    @cached_property
    def habits(self) -> dict[tuple[str, int], tuple[Message, int]]:
        """One line on what each head usually does, and over how many sentences that was seen, by site and head."""
        return {(row["site"], row["head"]): (line_of(row), int(row["sentences"])) for row in self.heads}

    def of(self, site: str, head: int) -> Row:
        """One head's row.

        Raises:
            KeyError: there is no such head.
        """
        found = next((row for row in self.heads if (row["site"], row["head"]) == (site, head)), None)
        if found is None:
            raise KeyError(f"{site} {head}")
        return found


@dataclass(kw_only=True)
class AtlasJob(SlicedWork):
    """An atlas of a session's own text, on its way."""

    name: str
    checkpoint: str
    making: Making


def names() -> list[str]:
    """The checkpoints that have an atlas, shipped ones and those of the user's folder, in the order of lists."""
    return [name for name in store.names(RefSource.SHIPPED, RefSource.USER_FOLDER) if _stamp(_folder(name))]


def atlas(name: str) -> Atlas | None:
    """The atlas of a checkpoint; None where it has none.

    Raises:
        InputError: it cannot be read.
    """
    stamp = _stamp(_folder(name))
    return _read(str(_folder(name)), stamp) if stamp else None


def history(name: str) -> list[tuple[str, Atlas]]:
    """The atlases of a checkpoint's snapshots with their names, the earliest first; the last is the checkpoint itself.

    Raises:
        InputError: one cannot be read.
    """
    if atlas(name) is None:
        return []
    found = sorted(Path(_folder(name) or "", HISTORY).glob("*"))
    return [(path.name, _read(str(path), stamp)) for path in found if (stamp := _stamp(path))]


def job(checkpoint: str, text: MemoryCorpus) -> AtlasJob:
    """The atlas of a text, as far as this session has made it.

    Raises:
        InputError: the text is not one for this checkpoint.
        CheckpointError: the checkpoint cannot be loaded, or cannot read.
    """
    content = b"\n".join(line + b"\t" + (other or b"") for line, other in text.pairs)
    digest = hashlib.sha256(content).hexdigest()[:12]
    revision = store.revision(checkpoint)

    def begin() -> AtlasJob:
        making = Making(store.load(revision), text)
        return AtlasJob(
            steps=making.steps(), total=making.total, name=f"{OWN}{digest}", checkpoint=checkpoint, making=making
        )

    return in_session(MAKING, (revision, digest), begin, 1, pinned=True)


def keep(made: AtlasJob) -> None:
    """Keep what a job has measured, unless it is kept already.

    Raises:
        InputError: no line could be run.
    """
    if made.name not in own():
        tables, about = made.making.tables()
        heads, pairs, examples, words = (tuple(tables[name].to_pylist()) for name in TABLES)
        kept = {**own(), made.name: Atlas(heads, pairs, examples, words, about, 0, made.checkpoint)}
        session_store(KIND, 1, pinned=True).put(KIND, dict([*kept.items()][-KEPT:]))


def own() -> dict[str, Atlas]:
    """The atlases that this session made and keeps, by name, the oldest first."""
    found: dict[str, Atlas] = session_store(KIND, 1, pinned=True).find(KIND, {})
    return found


def _folder(name: str) -> Path | None:
    """Where the atlas of a checkpoint would lie; None for one of a session, or that is not here."""
    ref = CheckpointRef.parse(name)
    place = store.CHECKPOINTS / ref.name if store.is_shipped(ref) else user_folder.own_paths()[0].get(ref)
    return place and place / FOLDER


def _stamp(folder: Path | None) -> int:
    """When an atlas was written; 0 where there is none."""
    heads = Path(folder or "", "heads.parquet")
    return heads.stat().st_mtime_ns if folder and heads.is_file() else 0


@cached()
def _read(folder: str, written: int) -> Atlas:
    """The tables in a folder; `written` changes with them."""
    from heedmap.atlas.result import OF_WINDOWS  # Parquet waits until an atlas is looked at
    from heedmap.atlas.roles import read_rows

    place = Path(folder)
    heads, pairs, examples, words = (
        tuple(read_rows(place / f"{table}.parquet")) if (place / f"{table}.parquet").is_file() else ()
        for table in TABLES
    )
    heads = tuple(dict.fromkeys(OF_WINDOWS) | row for row in heads)  # of an atlas that was made before there were any
    try:
        about: dict[str, Any] = json.loads((place / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("atlas_damaged", path="/".join([*place.parts[-2:], "run.json"])) from error
    return Atlas(heads, pairs, examples, words, about, written)
