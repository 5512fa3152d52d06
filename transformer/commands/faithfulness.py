"""`faithfulness`: how far each method of attribution can be trusted, over a corpus."""

import argparse
import sys
from pathlib import Path

import torch
from tqdm import tqdm

from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.errors import InputError
from transformer.runs.faithfulness import SUMMARY, measure, saved, summarised
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
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="a model that translates")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="a sentence a line")
    parser.add_argument(
        "--target", type=Path, metavar="FILE", help="what to walk through, line by line (default: what it writes)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("faithfulness.csv"), metavar="FILE", help="the table (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.add_argument("--quiet", action="store_true", help="draw no progress bar on stderr")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, then print the summary; the table grows a sentence at a time."""
    sources = read_lines(arguments.source)
    targets = None if arguments.target is None else read_lines(arguments.target)
    if targets is not None and len(sources) != len(targets):
        files = {"source": str(arguments.source), "reference": str(arguments.target)}
        raise InputError("lines_differ", **files, source_lines=len(sources), reference_lines=len(targets))
    if not sources:
        raise InputError("file_without_lines", file=str(arguments.source))
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise InputError("threads_too_few", threads=arguments.threads)
        torch.set_num_threads(arguments.threads)
    checkpoint = load(arguments.checkpoint)
    with tqdm(total=len(sources), unit="sentence", disable=arguments.quiet, mininterval=1.0) as bar:
        failed = measure(checkpoint, sources, targets, arguments.out, lambda done, _: bar.update(done - bar.n))
    found = summarised(arguments.out, own_target=targets is None)
    saved(found, arguments.out.with_suffix(".json"))
    if failed:
        sys.stderr.write(f"{failed} of {len(sources)} lines could not be run: they are empty or too long\n")
    for method, fare in sorted(found.fares.items(), key=lambda pair: -pair[1].area):
        share = f"{fare.share:7.1%} of deletion"
        sys.stdout.write(f"{method:24} area {fare.area:7.3f} nats {share}, rank correlation {fare.spearman:.3f}\n")
    return 0
