"""`inspect`: what a checkpoint is taken for and holds; or what changed between two."""

import argparse
import sys
from pathlib import Path

from transformer.checkpoint import report
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.inspect.compare import compare
from transformer.checkpoint.inspect.tensors import inspect
from transformer.checkpoint.ours.folder import is_folder
from transformer.commands import answers
from transformer.commands.paths import checkpoint_path


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "inspect",
        help="look into a checkpoint without running it",
        description="Say which layout a checkpoint has and what is asked of it, and list its tensors. Nothing is run.",
    )
    parser.add_argument(
        "checkpoint", type=checkpoint_path, metavar="FILE", help="a file of weights, or a folder that holds them"
    )
    parser.add_argument(
        "--against", type=checkpoint_path, metavar="OTHER", help="list what moved from FILE to OTHER instead"
    )
    answers.add_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the report and the tree to stdout; 1 when the file fits no layout, else 0."""
    path: Path = arguments.checkpoint
    if arguments.against is not None:
        sys.stdout.write(compare(path, arguments.against).text + "\n")
        return 0
    if is_folder(path):
        sys.stdout.write(inspect(path).text + "\n")
        return 0
    found = report(path, **answers.answers(arguments))
    asked = [f"  {question.name}: {question.text}{_options(question)}" for question in found.questions]
    heading = ["Questions that --answer answers:"] if asked else []
    sys.stdout.write("\n".join([found.text, *heading, *asked, "", inspect(path).text]) + "\n")
    return 0 if found.fits else 1


def _options(question: Question) -> str:
    return f" One of {', '.join(map(str, question.options))}." if question.options else ""
