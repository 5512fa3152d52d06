"""`means`: the mean output of every head over a reference set, written into the checkpoint's folder."""

import argparse
import itertools
import sys
from collections import defaultdict

import torch

from transformer.checkpoint import Checkpoint, load
from transformer.commands.pairs import add_pairs, both_sides
from transformer.errors import InputError
from transformer.interventions.means import FILE, Means
from transformer.models.kmer import KmerClassifier
from transformer.runs.mean_outputs import means_of_pairs, means_of_sequences
from transformer.runs.sequences.classify import read
from transformer.runs.teacher_forcing import tokenised
from transformer.sequences.fasta import read_fasta

DESCRIPTION = """Write means.json into a checkpoint's folder: for each attention and head the mean of its output over a
reference set. Interventions that switch a head off by its mean take it from there.

A translator reads --source and --reference, teacher forced; a sequence classifier reads --source as FASTA."""

REFERENCE_SIZE = 1_000


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "means",
        help="mean head outputs of a checkpoint over a reference set",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_pairs(parser, reference_needed=False)
    parser.add_argument(
        "--size", type=int, default=REFERENCE_SIZE, metavar="N", help="how many are read (default: %(default)s)"
    )
    parser.add_argument("--name", metavar="TEXT", help="what the set is called (default: the file's name)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the file; its path goes to stdout."""
    if arguments.size < 1:
        raise InputError("set_without_size", size=arguments.size)
    checkpoint = load(arguments.checkpoint)
    if checkpoint.folder is None:
        raise InputError("means_need_a_folder", name=checkpoint.name)
    name = arguments.name or arguments.source.name
    means = _of_sequences(checkpoint, arguments, name)
    if means is None:
        source, reference = both_sides(arguments)
        pairs = tokenised(checkpoint, source[: arguments.size], reference[: arguments.size])
        means = means_of_pairs(checkpoint.model, pairs, name)
    file = checkpoint.folder / FILE
    file.write_text(means.to_json(), encoding="utf-8")
    sys.stdout.write(f"{file}\n")
    return 0


def _of_sequences(checkpoint: Checkpoint, arguments: argparse.Namespace, name: str) -> Means | None:
    """Means of a sequence classifier; None where the checkpoint is something else."""
    if not isinstance(checkpoint.model, KmerClassifier):
        return None
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    with arguments.source.open("rb") as file:
        for record in itertools.islice(read_fasta(file), arguments.size):
            ids = read(checkpoint, record.sequence).ids
            by_length[len(ids)].append(ids)
    batches = [
        torch.tensor(rows[start : start + 16]) for rows in by_length.values() for start in range(0, len(rows), 16)
    ]
    if not batches:
        raise InputError("file_without_lines", file=str(arguments.source))
    return means_of_sequences(checkpoint.model, batches, name)
