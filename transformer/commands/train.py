"""`train`: make a checkpoint from texts or from labelled sequences."""

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import Field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from transformer.commands import Arguments, Command
from transformer.runs.memory import recycle_memory
from transformer.training.run import ClassificationOptions, TrainingOptions, TranslationOptions

DESCRIPTION = """Train a model, average its last weights, and write a checkpoint with its card.

The same command resumes a run that was stopped (Ctrl-C, SIGTERM, --stop-after) or killed, with the same result as if it
had not been: bit for bit, on the same machine, since all that is random is a function of --seed.
DATA.md in the folder of the data, where there is one, tells their origin and licence, which the card repeats."""

PATHS = {"data": "DIR", "work": "DIR", "tokenizer": "FILE"}
"""Options that name a folder or a file."""


def _option(name: str, option: "Field[Any]", usual: Any) -> tuple[str, dict[str, Any]]:
    """The argument of one option."""
    meaning = option.metadata["meaning"]
    if isinstance(usual, bool):
        return _flag(name), dict(action=argparse.BooleanOptionalAction, default=usual, help=meaning)
    kind = Path if name in PATHS else int if usual is None else type(usual)
    shown = " (default: runs/NAME)" if name == "work" else "" if usual is None else " (default: %(default)s)"
    metavar = PATHS.get(name, name.rpartition("_")[2].upper())
    return _flag(name), dict(type=kind, default=usual, required=name == "data", metavar=metavar, help=meaning + shown)


def _train(kind: str, options_type: type[TrainingOptions], arguments: argparse.Namespace) -> int:
    """Train or resume; a finished run is written to `--out`. A run that a signal stopped ends with 128 + its number."""
    from transformer.training import classification, translation
    from transformer.training.run import TrainingRun

    values = {name: getattr(arguments, name) for name in options_type.flat()}
    values["work"] = values["work"] or Path("runs") / arguments.out.name
    options = options_type.of(**values)
    translates = kind == "translation"
    recycle_memory()
    run = TrainingRun(options, translation.TranslationTask if translates else classification.ClassificationTask)
    export: Callable[..., Any] = translation.export if translates else classification.export
    run.train()
    if not run.finished:
        _say(f"stopped after update {run.progress.update} of {options.schedule.updates}: the same command goes on")
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
    for name, value in options.unusual().items():
        if isinstance(value, bool):
            parts += [_flag(name) if value else "--no-" + _flag(name)[2:]]
        else:
            said = "checkpoints/" + "/".join(Path(value).parts[-2:]) if name in PATHS else str(value)
            parts += [f"{_flag(name)} {shlex.quote(said)}"]
    return " \\\n    ".join([" ".join(parts[:3]), *parts[3:]])


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


_OUT: Arguments = {"--out": dict(type=Path, required=True, metavar="DIR", help="checkpoint folder to write")}
_TASK: Arguments = {
    "settings": dict(nargs="*", metavar="NAME=VALUE", help="such as task=sort, warmup=true, seed=2"),
    "--updates": dict(required=True, metavar="N,N", help="take a snapshot after each of these updates"),
    "--last-weights": dict(action="store_true", help="keep the weights of the last snapshot alone"),
    "--out": dict(type=Path, required=True, metavar="FILE", help="safetensors file to write"),
}
COMMANDS = (
    *(
        Command(f"train {kind}", partial(_train, kind, options), meaning,
                {**_OUT, **dict(_option(name, *one) for name, one in options.flat().items())}, DESCRIPTION)
        for kind, options, meaning in (
            ("translation", TranslationOptions, "encoder-decoder; --data holds train.LANGUAGE and val.LANGUAGE"),
            ("classification", ClassificationOptions,
             "k-mer classifier of sequences; --data holds train.tsv and valid.tsv"),
        )
    ),
    Command("train task", _train_task, "a small task, as the page Learning trains it; writes a recording", _TASK),
)  # fmt: skip
