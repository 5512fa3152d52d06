"""Arguments that several commands take."""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from transformer.distribution import located
from transformer.errors import InputError
from transformer.text.lines import read_lines

Commands = argparse._SubParsersAction


def add_command(
    commands: "Commands[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    meaning: str,
    description: str,
) -> argparse.ArgumentParser:
    """A command that calls `run`; lines of its `description` stay as they are."""
    parser = commands.add_parser(
        name, help=meaning, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(run=run)
    return parser


def checkpoint_path(text: str) -> Path:
    """A path whose last part is a name, which messages and folders are called by: `.` becomes the folder's own.

    The name of a shipped checkpoint stands for its folder, where nothing lies at that path.
    """
    path = located(text)
    named = path if path.name not in {"", ".."} else path.resolve()
    if not named.name:
        raise argparse.ArgumentTypeError(f"{text!r} has no name: give a file or a folder below it")
    return named


def add_checkpoint(parser: argparse.ArgumentParser, meaning: str) -> None:
    """The checkpoint, first."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help=meaning)


def add_pace(parser: argparse.ArgumentParser) -> None:
    """How many threads compute, and whether a bar is drawn."""
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: PyTorch's choice)")
    add_quiet(parser)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Whether a bar is drawn."""
    parser.add_argument("--quiet", action="store_true", help="draw no progress bar on stderr")


def set_threads(arguments: argparse.Namespace) -> None:
    """Use as many threads as were asked for.

    Raises:
        InputError: fewer than one.
    """
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise InputError("threads_too_few", threads=arguments.threads)
        torch.set_num_threads(arguments.threads)


def both_sides(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of a text and of its translation.

    Raises:
        InputError: a file cannot be read or is empty, or they have different numbers of lines.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        files = {"source": str(source), "reference": str(target)}
        raise InputError("lines_differ", **files, source_lines=len(sources), reference_lines=len(targets))
    if not sources:
        raise InputError("file_without_lines", file=str(source))
    return sources, targets
