"""`python -m tools.train KIND ...`: make a checkpoint from texts or from labelled sequences, or record a small task."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from heedmap.__main__ import exit_status
from heedmap.commands import Arguments, Command
from heedmap.runs.memory import recycle_memory
from heedmap.training.snapshots import Learning, packed
from heedmap.training.tasks import Settings
from tools import ToolError
from tools.train import classification, translation
from tools.train.options import ClassificationOptions, TrainingOptions, TranslationOptions
from tools.train.run import TrainingRun

DESCRIPTION = """Train a model, average its last weights, and write a checkpoint with its card.

The same command resumes a run that was stopped (Ctrl-C, SIGTERM, --stop-after) or killed, with the same result as if it
had not been: bit for bit, on the same machine, since all that is random is a function of --seed.
DATA.md in the folder of the data, where there is one, tells their origin and licence, which the card repeats."""

PATHS = {"data": "DIR", "work": "DIR", "tokenizer": "FILE"}
"""Options that name a folder or a file."""


def option_argument(name: str, option: "Field[Any]", usual: Any) -> tuple[str, dict[str, Any]]:
    """The argument of one option."""
    meaning = option.metadata["meaning"]
    if isinstance(usual, bool):
        return flag(name), dict(action=argparse.BooleanOptionalAction, default=usual, help=meaning)
    kind = Path if name in PATHS else int if usual is None else type(usual)
    shown = " (default: runs/NAME)" if name == "work" else "" if usual is None else " (default: %(default)s)"
    metavar = PATHS.get(name, name.rpartition("_")[2].upper())
    return flag(name), dict(type=kind, default=usual, required=name == "data", metavar=metavar, help=meaning + shown)


def train(
    kind: str,
    options_type: type[TrainingOptions],
    task: Callable[[Any, torch.device], Any],
    export: Callable[[TrainingRun[Any], Path, str], str],
    arguments: argparse.Namespace,
) -> int:
    """Train or resume; a finished run is written to `--out`. A run that a signal stopped ends with 128 + its number."""
    values = {name: getattr(arguments, name) for name in options_type.flat()}
    values["work"] = values["work"] or Path("runs") / arguments.out.name
    options = options_type.of(**values)
    recycle_memory()
    run = TrainingRun(options, task)
    run.train()
    if not run.finished:
        say(f"stopped after update {run.progress.update} of {options.schedule.updates}: the same command goes on")
    elif run.signal is None:
        found = export(run, arguments.out, command(kind, options, arguments.out))
        say(f"{arguments.out}: {found} on the validation data")
    return 128 + run.signal if run.signal is not None else 0


def train_task(arguments: argparse.Namespace) -> int:
    """Train on a small task and write its snapshots."""
    torch.set_num_threads(1)
    learning = Learning(Settings.of(dict(one.split("=", 1) for one in arguments.settings)))
    updates = sorted(map(int, arguments.updates.split(",")))
    found = []
    for update in updates:
        learning.advance(update)
        found.append(learning.snapshot(keeps=update == updates[-1] or not arguments.last_weights))
        say(f"update {update}: {found[-1].measures.accuracy:.1%} right, loss {found[-1].measures.loss:.4f}")
    arguments.out.write_bytes(packed(learning.settings, found))
    return 0


def command(kind: str, options: TrainingOptions, out: Path) -> str:
    """The command line that makes this checkpoint, wherever the data lies."""
    parts = [f"python -m tools.train {kind}", f"--data path/to/{options.data.name}"]
    parts += [f"--out checkpoints/{out.name}"]
    for name, value in options.unusual().items():
        if isinstance(value, bool):
            parts += [flag(name) if value else "--no-" + flag(name)[2:]]
        else:
            said = "checkpoints/" + "/".join(Path(value).parts[-2:]) if name in PATHS else str(value)
            parts += [f"{flag(name)} {shlex.quote(said)}"]
    return " \\\n    ".join([" ".join(parts[:3]), *parts[3:]])


def flag(name: str) -> str:
    """An option as an argument."""
    return "--" + name.replace("_", "-")


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(text + "\n")


OUT: Arguments = {"--out": dict(type=Path, required=True, metavar="DIR", help="checkpoint folder to write")}
TASK: Arguments = {
    "settings": dict(nargs="*", metavar="NAME=VALUE", help="such as task=sort, warmup=true, seed=2"),
    "--updates": dict(required=True, metavar="N,N", help="take a snapshot after each of these updates"),
    "--last-weights": dict(action="store_true", help="keep the weights of the last snapshot alone"),
    "--out": dict(type=Path, required=True, metavar="FILE", help="safetensors file to write"),
}
COMMANDS = (
    *(
        Command(kind, partial(train, kind, options, task, export), meaning,
                {**OUT, **dict(option_argument(name, *one) for name, one in options.flat().items())}, DESCRIPTION)
        for kind, options, task, export, meaning in (
            ("translation", TranslationOptions, translation.TranslationTask, translation.export,
             "encoder-decoder; --data holds train.LANGUAGE and val.LANGUAGE"),
            ("classification", ClassificationOptions, classification.ClassificationTask, classification.export,
             "k-mer classifier of sequences; --data holds train.tsv and valid.tsv"),
        )
    ),
    Command("task", train_task, "a small task, as the page Learning trains it; writes a recording", TASK),
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """All kinds with their arguments."""
    whole = argparse.ArgumentParser(prog="python -m tools.train", description="Train a model.")
    kinds = whole.add_subparsers(required=True, metavar="KIND")
    for one in COMMANDS:
        one.add(kinds)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; returns the exit status."""
    try:
        return exit_status(parser(), sys.argv[1:] if arguments is None else arguments)
    except ToolError as error:
        say(f"error: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
