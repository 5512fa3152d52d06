"""`train classification`: make one of the shipped sequence classifiers, with its baselines."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from transformer.training.classification.presets import PRESETS

DESCRIPTION = """Train a sequence classifier with several seeds, two baselines on the same rows; write its checkpoint.

DATA holds train.tsv and valid.tsv with the columns id, sequence and label. The same command goes on after a stop: each
finished training is kept in the work folder. The seed with the lowest loss on held-out training rows is written."""


def register(kinds: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the kinds of training."""
    parser = kinds.add_parser(
        "classification",
        help="k-mer classifier of sequences",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plan", choices=sorted(PRESETS), metavar="PLAN", help=f"one of {', '.join(sorted(PRESETS))}")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of train.tsv and valid.tsv")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="checkpoint folder to write")
    parser.add_argument("--work", type=Path, metavar="DIR", help="folder of finished trainings (default: runs/PLAN)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="SEED", help="one training each (default: 1 2 3)"
    )
    parser.add_argument("--epochs", type=int, metavar="EPOCHS", help="instead of the plan's own number")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train what is not trained yet, and write the checkpoint folder."""
    from transformer.runs.memory import recycle_memory
    from transformer.training.classification.export import export
    from transformer.training.classification.run import KMER, train_all

    plan = PRESETS[arguments.plan]
    if arguments.epochs is not None:
        plan = replace(plan, hyperparameters=replace(plan.hyperparameters, epochs=arguments.epochs))
    recycle_memory()
    outcome = train_all(plan, arguments.data, arguments.work or Path("runs") / plan.name, tuple(arguments.seeds))
    export(outcome, arguments.out, command(arguments))
    for one in outcome.of(KMER):
        scores = outcome.scores(one)
        sys.stderr.write(f"seed {one.seed}: accuracy {scores.accuracy:.4f}, MCC {scores.mcc:.4f}\n")
    return 0


def command(arguments: argparse.Namespace) -> str:
    """The command line that makes this checkpoint, wherever the data lies."""
    parts = [
        f"python -m transformer train classification {arguments.plan}",
        f"--data path/to/{arguments.data.name} --out checkpoints/{arguments.out.name}",
        f"--seeds {' '.join(map(str, arguments.seeds))}",
    ]
    parts += [] if arguments.epochs is None else [f"--epochs {arguments.epochs}"]
    return " \\\n    ".join(parts)
