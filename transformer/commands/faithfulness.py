"""`faithfulness`: how far each method of attribution can be trusted, over a corpus."""

import argparse
import sys
from pathlib import Path

import torch
from tqdm import tqdm

from transformer.attribution.methods import METHODS
from transformer.checkpoint import load
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.commands.paths import checkpoint_path
from transformer.commands.rows import labelled_rows
from transformer.errors import AttributionError, InputError
from transformer.runs.faithfulness import (
    SUMMARY,
    Faithfulness,
    measure,
    measure_sequences,
    read,
    saved,
    summarised,
    updated,
)
from transformer.runs.sequences.attribution import METHODS as LETTER_METHODS
from transformer.runs.sequences.attribution import MUTATIONS
from transformer.tokens.lines import read_lines


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "faithfulness",
        help="how far methods of attribution can be trusted on a text",
        description="Take the source words away that each method names first, and those alone leave in, and write what "
        "the written words lose (CSV, nats). A run that was stopped goes on. The summary (JSON), laid beside a "
        f"checkpoint as {SUMMARY}, is what the dashboard shows.",
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        type=checkpoint_path,
        help="a model that translates, or classifies sequences",
    )
    parser.add_argument(
        "--source", type=Path, required=True, metavar="FILE",
        help="a sentence a line; of a classifier a table with the columns id, sequence, label, divided by tabs",
    )  # fmt: skip
    parser.add_argument(
        "--target", type=Path, metavar="FILE", help="what to walk through, line by line (default: what it writes)"
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="measure N lines, evenly spread over the file (default: all)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("faithfulness.csv"), metavar="FILE", help="the table (default: %(default)s)"
    )
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME",
        help="measure these methods alone; the summary beside the table keeps what it says of others (default: all)",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.add_argument("--quiet", action="store_true", help="draw no progress bar on stderr")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, then print the summary; the table grows a sentence at a time."""
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise InputError("threads_too_few", threads=arguments.threads)
        torch.set_num_threads(arguments.threads)
    if arguments.rows is not None and arguments.rows < 1:
        raise InputError("rows_too_few", rows=arguments.rows)
    checkpoint = load(arguments.checkpoint)
    windows = checkpoint.model.abilities.reads_windows
    for method in arguments.methods or ():
        if method not in (known := LETTER_METHODS if windows else METHODS):
            raise AttributionError("attribution_not_known", method=method, methods=known)
    found, reference = (_sequences if windows else _sentences)(checkpoint, arguments)
    summary = arguments.out.with_suffix(".json")
    if arguments.methods and summary.is_file():
        found = updated(read(summary), found, arguments.methods)
    saved(found, summary)
    for method, fare in sorted(found.fares.items(), key=lambda pair: -pair[1].area):
        share = f"{fare.share:7.1%} of {reference}"
        sys.stdout.write(f"{method:24} area {fare.area:7.3f} nats {share}, rank correlation {fare.spearman:.3f}\n")
    return 0


def _sentences(checkpoint: Checkpoint, arguments: argparse.Namespace) -> tuple[Faithfulness, str]:
    """Lines that a model translates, or that are walked through beside their targets."""
    sources = read_lines(arguments.source)
    targets = None if arguments.target is None else read_lines(arguments.target)
    if targets is not None and len(sources) != len(targets):
        files = {"source": str(arguments.source), "reference": str(arguments.target)}
        raise InputError("lines_differ", **files, source_lines=len(sources), reference_lines=len(targets))
    if not sources:
        raise InputError("file_without_lines", file=str(arguments.source))
    numbers = _spread(len(sources), arguments.rows)
    with _bar(arguments, len(numbers), "sentence") as bar:
        failed = measure(
            checkpoint, sources, targets, arguments.out, numbers, arguments.methods,
            lambda done, _: bar.update(done - bar.n),
        )  # fmt: skip
    _say_failed(failed, len(numbers))
    return summarised(arguments.out, own_target=targets is None), "deletion"


def _sequences(checkpoint: Checkpoint, arguments: argparse.Namespace) -> tuple[Faithfulness, str]:
    """Rows that a classifier reads; of each the class that it finds is asked."""
    if arguments.target is not None:
        raise InputError("classifier_walks_no_target", name=checkpoint.name)
    rows = [one.sequence for one in labelled_rows(arguments.source)[0]]
    numbers = _spread(len(rows), arguments.rows)
    with _bar(arguments, len(numbers), "sequence") as bar:
        failed = measure_sequences(
            checkpoint, rows, arguments.out, numbers, arguments.methods, lambda done, _: bar.update(done - bar.n)
        )
    _say_failed(failed, len(numbers))
    return summarised(arguments.out, own_target=True, reference=MUTATIONS), MUTATIONS


def _spread(lines: int, count: int | None) -> list[int]:
    """The numbers of `count` lines at even distances, or of all of them."""
    count = lines if count is None else min(count, lines)
    return [i * lines // count for i in range(count)]


def _bar(arguments: argparse.Namespace, total: int, unit: str) -> "tqdm[None]":
    return tqdm(total=total, unit=unit, disable=arguments.quiet, mininterval=1.0)


def _say_failed(failed: int, total: int) -> None:
    if failed:
        sys.stderr.write(f"{failed} of {total} lines could not be run: they are empty, too short or too long\n")
