"""Labelled sequences as commands read them: a table divided by tabs."""

import csv
from pathlib import Path

from transformer.errors import InputError
from transformer.sequences.fasta import FastaRecord


def labelled_rows(path: Path) -> tuple[list[FastaRecord], list[str]]:
    """The sequences and the labels of a table with the columns id, sequence, label.

    Raises:
        InputError: it cannot be read, or has other columns.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
    except OSError as error:
        raise InputError("file_cannot_be_read", file=str(path), error=error.strerror) from error
    if not rows or not {"id", "sequence", "label"} <= rows[0].keys():
        raise InputError("held_out_columns", file=str(path))
    return [FastaRecord(row["id"], "", row["sequence"]) for row in rows], [row["label"] for row in rows]
