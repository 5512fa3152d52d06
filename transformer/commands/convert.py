"""`convert`: a checkpoint of any known layout becomes a folder of ours, which needs no more answers."""

import argparse
import sys

from transformer.checkpoint.ours.convert import convert
from transformer.commands import answers
from transformer.commands.paths import checkpoint_path


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "convert",
        help="write a checkpoint of any known layout as safetensors with a config",
        description="Recognise a checkpoint and write it as a folder: model.safetensors, config.json and CARD.md.",
    )
    parser.add_argument(
        "checkpoint", type=checkpoint_path, metavar="FILE", help="a file of weights, or a folder that holds them"
    )
    parser.add_argument(
        "out", type=checkpoint_path, metavar="OUT", help="the folder to write; it must not hold anything yet"
    )
    parser.add_argument("--half", action="store_true", help="store float16 (half the size, fewer digits)")
    answers.add_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the folder; what was assumed goes to stderr."""
    checkpoint = convert(arguments.checkpoint, arguments.out, half=arguments.half, **answers.answers(arguments))
    sys.stderr.writelines(f"note: {assumption}\n" for assumption in checkpoint.assumptions)
    sys.stdout.write(f"{arguments.out}: {checkpoint.n_parameters:,} parameters\n")
    return 0
