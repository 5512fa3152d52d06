"""`classify`: FASTA in, a table of calibrated probabilities out."""

import argparse
import io
import sys
from pathlib import Path
from typing import cast

from tqdm import tqdm

from transformer.checkpoint import load
from transformer.commands.arguments import Commands, add_checkpoint, add_command
from transformer.errors import InputError
from transformer.plots.export import harmless
from transformer.runs.sequences.classify import classifier, verdicts
from transformer.sequences.fasta import FastaRecord, read_fasta

DESCRIPTION = """Classify every sequence of a FASTA file, plain or packed with gzip.

Writes a table (divided by tabs) to stdout: id, predicted, and the calibrated probability of each class. A sequence that
cannot be read gets a row without values, a sentence on stderr says why, and the exit status is 1. An id that a
spreadsheet would take for a formula has ' in front."""


def register(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command."""
    add_sequences(add_command(commands, "classify", run, "classify the sequences of a FASTA file", DESCRIPTION))


def add_sequences(parser: argparse.ArgumentParser) -> None:
    """The classifier, and what it reads."""
    add_checkpoint(parser, "folder of a sequence classifier")
    parser.add_argument("file", type=Path, metavar="FILE", help="FASTA, plain or .gz; - reads stdin")


def run(arguments: argparse.Namespace) -> int:
    """Write the table; 1 when a sequence could not be read, else 0."""
    checkpoint = load(arguments.checkpoint)
    _, task = classifier(checkpoint)
    records, status = records_of(arguments.file), 0
    _write(["id", "predicted", *task.classes])
    for verdict in tqdm(verdicts(checkpoint, records), unit="sequence", disable=None):
        cells = [""] * (1 + len(task.classes))
        if verdict.probabilities is None:
            status = 1
            sys.stderr.write(f"note: {verdict.id}: {verdict.problem}\n")
        else:
            best = task.classes[int(verdict.probabilities.argmax())]
            cells = [best, *(f"{p:.6f}" for p in verdict.probabilities)]
        _write([harmless(verdict.id), *cells])
    sys.stdout.buffer.flush()
    return status


def records_of(path: Path) -> list[FastaRecord]:
    """The sequences of a file, or of stdin for `-`.

    Raises:
        InputError: it cannot be read.
    """
    try:
        opened = sys.stdin.buffer if path == Path("-") else path.open("rb")
    except OSError as error:
        raise InputError("file_cannot_be_read", file=str(path), error=error.strerror) from error
    with opened:
        return list(read_fasta(cast(io.BufferedIOBase, opened)))  # which both are


def _write(cells: list[str]) -> None:
    sys.stdout.buffer.write(("\t".join(cells) + "\n").encode("utf-8"))
