"""Files of weights and of records: `inspect`, `convert`, `check` and `record`."""

import argparse
import re
import sys
from pathlib import Path

from ..attention.record import Record
from ..attention.record_files import is_record
from ..checkpoint import load, report
from ..checkpoint.foreign.report import Question
from ..checkpoint.inspect import inspect as look_into
from ..checkpoint.load import convert as write_folder
from ..checkpoint.ours.folder import is_folder
from ..errors import InputError
from ..runs.check import check_file
from ..safe.contents import shape_text
from . import Command, checkpoint_path

CHECK = """Prove that a checkpoint is read right: run it on the ids in EXPECTED, and compare.

EXPECTED is an .npz or .safetensors with what the original made of a few ids: `input` (or `source` and `target`), and
any of its attention maps (`encoder.0.self`: batch x head x query x key, or averaged over heads) and outputs
(`log_probs`, `logits`, `hidden`); `recording(module)` writes one: `seen.expected("expected.npz", inputs=ids)`. Writes a
table in the order in which the model runs; the exit status is 1 where something differs."""

_NUMBER = re.compile(r"-?(\d+\.\d*|\.\d+|\d+(?=e))(e[-+]?\d{1,3})?", re.ASCII | re.IGNORECASE)
"""A real number with a point or an exponent: `0.5`, `1e-6`."""

MOST_LETTERS = 1_000
"""Of a text of a record file, so many characters are printed."""


def inspect(arguments: argparse.Namespace) -> int:
    """Write the report and the tensors; 1 when the file fits no layout, else 0."""
    path: Path = arguments.checkpoint
    if is_record(path.name):
        raise InputError("inspect_record", path=str(path))
    if is_folder(path):
        sys.stdout.write(look_into(path).text + "\n")
        return 0
    found = report(path, **dict(arguments.answer))
    asked = [f"  {question.name}: {question.text}{_options(question)}" for question in found.questions]
    heading = ["Questions that --answer answers:"] if asked else []
    sys.stdout.write("\n".join([found.text, *heading, *asked, "", look_into(path).text]) + "\n")
    return 0 if found.fits else 1


def _options(question: Question) -> str:
    return f" One of {', '.join(map(str, question.options))}." if question.options else ""


def convert(arguments: argparse.Namespace) -> int:
    """Write the folder; what was assumed goes to stderr."""
    checkpoint = write_folder(arguments.checkpoint, arguments.out, half=arguments.half, **dict(arguments.answer))
    sys.stderr.writelines(f"note: {assumption}\n" for assumption in checkpoint.assumptions)
    sys.stdout.write(f"{arguments.out}: {checkpoint.n_parameters:,} parameters\n")
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Write the table and the verdict; 1 when something differs, else 0."""
    if arguments.expected.suffix not in {".npz", ".safetensors"}:
        raise InputError("check_expected", path=str(arguments.expected))
    checkpoint = load(arguments.checkpoint, **dict(arguments.answer))
    sys.stderr.writelines(f"note: {assumption}\n" for assumption in checkpoint.assumptions)
    found = check_file(checkpoint, arguments.expected, tolerance=arguments.tolerance)
    sys.stderr.writelines(f"note: {name} is not of this model, and was not compared\n" for name in found.other)
    rows = [("array", "shape", "largest difference", "rows that see nothing", "agrees")]
    rows += [
        (one.title, shape_text(one.shape), f"{one.largest:.3g}", str(one.unseen), "yes" if one.agrees else "no")
        for one in found.differences
    ]
    sys.stdout.writelines("\t".join(row) + "\n" for row in rows)
    sys.stdout.write(f"{found.verdict}\n")
    return 0 if found.agrees else 1


def record(arguments: argparse.Namespace) -> int:
    """Read, measure, print."""
    found = Record.open(arguments.file)
    table = found.measures()
    said = (("model", found.model), ("text", found.text), *(("note", note) for note in found.notes))
    lines = [f"{name}: {_printable(text)}" for name, text in said if text]
    sys.stdout.write("\n".join([*lines, table.to_string(index=False, na_rep="-", float_format="%.3f")]) + "\n")
    return 0


def _printable(text: str) -> str:
    """The beginning of an untrusted text, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:MOST_LETTERS])


def _pair(text: str) -> tuple[str, int | float | bool | str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    if value.lower() in {"true", "false"}:
        return name, value.lower() == "true"
    if value.removeprefix("-").isdecimal():
        return name, int(value)
    return name, float(value) if _NUMBER.fullmatch(value) else value


_FILE = {
    "checkpoint": dict(type=checkpoint_path, metavar="FILE", help="a file of weights, or a folder that holds them"),
    "--answer": dict(
        action="append", default=[], type=_pair, metavar="NAME=VALUE",
        help="answer to a question about the file, such as n_heads=8, norm_eps=1e-6 or norm_first=true; repeatable",
    ),
}  # fmt: skip
COMMANDS = (
    Command(
        "inspect", inspect, "look into a checkpoint without running it", _FILE,
        "Say which layout a checkpoint has and what is asked of it, and list its tensors. Nothing is run.",
    ),
    Command(
        "convert", convert, "write a checkpoint of any known layout as safetensors with a config",
        _FILE | {
            "out": dict(type=checkpoint_path, metavar="OUT", help="folder to write; it must not hold anything yet"),
            "--half": dict(action="store_true", help="store float16 (half the size, fewer digits)"),
        },
        "Recognise a checkpoint and write it as a folder: model.safetensors, config.json and CARD.md.",
    ),
    Command(
        "check", check, "compare what a checkpoint computes with what its original computed",
        _FILE | {
            "expected": dict(type=Path, metavar="EXPECTED", help="ids, and what the original made of them"),
            "--tolerance": dict(type=float, metavar="X", help="how far two numbers may lie from each other"),
        },
        CHECK,
    ),
    Command(
        "record", record, "list the heads of a record file, with their measures",
        {"file": dict(type=Path, metavar="FILE", help="a record file (.heedmap)")},
        "List the sites of a file that record.save wrote, and measure every head: entropy, confidence,\n"
        "shares of the previous, same and next token. Nothing is run.",
    ),
)  # fmt: skip
