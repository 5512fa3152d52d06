"""Parts as NPZ, results as Parquet: written aside and then renamed, so that a file is there whole or not at all.

The same content gives the same bytes: nothing in them says when or by whom they were written.
"""

import io
import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from transformer.atlas.accumulators import Accumulator, Example, Moments
from transformer.atlas.looks import Looked
from transformer.errors import InputError

COLUMNS = ("rows", "total", "sentences", "mean", "squares")
"""The fields of `Moments`, each an array of a part."""


def part_of(found: Accumulator, run: str) -> bytes:
    """The sums of a chunk as NPZ, and the rest as JSON in it; `run` names the run that it belongs to."""
    texts = {str(one.line): (one.source, one.target) for kept in found.examples.values() for one in kept}
    about = {
        "run": run,
        "sites": found.sites,
        "skipped": found.skipped,
        "counts": dict(found.counts),
        "moments": list(found.moments),
        "tallies": list(found.tallies),
        "looked": {line: asdict(one) for line, one in found.looked.items()},
        "examples": [[*place, [(one.score, one.line) for one in kept]] for place, kept in found.examples.items()],
        "texts": texts,
    }
    arrays = {f"{i}.{name}": getattr(one, name) for i, one in enumerate(found.moments.values()) for name in COLUMNS}
    arrays |= {f"tally.{i}": one for i, one in enumerate(found.tallies.values())}
    target = io.BytesIO()
    np.savez_compressed(target, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    return target.getvalue()


def read_part(path: Path, run: str) -> Accumulator | None:
    """The sums in a part; None where the file is none of this run, or broken."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            if about["run"] != run:
                return None
            tallies = [arrays[f"tally.{i}"] for i in range(len(about["tallies"]))]
            moments = [Moments(*(arrays[f"{i}.{name}"] for name in COLUMNS)) for i in range(len(about["moments"]))]
    except (OSError, KeyError, ValueError, EOFError, BadZipFile, zlib.error):
        return None
    texts = about["texts"]
    return Accumulator(
        sites={group: tuple((site, n) for site, n in sites) for group, sites in about["sites"].items()},
        moments={(group, measure): one for (group, measure), one in zip(about["moments"], moments, strict=True)},
        tallies={(group, name): one for (group, name), one in zip(about["tallies"], tallies, strict=True)},
        looked={
            int(line): Looked(
                {group: (tuple(queries), tuple(keys)) for group, (queries, keys) in one["labels"].items()},
                one["keys"],
                one["weights"],
            )
            for line, one in about["looked"].items()
        },
        skipped=tuple((line, code, reason) for line, code, reason in about["skipped"]),
        counts=about["counts"],
        examples={
            (group, measure, head): tuple(Example(score, line, *texts[str(line)]) for score, line in kept)
            for group, measure, head, kept in about["examples"]
        },
    )


def table_bytes(table: pa.Table) -> bytes:
    """A table as the content of a Parquet file."""
    target = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({}), target, compression="zstd")
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
