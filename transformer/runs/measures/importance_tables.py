"""What was measured of a translator's heads, as files beside it: heads.csv, removals.csv and run.json."""

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from transformer.errors import CheckpointError
from transformer.runs.measures.importance import HeadImportance, Removal
from transformer.sites import Site

FOLDER, HEADS, REMOVALS, RUN = "importance", "heads.csv", "removals.csv", "run.json"

WHOLE = "final"
"""What the checkpoint itself is called among its snapshots."""

MOST_BYTES = 4 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True)
class Importance:
    """Heads and removals of a checkpoint and of the snapshots of its training, by name (`final`, `000400`).

    `about` says on what they were measured: the set's name, pairs, what was left out, and the mean NLL of each.
    """

    heads: Mapping[str, tuple[HeadImportance, ...]]
    removals: Mapping[str, tuple[Removal, ...]]
    about: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Write the three files; numbers with seven digits, nothing where one was not measured."""
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / HEADS, HeadImportance, self.heads)
        _write(folder / REMOVALS, Removal, self.removals)
        (folder / RUN).write_text(json.dumps(self.about, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def of_folder(cls, folder: Path) -> "Importance":
        """What was written there.

        Raises:
            CheckpointError: a file is missing, or holds something else.
        """
        try:
            _refuse_large(folder)
            about = json.loads((folder / RUN).read_text(encoding="utf-8"))
            heads = _read(folder / HEADS, _head)
            return cls(heads, _read(folder / REMOVALS, _removal), dict(about))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise CheckpointError("importance_unreadable", folder=folder.parent.name, error=str(error)[:200]) from error


def _refuse_large(folder: Path) -> None:
    """Stop before memory is taken for a file that nobody here wrote."""
    for name in (HEADS, REMOVALS, RUN):
        if (folder / name).stat().st_size > MOST_BYTES:
            raise ValueError(f"{name} has more than {MOST_BYTES} bytes")


def _write(file: Path, kind: type[Any], rows: Mapping[str, Iterable[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as handle:
        table = csv.writer(handle, lineterminator="\n")
        table.writerow(["snapshot", *(field.name for field in fields(kind))])
        for name, every in rows.items():
            table.writerows([name, *map(_cell, astuple(one))] for one in every)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.7g}"
    return str(value)


def _read(file: Path, made: Callable[[Mapping[str, str]], T]) -> dict[str, tuple[T, ...]]:
    found: dict[str, list[T]] = {}
    with file.open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            found.setdefault(row["snapshot"], []).append(made(row))
    return {name: tuple(rows) for name, rows in found.items()}


def _head(row: Mapping[str, str]) -> HeadImportance:
    zero, mean, gradient = (_number(row[name]) for name in ("zero", "mean", "gradient"))
    return HeadImportance(Site(row["site"]), int(row["head"]), zero, mean, gradient)


def _removal(row: Mapping[str, str]) -> Removal:
    share, removed = int(row["share"]), int(row["removed"])
    return Removal(row["order"], row["group"], share, removed, _number(row["nll"]), _number(row["bleu"]))


def _number(text: str) -> float:
    return float(text) if text else math.nan
