"""`check`: what a checkpoint computes, held against what its original computed."""

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from transformer.checkpoint import load
from transformer.checkpoint.inspect.search import SECONDS
from transformer.checkpoint.safe.contents import shape_text
from transformer.commands import answers
from transformer.commands.paths import checkpoint_path
from transformer.runs.check import check_file, find_answers

DESCRIPTION = """Prove that a checkpoint is read right: run it on the ids in EXPECTED, and compare.

EXPECTED is an .npz or .safetensors with what the original made of a few ids: `input` (or `source` and `target`), and
any of its attention maps (`encoder.0.self`: batch x head x query x key, or averaged over heads) and outputs
(`log_probs`, `logits`, `hidden`); `recording(module)` writes one: `seen.expected("expected.npz", inputs=ids)`. Writes a
table in the order in which the model runs; the exit status is 1 where something differs. With --find, all answers to
what FILE leaves open are tried, and those that agree are written as options, a line each, the likeliest first; the exit
status is 1 where none agrees."""


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
    parser.add_argument(
        "--find", action="store_true", help="try what FILE leaves open; what --answer says stays as it is"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="processor time of --find (default: %(default)g)"
    )
    answers.add_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the table and the verdict; 1 when something differs, else 0."""
    if arguments.find:
        return _find(arguments)
    checkpoint = load(arguments.checkpoint, **answers.answers(arguments))
    sys.stderr.writelines(f"note: {assumption}\n" for assumption in checkpoint.assumptions)
    found = check_file(checkpoint, arguments.expected, tolerance=arguments.tolerance)
    sys.stderr.writelines(f"note: {name} is not of this model, and was not compared\n" for name in found.other)
    rows = [("array", "shape", "largest difference", "rows that see nothing", "agrees")]
    rows += [
        (one.title, shape_text(one.shape), f"{one.largest:.3g}", str(one.unseen), "yes" if one.agrees else "no")
        for one in found.differences
    ]
    sys.stdout.writelines("\t".join(row) + "\n" for row in rows)
    sys.stdout.write(f"{found.verdict}\n")
    return 0 if found.agrees else 1


def _find(arguments: argparse.Namespace) -> int:
    """Write the answers that agree; 1 where none does."""
    with tqdm(total=100, unit="%", disable=None) as bar:
        found = find_answers(
            arguments.checkpoint,
            arguments.expected,
            progress=lambda share: bar.update(round(100 * share) - bar.n),
            seconds=arguments.seconds,
            **answers.answers(arguments),
        )
    sys.stdout.writelines(f"{answers.as_options(one)}\n" for one in found.found)
    sys.stderr.write(f"{found.verdict}\n")
    return 0 if found.found else 1
