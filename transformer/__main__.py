"""The command line: `python -m transformer COMMAND ...`.

A mistake that can be met on purpose prints one sentence on stderr and ends with status 2, as a wrong argument does.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from transformer.commands import classify, convert, evaluate, inspect, train, translate
from transformer.errors import HeedmapError

COMMANDS = (translate, classify, evaluate, train, inspect, convert)


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    whole = argparse.ArgumentParser(prog="python -m transformer", description="Heedmap on the command line.")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.register(commands)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except HeedmapError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
