"""The command line: `python -m heedmap COMMAND ...`, or `heedmap COMMAND ...` where it is installed.

Without a command it opens the dashboard.

A mistake that can be met on purpose, or a file or stream that cannot be read or written, prints one sentence on stderr
and ends with status 2, as a wrong argument does.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .commands import atlas, dashboard, measure, sequences, translation, weights
from .distribution import version
from .errors import HeedmapError

MODULES = (dashboard, translation, sequences, weights, measure, atlas)
GROUPS = {
    "measure": "measure a checkpoint over a corpus, and keep the result beside its weights",
}
"""Commands that have several kinds."""


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    called = "heedmap" if Path(sys.argv[0]).stem == "heedmap" else "python -m heedmap"
    whole = argparse.ArgumentParser(prog=called, description="Heedmap on the command line.")
    whole.add_argument("--version", action="version", version=f"heedmap {version()}")
    groups = {"": whole.add_subparsers(required=True, metavar="COMMAND")}
    for command in (one for module in MODULES for one in module.COMMANDS):
        group = command.name.rpartition(" ")[0]
        if group not in groups:
            kinds = groups[""].add_parser(group, help=GROUPS[group])
            groups[group] = kinds.add_subparsers(required=True, metavar="KIND")
        command.add(groups[group])
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    return exit_status(parser(), (sys.argv[1:] if arguments is None else arguments) or ["open"])


def exit_status(commands: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; returns its exit status."""
    try:
        options = commands.parse_args(arguments)
        status: int = options.run(options)
        sys.stdout.flush()  # a full disk is met here, and not after the last line of this program
    except HeedmapError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read the output has seen enough
        _forget_output()
        return 128 + signal.SIGPIPE
    except OSError as error:  # a disk that is full, a folder that cannot be written, a stream that is closed
        _forget_output()
        where = error.filename or "the output"
        print(
            f"error: {where}: {error.strerror or error}: check the path, its permissions and the space left",
            file=sys.stderr,
        )
        return 2
    return status


def _forget_output() -> None:
    """What could not be written is not tried again at the end."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


if __name__ == "__main__":
    sys.exit(main())
