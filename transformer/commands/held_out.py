"""`held-out`: how often a classifier's thresholds err, and which inputs are unlike its own, from held-out rows."""

import argparse
import sys
from pathlib import Path

import torch

from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.commands.rows import labelled_rows
from transformer.runs.sequences.held_out import FILE, measured, write_held_out


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "held-out",
        help="measure a sequence classifier's thresholds on held-out rows",
        description=(
            "Classify labelled rows that were not trained on; keep for each class and threshold the share found and "
            f"the share called falsely, and bounds of the rows' composition. Writes {FILE} beside the weights."
        ),
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="folder of a classifier")
    parser.add_argument(
        "rows", metavar="FILE", type=Path, help="a table with the columns id, sequence, label, divided by tabs"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, write, and say what came out."""
    torch.set_num_threads(1)
    records, labels = labelled_rows(arguments.rows)
    found = measured(load(arguments.checkpoint), records, labels)
    write_held_out(arguments.checkpoint / FILE, found)
    for name, points in found.points.items():
        for point in points:
            sys.stdout.write(f"{name} from {point.threshold}: {point.found:.1%} found, {point.false:.2%} false\n")
    sys.stdout.write(
        f"{found.rows} rows; unlike: GC outside {found.gc[0]:.2f} to {found.gc[1]:.2f}, or pairs of under "
        f"{found.pairs:.2f} bits; {found.false_alarms:.1%} false alarms\n"
    )
    return 0
