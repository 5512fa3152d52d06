"""`atlas`: what every head of a checkpoint does over a whole corpus."""

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from ..messages import Message
from ..runs.memory import recycle_memory
from . import QUIET, Command, checkpoint

DESCRIPTION = """Run a checkpoint over a whole corpus and write what every head does there: heads.parquet,
words.parquet, pairs.parquet, examples.parquet and run.json, which pandas and any text editor read.

References (--target) are forced on a model that translates; without them it writes greedily first. The files are the
same to the byte on machines of one kind."""


def run(arguments: argparse.Namespace) -> int:
    """Make the atlas; what has to be known of it goes to stderr."""
    from ..atlas.corpus import Corpus
    from ..atlas.run import make_atlas

    recycle_memory()
    fasta = arguments.sequences is not None
    corpus = Corpus(arguments.sequences if fasta else arguments.source, arguments.target, fasta)
    examples = None if arguments.examples is None else Corpus(arguments.examples, fasta=fasta)
    with tqdm(unit="line", disable=True if arguments.quiet else None, smoothing=0.1, mininterval=0.5) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        found = make_atlas(arguments.checkpoint, corpus, arguments.out, examples=examples, progress=progress)
    for note in found["notes"]:
        said = Message(f"atlas_note_{note['code']}", **note["fields"])
        sys.stderr.write(f"note: {said}\n")
    if found["counts"]["skipped"]:
        first = found["skipped_lines"][0]
        skipped = Message("atlas_note_skipped", count=found["counts"]["skipped"], **first)
        sys.stderr.write(f"note: {skipped}\n")
    count = found["counts"]["sentences"]
    said = Message("atlas_done_sequences" if fasta else "atlas_done", folder=str(arguments.out), count=count)
    sys.stdout.write(f"{said}\n")
    return 0


_ARGUMENTS = checkpoint("folder or file of a model; FOLDER@000400 is a snapshot of its training") | {
    "--source": dict(type=Path, metavar="FILE", help="text to read, a sentence a line"),
    "--sequences": dict(type=Path, metavar="FILE", help="FASTA, plain or .gz, for a sequence classifier"),
    "--target": dict(type=Path, metavar="FILE", help="its translation, line by line"),
    "--out": dict(type=Path, required=True, metavar="DIR", help="folder to write, new or empty"),
    "--examples": dict(type=Path, metavar="FILE", help="example sentences come from this text, not from the corpus"),
    **QUIET,
}
_MEANING, _EITHER = "measure what every head does over a whole corpus", ("--source", "--sequences")
COMMANDS = (Command("atlas", run, _MEANING, _ARGUMENTS, DESCRIPTION, _EITHER),)
