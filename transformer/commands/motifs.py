"""`motifs`: what each head of a classifier looks for in a set of sequences, and the known motif most like it."""

import argparse
import sys
from pathlib import Path

import torch

from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.errors import InputError
from transformer.figures.export import table_csv
from transformer.runs.classify import classifier
from transformer.runs.known_motifs import COLUMNS, head_matches
from transformer.runs.sequence_sets import MAX_SEQUENCES, read_set
from transformer.sequences.fasta import fasta_of
from transformer.sequences.motif_files import read_motifs
from transformer.sequences.motif_matching import KnownMotifs

DESCRIPTION = f"""Read up to {MAX_SEQUENCES} sequences, find what every head's most attended windows have in common,
and compare that with known motifs of DNA.

Writes a table (CSV) to stdout, a row a class, width and head, with the known motif that is most like it: offset from
the window's first letter, strand, columns that overlap, their mean Euclidean distance, the chance p that random columns
do as well (as Tomtom counts it), E, and q over all heads of the class and width."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "motifs",
        help="compare what a sequence classifier's heads look for with known motifs",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "checkpoint", type=checkpoint_path, metavar="CHECKPOINT", help="folder of a sequence classifier"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="FASTA, plain or .gz: the sequences")
    parser.add_argument("known", type=Path, metavar="MOTIFS", help="known motifs: MEME's minimal format, or JASPAR's")
    parser.add_argument("--classes", nargs="+", metavar="CLASS", help="(default: all that the set has)")
    parser.add_argument("--widths", nargs="+", type=int, metavar="N", help="of windows (default: all)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the table; notes of what could not be read go to stderr."""
    torch.set_num_threads(1)
    checkpoint = load(arguments.checkpoint)
    _, task = classifier(checkpoint)
    known = KnownMotifs(read_motifs(_bytes(arguments.known).decode("utf-8", "replace")))
    found = read_set(checkpoint, fasta_of(_bytes(arguments.file)))
    for problem in found.problems:
        sys.stderr.write(f"note: {problem}\n")
    present = {one.label for one in found.sequences}
    wanted = arguments.classes or [name for i, name in enumerate(task.classes) if i in present]
    if foreign := sorted(set(wanted) - set(task.classes)):
        raise InputError("scan_class", label=foreign[0], classes=task.classes)
    rows = [
        one.cells
        for name in wanted
        for width in arguments.widths or found.widths
        for one in head_matches(found, known, task.classes.index(name), width)
    ]
    sys.stdout.write(table_csv(COLUMNS, rows))
    return 0


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError("file_cannot_be_read", file=str(path), error=error.strerror) from error
