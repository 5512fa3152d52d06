"""Parts and results as Parquet: written aside and then renamed, so that a file is there whole or not at all.

The same content gives the same bytes: nothing in them says when or by whom they were written.
"""

import io
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from transformer.atlas.moments import Accumulator, Example, Moments
from transformer.errors import InputError

PART = "atlas"
"""The key of a part's metadata."""

COLUMNS = ("rows", "total", "sentences", "mean", "squares")
"""The fields of `Moments`, each a column of a part."""


def part_of(found: Accumulator, run: str) -> bytes:
    """The sums of a chunk as a Parquet file; `run` names the run that it belongs to."""
    keys = list(found.moments)
    sizes = [found.moments[key].total.shape for key in keys]
    columns: dict[str, Any] = {
        "group": [group for (group, _), (n, w) in zip(keys, sizes, strict=True) for _ in range(n * w)],
        "measure": [measure for (_, measure), (n, w) in zip(keys, sizes, strict=True) for _ in range(n * w)],
        "head": np.concatenate([np.repeat(np.arange(n), w) for n, w in sizes] or [np.zeros(0, np.int64)]),
        "column": np.concatenate([np.tile(np.arange(w), n) for n, w in sizes] or [np.zeros(0, np.int64)]),
    }
    for name in COLUMNS:
        kind = np.int64 if name in {"rows", "sentences"} else np.float64
        values = [getattr(found.moments[key], name).ravel() for key in keys]
        columns[name] = np.concatenate(values).astype(kind) if values else np.zeros(0, kind)
    texts = {str(one.line): (one.source, one.target) for found_ in found.examples.values() for one in found_}
    about = {
        "run": run,
        "sites": found.sites,
        "skipped": found.skipped,
        "counts": dict(found.counts),
        "examples": [[*place, [(one.score, one.line) for one in kept]] for place, kept in found.examples.items()],
        "texts": texts,
    }
    return table_bytes(pa.table(columns), {PART: json.dumps(about, ensure_ascii=False)})


def read_part(path: Path, run: str) -> Accumulator | None:
    """The sums in a part; None where the file is none of this run, or broken."""
    try:
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[PART.encode()])
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        return None
    if about["run"] != run:
        return None
    texts = about["texts"]
    found = Accumulator(
        sites={group: tuple((site, n) for site, n in sites) for group, sites in about["sites"].items()},
        skipped=tuple((line, code, reason) for line, code, reason in about["skipped"]),
        counts=about["counts"],
        examples={
            (group, measure, head): tuple(Example(score, line, *texts[str(line)]) for score, line in kept)
            for group, measure, head, kept in about["examples"]
        },
    )
    columns = {name: table[name].to_numpy() for name in ("head", "column", *COLUMNS)}
    keys = list(zip(table["group"].to_pylist(), table["measure"].to_pylist(), strict=True))
    starts = [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]
    for start, stop in pairwise([*starts, len(keys)]):
        shape = (int(columns["head"][stop - 1]) + 1, int(columns["column"][stop - 1]) + 1)
        found.moments[keys[start]] = Moments(*(columns[name][start:stop].reshape(shape) for name in COLUMNS))
    return found


def table_bytes(table: pa.Table, about: Mapping[str, str] | None = None) -> bytes:
    """A table as the content of a Parquet file."""
    target = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(dict(about or {})), target, compression="zstd")
    return target.getvalue()


def write_aside(path: Path, content: bytes) -> None:
    """Put a file into its place whole: it is written beside it first, and a rest of that is taken away.

    Raises:
        InputError: it cannot be written; what was there before still is.
    """
    aside = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InputError("atlas_cannot_write", path=str(path), reason=error.strerror or str(error)) from error


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise InputError("file_unreadable", path=str(path), reason=str(error)) from error
    return rows
