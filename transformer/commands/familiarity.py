"""`familiarity`: from where on an input is far from what a checkpoint was trained on."""

import argparse
import sys
from pathlib import Path

import torch

from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.messages import LANGUAGES
from transformer.runs.out_of_distribution import FILE, measured, write_bounds
from transformer.tokens.lines import read_lines


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "familiarity",
        help="measure from where on an input is far from what a checkpoint was trained on",
        description=(
            "Translate held-out sentences of the kind that the checkpoint was trained on, and keep bounds of three "
            f"counts: words, pieces a word, log-probability a token. Writes {FILE} into the checkpoint's folder."
        ),
    )
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="folder of a model that translates"
    )
    parser.add_argument("--held-out", type=Path, required=True, metavar="FILE", help="held-out sentences, one a line")
    for code in LANGUAGES:
        parser.add_argument(
            f"--texts-{code}", required=True, metavar="TEXT", help=f"what such texts are called ({code})"
        )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, write, and say what came out."""
    torch.set_num_threads(1)
    checkpoint = load(arguments.checkpoint)
    texts = {code: str(getattr(arguments, f"texts_{code}")) for code in LANGUAGES}
    found = measured(checkpoint, read_lines(arguments.held_out), texts)
    write_bounds(arguments.checkpoint / FILE, found)
    sys.stdout.write(
        f"{found.sentences} sentences: far is under {found.words} words, over {found.pieces_per_word} pieces a word, "
        f"or under {found.log_prob_per_token} nats a token; {found.false_alarms:.1%} false alarms\n"
    )
    return 0
