"""`atlas`: what every head of a checkpoint does over a whole corpus."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from transformer.commands.arguments import Commands, add_checkpoint, add_command, add_quiet
from transformer.errors import AtlasError
from transformer.messages import Message
from transformer.runs.memory import recycle_memory

DESCRIPTION = """Run a checkpoint over a whole corpus and write what every head does there: heads.parquet,
words.parquet, pairs.parquet, examples.parquet and run.json, which pandas and any text editor read.

References (--target) are forced on a model that translates; without them it writes greedily first. The same command
goes on where it was stopped (Ctrl-C, a full disk, a lost machine). However many workers there are, and whichever of
them die, the files are the same to the byte on machines of one kind."""


def register(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = add_command(commands, "atlas", run, "measure what every head does over a whole corpus", DESCRIPTION)
    add_checkpoint(parser, "folder or file of a model; FOLDER@000400 is a snapshot of its training")
    read = parser.add_mutually_exclusive_group(required=True)
    read.add_argument("--source", type=Path, metavar="FILE", help="text to read, a sentence a line")
    read.add_argument("--sequences", type=Path, metavar="FILE", help="FASTA, plain or .gz, for a sequence classifier")
    parser.add_argument("--target", type=Path, metavar="FILE", help="its translation, line by line")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write, new or of this run")
    parser.add_argument(
        "--examples", type=Path, metavar="FILE",
        help="take the example sentences from this text (or FASTA), and not from the corpus",
    )  # fmt: skip
    parser.add_argument(
        "--links", type=Path, metavar="FOLDER",
        help="sentences.SOURCE, sentences.TARGET and links.txt: adds alignment error rates to heads.parquet",
    )  # fmt: skip
    parser.add_argument(
        "--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"), help="endings in that folder"
    )
    parser.add_argument("--no-texts", action="store_true", help="name examples by their line alone, and keep no text")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=_count, default=1, metavar="N", help="processes of this machine (default: 1)")
    where.add_argument("--scheduler", metavar="ADDRESS", help="use the Dask cluster at this address: tcp://HOST:PORT")
    add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the atlas, or go on with it; what has to be known of it goes to stderr."""
    try:
        import pyarrow  # noqa: F401  (an extra of the library, which reading and running do not need)
    except ImportError as error:
        raise AtlasError("atlas_no_pyarrow") from error
    from transformer.atlas.corpus import Corpus
    from transformer.atlas.executors import executor_of
    from transformer.atlas.run import Links, Request, make_atlas

    recycle_memory()
    fasta = arguments.sequences is not None
    request = Request(
        arguments.checkpoint,
        Corpus(arguments.sequences if fasta else arguments.source, arguments.target, fasta),
        arguments.out,
        None if arguments.examples is None else Corpus(arguments.examples, fasta=fasta),
        not arguments.no_texts,
        links=None if arguments.links is None else Links(arguments.links, *arguments.languages),
    )
    with tqdm(unit="line", disable=True if arguments.quiet else None, smoothing=0.1, mininterval=0.5) as bar:
        found = make_atlas(request, executor_of(arguments.workers, arguments.scheduler), _shown_on(bar))
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


def _shown_on(bar: "tqdm[object]") -> Callable[[int, int], None]:
    """Progress that a bar shows, with its rate and the time left; what was done before does not count as fast."""

    def show(done: int, total: int) -> None:
        if bar.total is None:
            bar.total = total
            bar.initial = bar.n = done
            bar.refresh()
        else:
            bar.update(done - bar.n)

    return show


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 1_024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: give 1 to 1024")
    return int(text)
