"""`evaluate`: translate a text and hold it against its reference."""

import argparse
import json
import sys
import time
from pathlib import Path

from transformer.commands import decoding
from transformer.errors import InputError
from transformer.runs.corpus import bleu
from transformer.tokens.lines import read_lines


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "evaluate",
        help="BLEU of a checkpoint on a text and its reference translation",
        description="Translate a text and print its BLEU as sacrebleu counts it: cased, detokenised, 13a tokens.",
    )
    decoding.add_arguments(parser)
    parser.add_argument(
        "--source", type=Path, required=True, metavar="FILE", help="text to translate, a sentence a line"
    )
    parser.add_argument("--reference", type=Path, required=True, metavar="FILE", help="its translation, line by line")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a sentence")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Score the checkpoint; the score goes to stdout."""
    options = decoding.decoding_options(arguments)
    source, reference = read_lines(arguments.source), read_lines(arguments.reference)
    if len(source) != len(reference):
        files = {"source": str(arguments.source), "reference": str(arguments.reference)}
        raise InputError("lines_differ", **files, source_lines=len(source), reference_lines=len(reference))
    if not source:
        raise InputError("file_without_lines", file=str(arguments.source))
    started = time.monotonic()
    results = decoding.translated(arguments, source)
    seconds = time.monotonic() - started
    found = bleu([result.text for result in results], reference)
    if arguments.json:
        text = json.dumps(
            dict(
                bleu=found.score,
                signature=found.signature,
                beam=options.beam,
                length_penalty=options.length_penalty,
                max_length=options.max_length,
                sentences=len(source),
                seconds=round(seconds, 2),
            )
        )
    else:
        text = f"BLEU {found.score:.2f} ({len(source)} sentences, {seconds:.1f} s, {found.signature})"
    sys.stdout.write(text + "\n")
    return 0
