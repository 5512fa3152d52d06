"""`interactions`: heads that replace one another on a sentence: off alone nothing, off together much."""

import argparse
import sys

import torch
from tqdm import tqdm

from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.decoding.search import DecodingOptions
from transformer.errors import InputError
from transformer.figures.export import table_csv
from transformer.runs.translate import translate
from transformer.runs.what_if import interactions

DESCRIPTION = """Takes the heads that alone change the log-probability of the written translation by less than --quiet
nats when they are off, and switches off each two of them together. Writes the pairs whose change goes furthest beyond
the sum of both alone, as CSV: the two heads, each alone, both, and the surplus (nats)."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "interactions",
        help="which heads of a translator replace one another on a sentence",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="folder of a checkpoint")
    parser.add_argument("--text", required=True, metavar="SENTENCE", help="what is translated")
    parser.add_argument(
        "--off",
        choices=("mean", "zero"),
        default="mean",
        help="what a head that is off gives on (default: %(default)s)",
    )
    parser.add_argument(
        "--quiet", type=float, default=0.35, metavar="NATS", help="what a head may change alone (default: %(default)s)"
    )
    parser.add_argument("--most", type=int, default=10, metavar="N", help="so many pairs (default: %(default)s)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure; the table goes to stdout."""
    if not arguments.quiet > 0 or arguments.most < 1:
        raise InputError("interactions_options", quiet=arguments.quiet, most=arguments.most)
    torch.set_num_threads(1)
    checkpoint = load(arguments.checkpoint)
    before = translate(checkpoint, arguments.text, DecodingOptions())
    found = list(tqdm(interactions(checkpoint, before, arguments.off, arguments.quiet), unit="pair"))
    rows = [
        (f"{one.first[0]} H{one.first[1]}", f"{one.second[0]} H{one.second[1]}", *one.alone, one.both, one.surplus)
        for one in sorted(found, key=lambda one: one.surplus)[: arguments.most]
    ]
    sys.stdout.write(table_csv(("first", "second", "first_alone", "second_alone", "both", "surplus"), rows))
    return 0
