"""`measure`: what is known of a checkpoint over a corpus, kept beside its weights, where the dashboard finds it."""

import argparse
import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tqdm import tqdm

from ..attention.interventions.value import MEANS_FILE
from ..checkpoint import Checkpoint, load
from ..checkpoint.ours.folder import load_snapshot, snapshots
from ..errors import InputError
from ..nn.seq2seq import Seq2Seq
from ..runs.corpus import mean_loss, means_of_pairs, means_of_sequences, tokenised
from ..runs.measures import faithfulness, head_agreement, held_out, importance
from ..runs.measures.files import MeasureFile
from ..runs.sequences.classify import read
from ..sequences.fasta import FastaRecord, read_fasta
from ..sequences.table import read_rows
from ..text.base import both_sides, read_lines
from . import PACE, Command, set_threads
from . import checkpoint as checkpoint_argument

Bar = Callable[[Any], Any]
"""Draws how far the work at an iterable is."""

OPTIONS: dict[str, dict[str, Any]] = {
    "source": dict(type=Path, metavar="FILE", help="a sentence a line; of a sequence classifier FASTA"),
    "target": dict(type=Path, metavar="FILE", help="its translation, line by line"),
    "table": dict(type=Path, metavar="FILE", help="a table with the columns id, sequence, label, divided by tabs"),
    "size": dict(type=int, metavar="N", help="so many lines, evenly spread over the file (default: all)"),
    "name": dict(nargs="+", metavar="TEXT", help="what the data are called (default: their file's name)"),
    "every": dict(type=int, default=1, metavar="K", help="one in K written words, for every method (default: all)"),
    "snapshots": dict(action="store_true", help="measure the snapshots of its training as well"),
}
"""Every option that some kind of measure takes."""


@dataclass(frozen=True)
class MeasureKind:
    """One kind of measure: the file that it writes, what it measures, and the options that it needs and takes."""

    file: MeasureFile[Any] | SimpleNamespace
    meaning: str
    measured: Callable[[Checkpoint, argparse.Namespace, Bar], Any]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def run(name: str, arguments: argparse.Namespace) -> int:
    """Measure, write, and print where."""
    set_threads(arguments)
    checkpoint, kind = load(arguments.checkpoint), KINDS[name]
    if checkpoint.folder is None and arguments.out is None:
        raise InputError("measure_needs_a_folder", name=checkpoint.name)
    out = arguments.out or (checkpoint.folder or Path()) / kind.file.name
    bar = partial(tqdm, unit="step", disable=arguments.quiet, mininterval=1.0)
    kind.file.write(out, kind.measured(checkpoint, arguments, bar))
    sys.stdout.write(f"{out}\n")
    return 0


def _heads(checkpoint: Checkpoint, given: argparse.Namespace, bar: Bar) -> Any:
    if given.source is None:
        return head_agreement.head_agreement(checkpoint)
    return head_agreement.head_agreement(checkpoint, bar(_spread(read_lines(given.source), given.size)), _name(given))


def _held_out(checkpoint: Checkpoint, given: argparse.Namespace, _: Bar) -> Any:
    rows = read_rows(given.table)
    records = [FastaRecord(row["id"], "", row["sequence"]) for row in rows]
    return held_out.measured(checkpoint, records, [row["label"] for row in rows], _name(given))


def _means(checkpoint: Checkpoint, given: argparse.Namespace, _: Bar) -> Any:
    name = _name(given)
    if checkpoint.model.abilities.reads_windows:
        return means_of_sequences(checkpoint.model, _sequence_batches(checkpoint, given.source, given.size), name)
    if given.target is None:
        raise InputError("reference_needed")
    pairs = tokenised(checkpoint, *(_spread(side, given.size) for side in both_sides(given.source, given.target)))
    return means_of_pairs(checkpoint.model, pairs, name)


def _sequence_batches(checkpoint: Checkpoint, fasta: Path, size: int | None) -> list[torch.Tensor]:
    """The first sequences of a file, in batches of one length."""
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    with fasta.open("rb") as file:
        for record in itertools.islice(read_fasta(file), size):
            ids = read(checkpoint, record.sequence).ids
            by_length[len(ids)].append(ids)
    if not by_length:
        raise InputError("file_without_lines", file=str(fasta))
    return [torch.tensor(rows[start : start + 16]) for rows in by_length.values() for start in range(0, len(rows), 16)]


def _name(given: argparse.Namespace) -> str:
    """What the data are called that were given."""
    return " ".join(given.name or [(getattr(given, "source", None) or given.table).name])


def _at_least_one(option: str, value: int) -> None:
    if value < 1:
        raise InputError("set_without_size", option=option, size=value)


