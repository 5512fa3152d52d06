"""`train`: make a checkpoint from texts."""

import argparse
import shlex
import sys
from dataclasses import MISSING, fields
from pathlib import Path

from transformer.commands import train_classification
from transformer.runs.memory import recycle_memory
from transformer.training.translation.corpora import corpus_of
from transformer.training.translation.options import TrainingOptions

TRANSLATION = """Train a translation model, average its last weights, and write a checkpoint with its card.

The same command resumes a run that was stopped (Ctrl-C, SIGTERM, --stop-after) or killed, with the same result as if it
had not been: bit for bit, on the same machine with as many processes, since all that is random is a function of --seed.
Several processes share each batch: torchrun --nproc-per-node N -m transformer train translation ..."""


FOLDERS = frozenset({"data", "work", "start"})
"""Options that name a folder."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    kinds = commands.add_parser("train", help="train a model and write its checkpoint").add_subparsers(
        required=True, metavar="KIND"
    )
    parser = kinds.add_parser(
        "translation",
        help="encoder-decoder that translates",
        description=TRANSLATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="checkpoint folder to write")
    for option in fields(TrainingOptions):
        if isinstance(option.default, bool):
            parser.add_argument(
                _flag(option.name),
                action=argparse.BooleanOptionalAction,
                default=option.default,
                help=option.metadata["meaning"],
            )
            continue
        kind = (
            Path if option.name in {*FOLDERS, "tokenizer"} else int if option.default is None else type(option.default)
        )
        usual = "" if option.default in (MISSING, None) else " (default: %(default)s)"
        parser.add_argument(
            _flag(option.name),
            type=kind,
            default=None if option.default is MISSING else option.default,
            required=option.name == "data",
            metavar="DIR" if option.name in FOLDERS else option.name.rpartition("_")[2].upper(),
            help=option.metadata["meaning"] + (" (default: runs/NAME)" if option.name == "work" else usual),
        )
    parser.set_defaults(run=train_translation)
    train_classification.register(kinds)


def train_translation(arguments: argparse.Namespace) -> int:
    """Train or resume; a finished run is written to `--out`. A run that a signal stopped ends with 128 + its number."""
    from transformer.training.translation.export import before_start, export
    from transformer.training.translation.run import Run

    values = {option.name: getattr(arguments, option.name) for option in fields(TrainingOptions)}
    values["work"] = values["work"] or Path("runs") / arguments.out.name
    options = TrainingOptions(**values)
    before_start(options.start)  # a checkpoint without a card is refused now, not after hours
    recycle_memory()
    run = Run(options)
    try:
        run.train()
        if run.process.leads:
            if not run.finished:
                _say(f"stopped after update {run.progress.update} of {options.updates}: the same command goes on")
            elif run.signal is None:
                facts = export(run, arguments.out, command(options, arguments.out), corpus_of(options.data.name))
                _say(f"{arguments.out}: {facts.scores[0].bleu.score:.2f} BLEU on the validation text")
        run.process.wait()
    finally:
        run.process.leave()
    return 128 + run.signal if run.signal is not None else 0


def command(options: TrainingOptions, out: Path) -> str:
    """The command line that makes this checkpoint, wherever the data lies."""
    parts = ["python -m transformer train translation", f"--data path/to/{options.data.name}"]
    parts += [f"--out checkpoints/{out.name}"]
    if options.tokenizer:
        parts += [f"--tokenizer checkpoints/{shlex.quote('/'.join(options.tokenizer.parts[-2:]))}"]
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
