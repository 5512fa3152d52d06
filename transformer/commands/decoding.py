"""What `translate` and `evaluate` share: a checkpoint that translates, and how to decode."""

import argparse
from collections.abc import Sequence

import torch

from transformer.checkpoint import load
from transformer.commands.paths import checkpoint_path
from transformer.decoding.search import DecodingOptions
from transformer.errors import InputError
from transformer.runs.corpus import TranslatedLine, translate_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The checkpoint and the decoding options."""
    usual = DecodingOptions()
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", type=checkpoint_path, help="folder or file of a model that translates"
    )
    parser.add_argument(
        "--beam", type=int, default=usual.beam, help="hypotheses kept; 1 is greedy (default: %(default)s)"
    )
    parser.add_argument(
        "--length-penalty", type=float, default=usual.length_penalty, metavar="POWER",
        help="scores are divided by length to this power; 0 prefers short ones (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--max-length", type=int, default=usual.max_length, metavar="TOKENS",
        help="longest translation (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.add_argument("--quiet", action="store_true", help="draw no progress bar on stderr")


def decoding_options(arguments: argparse.Namespace) -> DecodingOptions:
    """The options that were asked for.

    Raises:
        InputError: one is out of range.
    """
    return DecodingOptions(arguments.beam, arguments.length_penalty, arguments.max_length)


def translated(arguments: argparse.Namespace, lines: Sequence[str]) -> list[TranslatedLine]:
    """Each line through the checkpoint that was asked for.

    Raises:
        InputError: an option is out of range.
        CheckpointError: the checkpoint cannot be read, or does not translate text.
    """
    options = decoding_options(arguments)
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise InputError("threads_too_few", threads=arguments.threads)
        torch.set_num_threads(arguments.threads)
    checkpoint = load(arguments.checkpoint)
    model, reader, writer = checkpoint.translator()
    return translate_lines(model, reader, lines, options, progress=not arguments.quiet, writer=writer)