def _spread(lines: Sequence[Any], size: int | None) -> list[Any]:
    """So many lines of a text, evenly spread over it; all by default.

    Raises:
        InputError: none are asked for.
    """
    if size is not None:
        _at_least_one("size", size)
    count = len(lines) if size is None else min(size, len(lines))
    return [lines[i * len(lines) // count] for i in range(count)]


def _faithfulness(checkpoint: Checkpoint, given: argparse.Namespace, bar: Bar) -> Any:
    _at_least_one("every", given.every)
    sources = read_lines(given.source)
    targets: Sequence[Any] = [None] * len(sources)
    if given.target is not None:
        sources, targets = both_sides(given.source, given.target)
    if not sources:
        raise InputError("file_without_lines", file=str(given.source))
    pairs = list(zip(_spread(sources, given.size), _spread(targets, given.size), strict=True))
    found, failed = faithfulness.measured(checkpoint, bar(pairs), _name(given), given.every)
    if failed:
        sys.stderr.write(f"{failed} of {len(pairs)} lines could not be run: they are empty, too short or too long\n")
    return found


def _importance(checkpoint: Checkpoint, given: argparse.Namespace, bar: Bar) -> Any:
    checkpoint.model_as(Seq2Seq)
    source, target = both_sides(given.source, given.target)
    pairs = tokenised(checkpoint, source, target)
    every = {importance.WHOLE: checkpoint}
    if given.snapshots and checkpoint.folder is not None:
        every |= {one.name: load_snapshot(checkpoint, one.path) for one in snapshots(checkpoint.folder)}
    about = importance.CorpusInfo(
        given.source.name, given.target.name, pairs.size, pairs.left_out,
        "" if checkpoint.means is None else checkpoint.means.reference, {},
    )  # fmt: skip
    found = importance.Importance(about, {}, {})
    for name, one in every.items():
        whole, gradients = name == importance.WHOLE, importance.gradient_importance(one, pairs)
        off = importance.each_head_off(one, pairs, bar(importance.heads_of(one.model))) if whole else {}
        heads = tuple(
            importance.HeadImportance(site, head, *off.get((site, head), (math.nan, math.nan)), gradients[site, head])
            for site, head in importance.heads_of(one.model)
        )
        plans = importance.plans_of(heads, whole)
        about.nll[name], found.heads[name] = mean_loss(one, pairs), heads
        found.removals[name] = tuple(bar(importance.removals(one, pairs, source, target, plans, whole)))
    return found


MEANS = SimpleNamespace(name=MEANS_FILE, write=lambda path, found: path.write_text(found.to_json(), encoding="utf-8"))

KINDS = {
    "heads": MeasureKind(
        head_agreement.FILE,
        "Which heads look at the word that decides the translation. For each written word, the source word whose "
        "removal lowers its probability most; how often each cross-attention head looks there. Give at least 200 "
        "held-out sentences: without --source it is measured on the checkpoint's examples.",
        _heads, (), ("source", "size", "name"),
    ),
    "held-out": MeasureKind(
        held_out.FILE,
        "A classifier's thresholds on held-out rows. For each class and threshold the share found and the share called "
        "falsely.", _held_out, ("table",), ("name",),
    ),
    "means": MeasureKind(
        MEANS,
        "Mean output of every head over a reference set. Interventions that switch a head off by its mean take it from "
        "there. A translator reads --source and --target, teacher forced; a sequence classifier --source as FASTA.",
        _means, ("source",), ("target", "size", "name"),
    ),
    "importance": MeasureKind(
        importance.FILE,
        "Which heads of a translator matter. For each head by how much the mean NLL of a token (nats) rises when it is "
        "off (zero; its mean output: see means), and its gradient importance (Michel et al. 2019, in the token version "
        "of their code). Then NLL and greedy BLEU with 0, 10 ... 90 percent of the heads off (zero): the least "
        "important first by gradient and by zeroing, by type of attention, and in three random orders. The orders are "
        "found on the pairs on which they are judged, which flatters them.",
        _importance, ("source", "target"), ("snapshots",),
    ),
    "faithfulness": MeasureKind(
        faithfulness.FILE,
        "How far each method of attribution can be trusted. Takes the source words away that each method names first, "
        "and those alone leave in, and keeps what the written words lose (nats). Every method is measured on the same "
        "words: --every takes one in so many, and integrated gradients, by far the slowest, cost that much less.",
        _faithfulness, ("source",), ("target", "size", "every", "name"),
    ),
}  # fmt: skip
"""Every kind of measure by name."""

COMMANDS = tuple(
    Command(
        f"measure {name}", partial(run, name), kind.meaning.partition(".")[0],
        checkpoint_argument("folder of a checkpoint")
        | {f"--{one}": dict(required=one in kind.needs, **OPTIONS[one]) for one in (*kind.needs, *kind.takes)}
        | {"--out": dict(type=Path, metavar="FILE", help=f"default: CHECKPOINT/{kind.file.name}"), **PACE},
        f"{kind.meaning} Kept in {kind.file.name}.",
    )
    for name, kind in KINDS.items()
)  # fmt: skip
