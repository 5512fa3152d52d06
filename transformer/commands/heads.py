"""`heads`: which heads look at the word that decides what is written; the page Translate starts with the best."""

import argparse
import sys
from pathlib import Path

import torch

from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.runs.head_agreement import FILE, HeadAgreement, head_agreement, write_agreement
from transformer.tokens.lines import read_lines


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "heads",
        help="measure which heads look at the word that decides the translation",
        description=(
            "For each written word, find the source word whose removal lowers its probability most, and count how "
            f"often each cross-attention head looks there. Prints a table, and writes {FILE} into the folder."
        ),
    )
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="folder of a model that translates"
    )
    parser.add_argument(
        "--sentences", type=Path, metavar="FILE", help="sentences to measure on, one a line (default: its examples)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"where to write (default: CHECKPOINT/{FILE})")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write."""
    torch.set_num_threads(1)
    checkpoint = load(arguments.checkpoint)
    sentences = checkpoint.examples if arguments.sentences is None else read_lines(arguments.sentences)
    found = head_agreement(checkpoint, sentences)
    write_agreement(arguments.out or arguments.checkpoint / FILE, found)
    sys.stdout.write(table(found))
    return 0


def table(found: HeadAgreement) -> str:
    """Every head, in the order of layers."""
    lines = [f"{found.sentences} sentences, {found.rows} written words that some source word decides"]
    lines += [
        f"{head.site} head {head.head}: {head.agreement:.2f} on the deciding word, {head.previous:.2f} on that of the "
        f"word before{f': {head.role}' if head.role else ''}"
        for head in found.heads
    ]
    return "\n".join([*lines, f"truest: {found.truest.site} head {found.truest.head}"]) + "\n"
