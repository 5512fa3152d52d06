"""The atlases that ship beside checkpoints: what every head of one does over a corpus, and did over its training."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.atlas.roles import FOLDER, line_of
from transformer.messages import Message
from transformer.sites import Site
from ui.store import shipped
from ui.store.cache import cached
from ui.store.refs import CheckpointRef

HISTORY = "history"
"""Where the atlases of the snapshots of a training lie, in the folder of a checkpoint's atlas."""

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Atlas:
    """One atlas: the rows of its tables (see `transformer.atlas.result`), `run.json`, and when it was written (ns)."""

    heads: tuple[Row, ...]
    pairs: tuple[Row, ...]
    examples: tuple[Row, ...]
    words: tuple[Row, ...]
    about: dict[str, Any]
    written: int

    @property
    def groups(self) -> dict[str, list[Row]]:
        """The heads by kind, in the order of layers and heads."""
        found: dict[str, list[Row]] = {}
        for row in self.heads:
            found.setdefault(row["group"], []).append(row)
        return found

    def of(self, site: str, head: int) -> Row:
        """One head's row.

        Raises:
            KeyError: there is no such head.
        """
        found = next((row for row in self.heads if (row["site"], row["head"]) == (site, head)), None)
        if found is None:
            raise KeyError(f"{site} {head}")
        return found


def names() -> list[str]:
    """The shipped checkpoints that have an atlas, in the order of lists."""
    return [str(ref) for ref in shipped.Shipped().refs() if (_folder(ref.name) / "heads.parquet").is_file()]


def atlas(name: str) -> Atlas | None:
    """The atlas of a checkpoint; None where it has none.

    Raises:
        InputError: it cannot be read.
    """
    folder = _found(name)
    return None if folder is None else _read(str(folder), (folder / "heads.parquet").stat().st_mtime_ns)


def history(name: str) -> list[tuple[str, Atlas]]:
    """The atlases of a checkpoint's snapshots with their names, the earliest first; the last is the checkpoint itself.

    Raises:
        InputError: one cannot be read.
    """
    folder = _found(name)
    if folder is None or not (folder / HISTORY).is_dir():
        return []
    found = sorted(path for path in (folder / HISTORY).iterdir() if (path / "heads.parquet").is_file())
    return [(path.name, _read(str(path), (path / "heads.parquet").stat().st_mtime_ns)) for path in found]


def at(name: str) -> Atlas | None:
    """The atlas of a checkpoint, or of a moment of its training (`NAME@000400`); None where there is none.

    Raises:
        InputError: it cannot be read.
    """
    ref = CheckpointRef.parse(name)
    return atlas(name) if not ref.snapshot else dict(history(str(ref.base))).get(ref.snapshot)


def habit_of(name: str, site: str, head: int) -> tuple[Message, int] | None:
    """One line on what a head usually does, and over how many sentences that was seen; None where it is not known."""
    found = atlas(name)
    row = (
        None if found is None else next((r for r in found.heads if (r["site"], r["head"]) == (Site(site), head)), None)
    )
    return None if row is None else (line_of(row), int(row["sentences"]))


def _found(name: str) -> Path | None:
    ref = CheckpointRef.parse(name)
    if not shipped.Shipped().has(ref):
        return None
    folder = _folder(ref.name)
    return folder if (folder / "heads.parquet").is_file() else None


def _folder(name: str) -> Path:
    return shipped.CHECKPOINTS / name / FOLDER


@cached()
def _read(folder: str, written: int) -> Atlas:
    """The tables in a folder; `written` changes with them."""
    from transformer.atlas.result import OF_WINDOWS  # Parquet waits until an atlas is looked at
    from transformer.atlas.tables import read_rows

    place = Path(folder)
    heads, pairs, examples, words = (
        tuple(read_rows(place / f"{table}.parquet")) if (place / f"{table}.parquet").is_file() else ()
        for table in ("heads", "pairs", "examples", "words")
    )
    heads = tuple(dict.fromkeys(OF_WINDOWS) | row for row in heads)  # of an atlas that was made before there were any
    about: dict[str, Any] = json.loads((place / "run.json").read_text(encoding="utf-8"))
    return Atlas(heads, pairs, examples, words, about, written)
