"""The command line: `python -m transformer COMMAND ...`.

A mistake that can be met on purpose, or a file or stream that cannot be read or written, prints one sentence on stderr
and ends with status 2, as a wrong argument does.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

from transformer.commands import (
    alignment,
    atlas,
    check,
    classify,
    convert,
    evaluate,
    faithfulness,
    familiarity,
    heads,
    held_out,
    importance,
    inspect,
    interactions,
    means,
    record,
    scan,
    train,
    translate,
)
from transformer.commands.streams import forget_output, replace_closed_streams
from transformer.errors import HeedmapError

COMMANDS = (
    *(translate, classify, scan, evaluate, train, inspect, convert, check, record),
    *(heads, atlas, familiarity, faithfulness, alignment, means, importance, interactions, held_out),
)


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    whole = argparse.ArgumentParser(prog="python -m transformer", description="Heedmap on the command line.")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.register(commands)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    replace_closed_streams()
    try:
        options = parser().parse_args(arguments)
        status: int = options.run(options)
        sys.stdout.flush()  # a full disk is met here, and not after the last line of this program
    except HeedmapError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read the output has seen enough
        forget_output()
        return 128 + signal.SIGPIPE
    except OSError as error:  # a disk that is full, a folder that cannot be written, a stream that is closed
        forget_output()
        where = error.filename or "the output"
        print(
            f"error: {where}: {error.strerror or error}: check the path, its permissions and the space left",
            file=sys.stderr,
        )
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
