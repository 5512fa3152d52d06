"""Answers to what a checkpoint's shapes cannot tell, as the command line takes them: `--answer n_heads=8`."""

import argparse
from typing import Any


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--answer`, which may be given several times."""
    parser.add_argument(
        "--answer",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="answer to a question about the file, such as n_heads=8, activation=gelu or norm_first=true; repeatable",
    )


def answers(arguments: argparse.Namespace) -> dict[str, Any]:
    """The answers by name; the last one counts."""
    return dict(arguments.answer)


def _pair(text: str) -> tuple[str, int | bool | str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    if value.lower() in {"true", "false"}:
        return name, value.lower() == "true"
    return name, int(value) if value.removeprefix("-").isdigit() else value
