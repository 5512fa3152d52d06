"""`train classification`: make a sequence classifier, shipped or of one's own table, with its baselines."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from transformer.commands.paths import checkpoint_path
from transformer.errors import TrainingError
from transformer.sequences.alphabet import ALPHABETS
from transformer.training.classification.plan import Plan
from transformer.training.classification.presets import PRESETS

DESCRIPTION = """Train a sequence classifier with several seeds, two baselines on the same rows; write its checkpoint.

A table has the columns id, sequence and label, divided by tabs; all sequences have one length. Either name a PLAN of
a shipped checkpoint and --data, a folder of train.tsv and valid.tsv; or give tables of your own by --train and --valid
(without it a fifth of the rows is taken, near-duplicates together). The seed with the lowest loss on held-out training
rows is written. With --students, these seeds are taught by all the others (distillation), and the best student is
written. The same command goes on after a stop: each finished training is kept in the work folder."""


@dataclass(frozen=True)
class Option:
    """A number of the plan that can be given: its flag, the field that it sets, and what it means."""

    flag: str
    part: Literal["config", "hyperparameters", "distillation"]
    field: str
    kind: type
    meaning: str
    several: bool = False


OPTIONS = (
    Option("widths", "config", "widths", int, "window widths of the k-mer classifier, in letters", several=True),
    Option("d-model", "config", "d_model", int, "its width"),
    Option("heads", "config", "n_heads", int, "its heads"),
    Option("layers", "config", "n_layers", int, "its layers"),
    Option("d-ff", "config", "d_ff", int, "width of its feed-forward parts"),
    Option("questions", "config", "n_questions", int, "averages that its pooling takes, side by side"),
    Option("dropout", "config", "dropout", float, "its dropout"),
    Option("epochs", "hyperparameters", "epochs", int, "rounds over the rows"),
    Option("batch", "hyperparameters", "batch", int, "rows an update"),
    Option("rate", "hyperparameters", "rate", float, "peak of the learning rate"),
    Option("decay", "hyperparameters", "decay", float, "weight decay"),
    Option("average", "hyperparameters", "average", float, "of each average of the weights, the part that stays"),
    Option("hidden", "hyperparameters", "unknown", float, "share of letters hidden at random"),
    Option("student-epochs", "distillation", "epochs", int, "rounds over the rows of a student"),
    Option("student-rate", "distillation", "rate", float, "peak of a student's learning rate"),
    Option("crossed", "distillation", "crossed", float, "share of a student's rows that are joined from two"),
)
"""What can be given instead of a plan's own."""


