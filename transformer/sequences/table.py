"""Tables of labelled sequences: columns `id`, `sequence` and `label`, divided by tabs."""

import csv
from pathlib import Path

from ..errors import InputError


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table, by the names of its columns.

    Raises:
        InputError: the file is missing or cannot be read, has other columns, or a row is cut short.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
    except (OSError, UnicodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError("file_unreadable", path=str(path), reason=str(reason)) from error
    if not rows or not {"id", "sequence", "label"} <= rows[0].keys():
        raise InputError("table_columns", path=str(path))
    short = next((i for i, row in enumerate(rows) if not row["sequence"] or not row["label"]), None)
    if short is not None:
        raise InputError("table_cut_short", path=str(path), line=short + 2)
    return rows
