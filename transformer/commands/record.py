"""`record`: what a record file holds, and every head of it in numbers."""

import argparse
import sys
from pathlib import Path

from transformer.attention.record import Record

MOST_LETTERS = 1_000
"""Of a text of a file, so many characters are printed."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "record",
        help="list the heads of a record file, with their measures",
        description="List the sites of a file that record.save wrote, and measure every head: entropy, confidence, "
        "shares of the previous, same and next token. Nothing is run.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a record file (.heedmap)")
    parser.add_argument("--json", action="store_true", help="print a JSON list with an object for each head")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, measure, print."""
    record = Record.open(arguments.file)
    table = record.measures()
    if arguments.json:
        sys.stdout.write(table.to_json(orient="records") + "\n")
        return 0
    said = (("model", record.model), ("text", record.text), *(("note", note) for note in record.notes))
    lines = [f"{name}: {_printable(text)}" for name, text in said if text]
    sys.stdout.write("\n".join([*lines, table.to_string(index=False, na_rep="-", float_format="%.3f")]) + "\n")
    return 0


def _printable(text: str) -> str:
    """The beginning of an untrusted text, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:MOST_LETTERS])
