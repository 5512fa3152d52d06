"""`inspect`: what a checkpoint is taken for and holds; or what changed between two."""

import argparse
import sys
import time
from pathlib import Path

from transformer.checkpoint import report
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.inspect.compare import compare
from transformer.checkpoint.inspect.tensors import inspect
from transformer.checkpoint.ours.folder import is_folder
from transformer.checkpoint.safe.limits import MEGABYTE
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
    """Write the report and the tree to stdout, and to stderr what it took; 1 when the file fits no layout, else 0."""
    began = time.perf_counter()
    status = _looked(arguments)
    peak = _peak_bytes()
    memory = "" if peak is None else f", at most {peak / MEGABYTE:,.0f} MB of memory in all"
    sys.stderr.write(f"took {time.perf_counter() - began:.1f} s{memory}\n")
    return status


def _looked(arguments: argparse.Namespace) -> int:
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


def _peak_bytes() -> int | None:
    """The most memory that this process has had, as far as the system says so (Linux)."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    lines = (line.split() for line in status.read_text(encoding="utf-8").splitlines())
    return next((1024 * int(line[1]) for line in lines if line[:1] == ["VmHWM:"]), None)


def _options(question: Question) -> str:
    return f" One of {', '.join(map(str, question.options))}." if question.options else ""
