"""`translate`: sentences in, translations out, line by line; `evaluate`: their BLEU against references."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..checkpoint import load
from ..nn.search import DecodingOptions
from ..runs.corpus import TranslatedLine, bleu, check_bleu, translate_lines
from ..text.base import both_sides, split_lines
from . import PACE, Command, checkpoint, set_threads

NAMED_LINES = 5
"""How many lines a note names before it only counts."""


def _decoding(arguments: argparse.Namespace) -> DecodingOptions:
    return DecodingOptions(arguments.beam, arguments.length_penalty, arguments.max_length)


def _translated(arguments: argparse.Namespace, lines: Sequence[str]) -> list[TranslatedLine]:
    """Each line through the checkpoint that was asked for."""
    set_threads(arguments)
    model, reader, writer = load(arguments.checkpoint).translator()
    return translate_lines(model, reader, lines, _decoding(arguments), progress=not arguments.quiet, writer=writer)


def translate(arguments: argparse.Namespace) -> int:
    """Translate stdin to stdout; notes about what was left out go to stderr."""
    _decoding(arguments)  # refused before anything is read
    results = _translated(arguments, split_lines(sys.stdin.buffer.read(), "the input"))
    text = "".join(result.text.replace("\n", " ") + "\n" for result in results)
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.buffer.flush()
    for note in notes(results, arguments.max_length):
        sys.stderr.write(f"note: {note}\n")
    return 0


def evaluate(arguments: argparse.Namespace) -> int:
    """Score the checkpoint; the score goes to stdout."""
    _decoding(arguments)  # refused before anything is read
    check_bleu()
    source, reference = both_sides(arguments.source, arguments.reference)
    started = time.monotonic()
    results = _translated(arguments, source)
    seconds = time.monotonic() - started
    found = bleu([result.text for result in results], reference)
    said = f"BLEU {found.score:.2f} ({len(source)} sentences, {seconds:.1f} s, {found.signature})"
    sys.stdout.write(f"{said}\n")
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


_USUAL = DecodingOptions()
_DECODING = checkpoint("folder or file of a model that translates") | {
    "--beam": dict(type=int, default=_USUAL.beam, help="hypotheses kept; 1 is greedy (default: %(default)s)"),
    "--length-penalty": dict(
        type=float, default=_USUAL.length_penalty, metavar="POWER",
        help="scores are divided by length to this power; 0 prefers short ones (default: %(default)s)",
    ),
    "--max-length": dict(
        type=int, default=_USUAL.max_length, metavar="TOKENS", help="longest translation (default: %(default)s)"
    ),
    **PACE,
}  # fmt: skip
_SIDES = {
    "--source": dict(type=Path, required=True, metavar="FILE", help="text, a sentence a line"),
    "--reference": dict(type=Path, required=True, metavar="FILE", help="its translation"),
}
COMMANDS = (
    Command(
        "translate", translate, "translate stdin to stdout, one line out per line in", _DECODING,
        "Translate stdin (UTF-8). Each line of input, an empty one too, gives one line of output.",
    ),
    Command(
        "evaluate", evaluate, "BLEU of a checkpoint on a text and its reference translation", _DECODING | _SIDES,
        "Translate a text and print its BLEU as sacrebleu counts it: cased, detokenised, 13a tokens.",
    ),
)  # fmt: skip
