"""`train`: make a checkpoint from texts or from labelled sequences."""

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch

from transformer.commands.arguments import Commands, add_command
from transformer.runs.memory import recycle_memory
from transformer.training.options import ClassificationOptions, TrainingOptions, TranslationOptions

DESCRIPTION = """Train a model, average its last weights, and write a checkpoint with its card.

The same command resumes a run that was stopped (Ctrl-C, SIGTERM, --stop-after) or killed, with the same result as if it
had not been: bit for bit, on the same machine, since all that is random is a function of --seed.
DATA.md in the folder of the data, where there is one, tells their origin and licence, which the card repeats."""

FOLDERS = frozenset({"data", "work", "start"})
"""Options that name a folder."""


def register(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command."""
    kinds = commands.add_parser("train", help="train a model and write its checkpoint").add_subparsers(
        required=True, metavar="KIND"
    )
    of_sequences = "k-mer classifier of sequences; --data holds train.tsv and valid.tsv"
    for kind, options, meaning in (
        ("translation", TranslationOptions, "encoder-decoder; --data holds train.LANGUAGE and val.LANGUAGE"),
        ("classification", ClassificationOptions, of_sequences),
    ):
        parser = add_command(kinds, kind, partial(_train, kind, options), meaning, DESCRIPTION)
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="checkpoint folder to write")
        for option in fields(options):
            _add(parser, option)
    meaning = "a small task, as the page Learning trains it; writes a recording"
    task = add_command(kinds, "task", _train_task, meaning, meaning)
    task.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="such as task=sort, warmup=true, seed=2")
    task.add_argument("--updates", required=True, metavar="N,N", help="take a snapshot after each of these updates")
    task.add_argument("--last-weights", action="store_true", help="keep the weights of the last snapshot alone")
    task.add_argument("--out", type=Path, required=True, metavar="FILE", help="safetensors file to write")


def _add(parser: argparse.ArgumentParser, option: "Field[Any]") -> None:
    """Add the argument of one option."""
    name, usual, meaning = option.name, option.default, option.metadata["meaning"]
    if isinstance(usual, bool):
        parser.add_argument(_flag(name), action=argparse.BooleanOptionalAction, default=usual, help=meaning)
        return
    kind = Path if name in {*FOLDERS, "tokenizer"} else int if usual is None else type(usual)
    told = " (default: runs/NAME)" if name == "work" else "" if usual in (MISSING, None) else " (default: %(default)s)"
    parser.add_argument(
        _flag(name),
        type=kind,
        default=None if usual is MISSING else usual,
        required=name == "data",
        metavar="DIR" if name in FOLDERS else name.rpartition("_")[2].upper(),
        help=meaning + told,
    )


def _train(kind: str, options_type: type[TrainingOptions], arguments: argparse.Namespace) -> int:
    """Train or resume; a finished run is written to `--out`. A run that a signal stopped ends with 128 + its number."""
    from transformer.training import classification, classifier_folder, translation, translator_folder
    from transformer.training.run import Run

    values = {option.name: getattr(arguments, option.name) for option in fields(options_type)}
    values["work"] = values["work"] or Path("runs") / arguments.out.name
    options = options_type(**values)
    translates = kind == "translation"
    recycle_memory()
    run = Run(options, translation.Translation if translates else classification.Classification)
    export: Callable[..., Any] = translator_folder.export if translates else classifier_folder.export
    run.train()
    if not run.finished:
        _say(f"stopped after update {run.progress.update} of {options.updates}: the same command goes on")
    elif run.signal is None:
        found = export(run, arguments.out, command(kind, options, arguments.out))
        says = f"{found.score:.2f} BLEU" if translates else f"accuracy {found.accuracy:.4f}, MCC {found.mcc:.4f}"
        _say(f"{arguments.out}: {says} on the validation data")
    return 128 + run.signal if run.signal is not None else 0


def _train_task(arguments: argparse.Namespace) -> int:
    """Train on a small task and write its snapshots."""
    from transformer.training.snapshots import Learning, packed
    from transformer.training.tasks import Settings

    torch.set_num_threads(1)
    learning = Learning(Settings.of(dict(one.split("=", 1) for one in arguments.settings)))
    updates = sorted(map(int, arguments.updates.split(",")))
    found = []
    for update in updates:
        learning.advance(update)
        found.append(learning.snapshot(keeps=update == updates[-1] or not arguments.last_weights))
        _say(f"update {update}: {found[-1].measures.accuracy:.1%} right, loss {found[-1].measures.loss:.4f}")
    arguments.out.write_bytes(packed(learning.settings, found))
    return 0


def command(kind: str, options: TrainingOptions, out: Path) -> str:
    """The command line that makes this checkpoint, wherever the data lies."""
    parts = [f"python -m transformer train {kind}", f"--data path/to/{options.data.name}"]
    parts += [f"--out checkpoints/{out.name}"]
    if tokenizer := getattr(options, "tokenizer", None):
        parts += [f"--tokenizer checkpoints/{shlex.quote('/'.join(tokenizer.parts[-2:]))}"]
    for name, value in options.changed().items():
        if isinstance(value, bool):
            parts += [_flag(name) if value else "--no-" + _flag(name)[2:]]
        else:
            parts += [f"{_flag(name)} {shlex.quote(f'path/to/{value}' if name in FOLDERS else str(value))}"]
    return " \\\n    ".join([" ".join(parts[:3]), *parts[3:]])


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
