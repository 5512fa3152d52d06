"""`check`: what a checkpoint computes, held against what its original computed."""

import argparse
import sys
from pathlib import Path

from transformer.checkpoint import load
from transformer.checkpoint.safe.contents import shape_text
from transformer.commands import answers
from transformer.commands.paths import checkpoint_path
from transformer.runs.check import check_file

DESCRIPTION = """Prove that a checkpoint is read right: run it on the ids in EXPECTED, and compare.

EXPECTED is an .npz or .safetensors with what the original made of a few ids: `input` (or `source` and `target`), and
any of its attention maps (`encoder.0.self`: batch x head x query x key, or averaged over heads) and outputs
(`log_probs`, `logits`, `hidden`). Writes a table in the order in which the model runs; the exit status is 1 where
something differs."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "check",
        help="compare what a checkpoint computes with what its original computed",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "checkpoint", type=checkpoint_path, metavar="FILE", help="a file of weights, or a folder that holds them"
    )
    parser.add_argument("expected", type=Path, metavar="EXPECTED", help="ids, and what the original made of them")
    parser.add_argument(
        "--tolerance", type=float, metavar="X", help="how far two numbers may be apart (follows from their precision)"
    )
    answers.add_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the table and the verdict; 1 when something differs, else 0."""
    checkpoint = load(arguments.checkpoint, **answers.answers(arguments))
    sys.stderr.writelines(f"note: {assumption}\n" for assumption in checkpoint.assumptions)
    found = check_file(checkpoint, arguments.expected, tolerance=arguments.tolerance)
    sys.stderr.writelines(f"note: {name} is not of this model, and was not compared\n" for name in found.other)
    rows = [("array", "shape", "largest difference", "rows that see nothing", "agrees")]
    rows += [
        (one.name, shape_text(one.shape), f"{one.largest:.3g}", str(one.unseen), "yes" if one.agrees else "no")
        for one in found.differences
    ]
    sys.stdout.writelines("\t".join(row) + "\n" for row in rows)
    sys.stdout.write(f"{found.verdict}\n")
    return 0 if found.agrees else 1
