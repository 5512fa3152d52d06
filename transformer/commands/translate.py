"""`translate`: sentences in on stdin, translations out on stdout, line by line."""

import argparse
import sys

from transformer.commands import decoding
from transformer.runs.corpus import TranslatedLine
from transformer.tokens.lines import split_lines

NAMED_LINES = 5
"""How many lines a note names before it only counts."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "translate",
        help="translate stdin to stdout, one line out per line in",
        description="Translate stdin (UTF-8). Each line of input, an empty one too, gives one line of output.",
    )
    decoding.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Translate stdin to stdout; notes about what was left out go to stderr."""
    decoding.decoding_options(arguments)  # refused before anything is read
    lines = split_lines(sys.stdin.buffer.read(), "the input")
    results = decoding.translated(arguments, lines)
    text = "".join(result.text.replace("\n", " ") + "\n" for result in results)
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.buffer.flush()
    for note in notes(results, arguments.max_length):
        sys.stderr.write(f"note: {note}\n")
    return 0


def notes(results: list[TranslatedLine], max_length: int) -> list[str]:
    """What you have to know of the translations: lines that were not read, or not written, to their end."""
    unread = [number for number, result in enumerate(results, 1) if result.unread]
    cut = [number for number, result in enumerate(results, 1) if not result.finished]
    longest = max((result.tokens for result in results if not result.finished), default=0)
    found = []
    if unread:
        found.append(f"{_named(unread)} longer than the checkpoint reads: the rest was left out, split such lines")
    if cut:
        remedy = "raise --max-length, or" if longest >= max_length else "the checkpoint writes no more,"
        found.append(f"{_named(cut)} cut at {longest} tokens: {remedy} split such lines")
    return found


def _named(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]} is"
    more = f" and {len(numbers) - NAMED_LINES} more" if len(numbers) > NAMED_LINES else ""
    return f"lines {', '.join(map(str, numbers[:NAMED_LINES]))}{more} are"
