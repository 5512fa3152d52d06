"""What `means` and `importance` share: a checkpoint, and a text with its translation."""

import argparse
from pathlib import Path

from transformer.commands.paths import checkpoint_path
from transformer.errors import InputError
from transformer.tokens.lines import read_lines


def add_pairs(parser: argparse.ArgumentParser, reference_needed: bool = True) -> None:
    """The checkpoint and the two files."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="folder of a checkpoint")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="sentences, one a line")
    parser.add_argument(
        "--reference", type=Path, required=reference_needed, metavar="FILE", help="their translations, line by line"
    )


def both_sides(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The lines of both files.

    Raises:
        InputError: a file cannot be read or is empty, there is no reference, or they have different numbers of lines.
    """
    if arguments.reference is None:
        raise InputError("reference_needed")
    source, reference = read_lines(arguments.source), read_lines(arguments.reference)
    if len(source) != len(reference):
        files = {"source": str(arguments.source), "reference": str(arguments.reference)}
        raise InputError("lines_differ", **files, source_lines=len(source), reference_lines=len(reference))
    if not source:
        raise InputError("file_without_lines", file=str(arguments.source))
    return source, reference