def register(kinds: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the kinds of training."""
    parser = kinds.add_parser(
        "classification",
        help="k-mer classifier of sequences",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "plan", nargs="?", choices=sorted(PRESETS), metavar="PLAN", help=f"one of {', '.join(sorted(PRESETS))}"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="with a PLAN: folder of train.tsv and valid.tsv")
    own = parser.add_argument_group("tables of your own")
    own.add_argument("--train", type=Path, metavar="FILE", help="table of the rows to train on")
    own.add_argument("--valid", type=Path, metavar="FILE", help="table of the validation rows")
    own.add_argument("--alphabet", choices=sorted(ALPHABETS), default="dna", help="letters (default: %(default)s)")
    own.add_argument("--background", metavar="CLASS", default="", help="the class that says: nothing to be found")
    own.add_argument("--title", metavar="TEXT", help="what the card calls it (default: the name of the folder)")
    own.add_argument("--rows-as-examples", action="store_true", help="rows may be examples (default: made-up ones)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="checkpoint folder to write")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="folder of finished trainings (default: runs/PLAN, or runs/OUT)"
    )
    seeds = parser.add_argument_group("how many trainings")
    seeds.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="SEED", help="one training each (default: 1 2 3)"
    )
    seeds.add_argument("--baseline-seeds", type=int, nargs="+", metavar="SEED", help="of baselines (default: --seeds)")
    seeds.add_argument("--students", type=int, nargs="+", default=[], metavar="SEED", help="then teach these seeds")
    seeds.add_argument(
        "--teachers", type=checkpoint_path, nargs="+", default=[], metavar="DIR", help="checkpoints that teach, too"
    )
    seeds.add_argument("--start", type=checkpoint_path, metavar="DIR", help="checkpoint whose weights to go on from")
    seeds.add_argument("--start-rate", type=float, metavar="N", help="peak of the learning rate then (not of students)")
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="cpu, cuda, cuda:1 ...; auto is a GPU if there is one (default)",
    )
    numbers = parser.add_argument_group("instead of the plan's own")
    for one in OPTIONS:
        numbers.add_argument(
            f"--{one.flag}", type=one.kind, nargs="+" if one.several else None, metavar="N", help=one.meaning
        )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train what is not trained yet, and write the checkpoint folder."""
    from transformer.checkpoint.checkpoint import device_here
    from transformer.runs.memory import recycle_memory
    from transformer.training.classification.export import export
    from transformer.training.classification.own import read_tables
    from transformer.training.classification.run import Seeds, train_all
    from transformer.training.classification.teachers import read_start, read_teachers

    device = device_here(arguments.device)
    plan = planned(arguments)
    files = (arguments.train, arguments.valid) if arguments.plan is None else _of_folder(arguments.data)
    tables = read_tables(plan, *files)
    baselines = None if arguments.baseline_seeds is None else tuple(arguments.baseline_seeds)
    seeds = Seeds(tuple(arguments.seeds), tuple(arguments.students), baselines)
    recycle_memory()
    work = arguments.work or Path("runs") / (arguments.plan or arguments.out.name)
    start = None if arguments.start is None else read_start(plan, arguments.start)
    outcome = train_all(plan, tables, work, seeds, read_teachers(plan, arguments.teachers), start, device)
    export(outcome, arguments.out, command(arguments))
    for one in outcome.of(outcome.shipped_kind):
        scores = outcome.scores(one)
        sys.stderr.write(f"seed {one.seed}: accuracy {scores.accuracy:.4f}, MCC {scores.mcc:.4f}\n")
    return 0


def planned(arguments: argparse.Namespace) -> Plan:
    """The plan that is named, or that of one's own table, with what was given instead of its own numbers.

    Raises:
        TrainingError: neither or both are given, or a number makes no run.
    """
    from transformer.sequences.alphabet import Alphabet
    from transformer.training.classification.own import plan_of

    if (arguments.plan is None) == (arguments.train is None) or (arguments.plan is None) != (arguments.data is None):
        raise TrainingError("training_plan_or_table", plans=tuple(PRESETS))
    plan = (
        PRESETS[arguments.plan]
        if arguments.plan
        else plan_of(
            arguments.train,
            Alphabet.of(arguments.alphabet),
            arguments.title or arguments.out.name,
            arguments.background,
            arguments.rows_as_examples,
        )
    )
    given: dict[str, dict[str, Any]] = {}
    for one in OPTIONS:
        value = getattr(arguments, one.flag.replace("-", "_"))
        if value is not None:
            given.setdefault(one.part, {})[one.field] = tuple(value) if one.several else value
    for part, numbers in given.items():
        plan = replace(plan, **{part: replace(getattr(plan, part), **numbers)})
    return plan if arguments.start_rate is None else replace(plan, start_rate=arguments.start_rate)


def command(arguments: argparse.Namespace) -> str:
    """The command line that makes this checkpoint, wherever the data lies."""
    parts = ["python -m transformer train classification" + (f" {arguments.plan}" if arguments.plan else "")]
    for name in ("data", "train", "valid"):
        path = getattr(arguments, name)
        parts += [] if path is None else [f"--{name} {shlex.quote(f'path/to/{path.name}')}"]
    parts += [f"--out {shlex.quote(f'checkpoints/{arguments.out.name}')}"]
    parts += [] if arguments.device == "auto" else [f"--device {shlex.quote(arguments.device)}"]
    parts += [] if arguments.alphabet == "dna" else [f"--alphabet {arguments.alphabet}"]
    parts += [
        f"--{name} {shlex.quote(value)}" for name in ("background", "title") if (value := getattr(arguments, name))
    ]
    parts += ["--rows-as-examples"] if arguments.rows_as_examples else []
    several: list[tuple[str, Sequence[object] | None]] = [
        ("seeds", arguments.seeds),
        ("baseline-seeds", arguments.baseline_seeds),
        ("students", arguments.students),
        ("start", None if arguments.start is None else [shlex.quote(f"path/to/{arguments.start.name}")]),
        ("start-rate", None if arguments.start_rate is None else [arguments.start_rate]),
        ("teachers", [shlex.quote(f"path/to/{path.name}") for path in arguments.teachers]),
    ]
    for one in OPTIONS:
        value = getattr(arguments, one.flag.replace("-", "_"))
        several.append((one.flag, value if one.several or value is None else [value]))
    parts += [f"--{name} {' '.join(map(str, values))}" for name, values in several if values]
    return " \\\n    ".join(parts)


def _of_folder(folder: Path) -> tuple[Path, Path]:
    return folder / "train.tsv", folder / "valid.tsv"
