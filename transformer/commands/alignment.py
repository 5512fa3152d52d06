"""`alignment`: alignment error rates of every head, layer and method, against links that people drew."""

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from transformer.attribution.gold import gold_alignments
from transformer.attribution.methods import METHODS
from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.errors import AttributionError, InputError
from transformer.runs.alignment_error import SUMMARY, alignment_errors, read, saved


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "alignment",
        help="alignment error rates of every head, layer and method of a translator",
        description="Walk through sentence pairs whose words people have linked, and count how often the largest value "
        f"of each row stands on a link. The counts (JSON) are laid beside a checkpoint as {SUMMARY}.",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="a model that translates")
    parser.add_argument(
        "--links", type=Path, required=True, metavar="FOLDER", help="sentences.SOURCE, sentences.TARGET and links.txt"
    )
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"), help="endings")
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME",
        help="measure these methods alone; a file of counts that is there keeps those of others (default: all)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE", help="the counts as JSON")
    parser.add_argument("--quiet", action="store_true", help="draw no progress bar on stderr")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Count, write the counts, and print the rates, the best first."""
    gold = gold_alignments(arguments.links, *arguments.languages)
    for method in arguments.methods or ():
        if method not in METHODS:
            raise AttributionError("attribution_not_known", method=method, methods=METHODS)
    checkpoint = load(arguments.checkpoint)
    with tqdm(total=len(gold), unit="sentence", disable=arguments.quiet, mininterval=1.0) as bar:
        rates = alignment_errors(checkpoint, gold, lambda done, _: bar.update(done - bar.n), arguments.methods)
    if arguments.out is not None:
        if arguments.methods and arguments.out.is_file():
            sentences, before = read(arguments.out)
            if sentences != len(gold):
                raise InputError("alignment_other_pairs", file=str(arguments.out), found=sentences, given=len(gold))
            rates = before | rates
        saved(len(gold), rates, arguments.out)
    for name, rows in sorted(rates.items(), key=lambda pair: min(one.error_rate for one in pair[1].values())):
        written, reads = rows["written"].error_rate, rows["read"].error_rate
        sys.stdout.write(f"{name:24} row that writes {written:6.1%}, row that reads {reads:6.1%}\n")
    return 0
