"""The commands of `python -m heedmap`, a module a subject, and the arguments that several take."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..distribution import located
from ..errors import InputError

Arguments = Mapping[str, Mapping[str, Any]]
"""What `add_argument` is given, by name."""


class Command(NamedTuple):
    """A command that calls `run`, which returns the exit status: 0 when all went well.

    A `name` of two words is a kind of the first one. Lines of a `description` stay as they are; by default it is the
    `meaning`. Of the arguments in `either` just one is given.
    """

    name: str
    run: Callable[[argparse.Namespace], int]
    meaning: str
    arguments: Arguments
    description: str = ""
    either: tuple[str, ...] = ()

    def add(self, commands: Any) -> None:
        """Add it to a parser's commands."""
        how_shown = {"formatter_class": argparse.RawDescriptionHelpFormatter} if "\n" in self.description else {}
        name, about = self.name.rpartition(" ")[2], self.description or self.meaning
        parser = commands.add_parser(name, help=self.meaning, description=about, **how_shown)
        parser.set_defaults(run=self.run)
        group = parser.add_mutually_exclusive_group(required=True) if self.either else parser
        for argument, how in self.arguments.items():
            (group if argument in self.either else parser).add_argument(argument, **how)


def checkpoint_path(text: str) -> Path:
    """A path whose last part is a name, which messages and folders are called by: `.` becomes the folder's own.

    The name of a shipped checkpoint stands for its folder, where nothing lies at that path.
    """
    path = located(text)
    named = path if path.name not in {"", ".."} else path.resolve()
    if not named.name:
        raise argparse.ArgumentTypeError(f"{text!r} has no name: give a file or a folder below it")
    return named


def checkpoint(meaning: str) -> dict[str, Mapping[str, Any]]:
    """The checkpoint, first."""
    return {"checkpoint": dict(metavar="CHECKPOINT", type=checkpoint_path, help=meaning)}


QUIET: Arguments = {"--quiet": dict(action="store_true", help="draw no progress bar on stderr")}
PACE: Arguments = {"--threads": dict(type=int, metavar="N", help="CPU threads (default: PyTorch's choice)"), **QUIET}
"""How many threads compute, and whether a bar is drawn."""


def set_threads(arguments: argparse.Namespace) -> None:
    """Use as many threads as were asked for.

    Raises:
        InputError: fewer than one.
    """
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise InputError("threads_too_few", threads=arguments.threads)
        torch.set_num_threads(arguments.threads)
