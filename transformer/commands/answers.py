"""Answers to what a checkpoint's shapes cannot tell, as the command line takes them: `--answer n_heads=8`."""

import argparse
import re
import shlex
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"-?(\d+\.\d*|\.\d+|\d+(?=e))(e[-+]?\d{1,3})?", re.ASCII | re.IGNORECASE)
"""A real number with a point or an exponent: `0.5`, `1e-6`."""


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--answer`, which may be given several times."""
    parser.add_argument(
        "--answer",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="answer to a question about the file, such as n_heads=8, norm_eps=1e-6 or norm_first=true; repeatable",
    )


def answers(arguments: argparse.Namespace) -> dict[str, Any]:
    """The answers by name; the last one counts."""
    return dict(arguments.answer)


def as_options(given: Mapping[str, Any]) -> str:
    """The options that give these answers."""
    said = {name: str(answer).lower() if isinstance(answer, bool) else str(answer) for name, answer in given.items()}
    return " ".join(f"--answer {shlex.quote(f'{name}={answer}')}" for name, answer in said.items())


def _pair(text: str) -> tuple[str, int | float | bool | str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    if value.lower() in {"true", "false"}:
        return name, value.lower() == "true"
    if value.removeprefix("-").isdecimal():
        return name, int(value)
    return name, float(value) if _NUMBER.fullmatch(value) else value
