"""`measure`: what is known of a checkpoint over a corpus, kept beside its weights, where the dashboard finds it."""

import argparse
import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from tqdm import tqdm

from transformer.attention.interventions import means
from transformer.checkpoint import Checkpoint, load
from transformer.checkpoint.ours.folder import load_snapshot
from transformer.checkpoint.ours.history import snapshots
from transformer.commands.arguments import Commands, add_checkpoint, add_pace, both_sides, set_threads
from transformer.errors import InputError
from transformer.explain.attribution.gold import gold_alignments
from transformer.messages import LANGUAGES
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs.measures import (
    alignment_error,
    faithfulness,
    head_agreement,
    importance,
    out_of_distribution,
)
from transformer.runs.measures.importance import (
    SHARES,
    WHOLE,
    Corpus,
    HeadImportance,
    Importance,
    Removal,
    each_head_off,
    gradient_importance,
    heads_of,
    plans_of,
    removals,
)
from transformer.runs.measures.mean_outputs import means_of_pairs, means_of_sequences
from transformer.runs.measures.pairs import mean_loss, tokenised
from transformer.runs.sequences import held_out
from transformer.runs.sequences.classify import read
from transformer.sequences.fasta import FastaRecord, read_fasta
from transformer.text.lines import read_lines
from transformer.training.classification import read_rows

T = TypeVar("T")

OPTIONS: dict[str, dict[str, Any]] = {
    "source": dict(type=Path, metavar="FILE", help="a sentence a line; of a sequence classifier FASTA"),
    "target": dict(type=Path, metavar="FILE", help="its translation, line by line"),
    "table": dict(type=Path, metavar="FILE", help="a table with the columns id, sequence, label, divided by tabs"),
    "links": dict(type=Path, metavar="FOLDER", help="sentences.SOURCE, sentences.TARGET and links.txt"),
    "languages": dict(nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"), help="endings in that folder"),
    "rows": dict(type=int, metavar="N", help="N lines, evenly spread over the file (default: all)"),
    "size": dict(type=int, default=1_000, metavar="N", help="so many of the first lines (default: %(default)s)"),
    "name": dict(nargs="+", metavar="TEXT", help="what the texts are called"),
    "snapshots": dict(action="store_true", help="measure the snapshots of its training as well"),
}
"""Every option that some kind of measure takes."""


@dataclass(frozen=True)
class Kind:
    """One kind of measure: the file or folder that it writes, what it measures, the options it needs and takes."""

    name: str
    file: str
    meaning: str
    run: Callable[[Checkpoint, argparse.Namespace, Path], Iterable[str]]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def register(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command, with its kinds."""
    kinds = commands.add_parser(
        "measure",
        help="measure a checkpoint over a corpus, and keep the result beside its weights",
    ).add_subparsers(required=True, metavar="KIND")
    for kind in KINDS:
        parser = kinds.add_parser(
            kind.name, help=kind.meaning.partition(".")[0], description=f"{kind.meaning} Kept in {kind.file}."
        )
        add_checkpoint(parser, "folder of a checkpoint")
        for name in (*kind.needs, *kind.takes):
            parser.add_argument(f"--{name}", required=name in kind.needs, **OPTIONS[name])
        parser.add_argument("--out", type=Path, metavar="PATH", help=f"default: CHECKPOINT/{kind.file}")
        add_pace(parser)
        parser.set_defaults(run=run, kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Measure, write, and print what came out."""
    set_threads(arguments)
    checkpoint = load(arguments.checkpoint)
    if checkpoint.folder is None and arguments.out is None:
        raise InputError("measure_needs_a_folder", name=checkpoint.name)
    out = arguments.out or (checkpoint.folder or Path()) / arguments.kind.file
    sys.stdout.writelines(arguments.kind.run(checkpoint, arguments, out))
    return 0


def _heads(checkpoint: Checkpoint, arguments: argparse.Namespace, out: Path) -> Iterable[str]:
    sentences = checkpoint.examples if arguments.source is None else read_lines(arguments.source)
    found = head_agreement.head_agreement(checkpoint, sentences)
    head_agreement.write_agreement(out, found)
    yield f"{found.sentences} sentences, {found.rows} written words that some source word decides\n"
    for head in found.heads:
        role = f": {head.role}" if head.role else ""
        shares = f"{head.agreement:.2f} on the deciding word, {head.previous:.2f} on that of the word before"
        yield f"{head.site} head {head.head}: {shares}{role}\n"
    yield f"best: {found.best.site} head {found.best.head}\n"


def _familiarity(checkpoint: Checkpoint, arguments: argparse.Namespace, out: Path) -> Iterable[str]:
    if len(arguments.name) != len(LANGUAGES):
        raise InputError("names_in_each_language", languages=LANGUAGES)
    texts = dict(zip(LANGUAGES, arguments.name, strict=True))
    found = out_of_distribution.measured(checkpoint, read_lines(arguments.source), texts)
    out_of_distribution.write_bounds(out, found)
    yield (
        f"{found.sentences} sentences: far is under {found.words} words, over {found.pieces_per_word} pieces a word, "
        f"over {found.new_pieces:.0%} new pieces, or under {found.log_prob_per_token} nats a token; "
        f"{found.false_alarms:.1%} false alarms, {found.caught:.1%} of {found.others} sentences about other things\n"
    )


def _held_out(checkpoint: Checkpoint, arguments: argparse.Namespace, out: Path) -> Iterable[str]:
    rows = read_rows(arguments.table)
    records = [FastaRecord(row["id"], "", row["sequence"]) for row in rows]
    found = held_out.measured(checkpoint, records, [row["label"] for row in rows])
    held_out.write_held_out(out, found)
    for name, points in found.points.items():
        for point in points:
            yield f"{name} from {point.threshold}: {point.found:.1%} found, {point.false:.2%} false\n"
    yield f"{found.rows} rows\n"


def _means(checkpoint: Checkpoint, arguments: argparse.Namespace, out: Path) -> Iterable[str]:
    if arguments.size < 1:
        raise InputError("set_without_size", size=arguments.size)
    name = " ".join(arguments.name or [arguments.source.name])
    if checkpoint.model.abilities.reads_windows:
        batches = _sequence_batches(checkpoint, arguments.source, arguments.size)
        found = means_of_sequences(checkpoint.model, batches, name)
    elif arguments.target is None:
        raise InputError("reference_needed")
    else:
        source, target = both_sides(arguments.source, arguments.target)
        pairs = tokenised(checkpoint, source[: arguments.size], target[: arguments.size])
        found = means_of_pairs(checkpoint.model, pairs, name)
    out.write_text(found.to_json(), encoding="utf-8")
    yield f"{out}\n"


def _sequence_batches(checkpoint: Checkpoint, fasta: Path, size: int) -> list[torch.Tensor]:
    """The first sequences of a file, in batches of one length."""
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    with fasta.open("rb") as file:
        for record in itertools.islice(read_fasta(file), size):
            ids = read(checkpoint, record.sequence).ids
            by_length[len(ids)].append(ids)
    if not by_length:
        raise InputError("file_without_lines", file=str(fasta))
    return [torch.tensor(rows[start : start + 16]) for rows in by_length.values() for start in range(0, len(rows), 16)]


def _alignment(checkpoint: Checkpoint, arguments: argparse.Namespace, out: Path) -> Iterable[str]:
    gold = gold_alignments(arguments.links, *arguments.languages)
    with _bar(arguments, len(gold), "sentence") as bar:
        rates = alignment_error.alignment_errors(checkpoint, gold, lambda done, _: bar.update(done - bar.n))
    alignment_error.saved(out, alignment_error.AlignmentErrors(len(gold), rates))
    for name, rows in sorted(rates.items(), key=lambda pair: min(one.error_rate for one in pair[1].values())):
        written, reads = rows["written"].error_rate, rows["read"].error_rate
        yield f"{name:24} row that writes {written:6.1%}, row that reads {reads:6.1%}\n"


def _faithfulness(checkpoint: Checkpoint, arguments: argparse.Namespace, out: Path) -> Iterable[str]:
    if arguments.rows is not None and arguments.rows < 1:
        raise InputError("rows_too_few", rows=arguments.rows)
    lines = read_lines(arguments.source)
    targets = None if arguments.target is None else both_sides(arguments.source, arguments.target)[1]
    if not lines:
        raise InputError("file_without_lines", file=str(arguments.source))
    count = len(lines) if arguments.rows is None else min(arguments.rows, len(lines))
    numbers = [i * len(lines) // count for i in range(count)]
    pairs = [(lines[i], None if targets is None else targets[i]) for i in numbers]
    with _bar(arguments, count, "line") as bar:
        fares, failed = faithfulness.measured(checkpoint, pairs, bar.update)
    if failed:
        sys.stderr.write(f"{failed} of {count} lines could not be run: they are empty, too short or too long\n")
    found = faithfulness.Faithfulness(arguments.target is None, fares)
    faithfulness.saved(out, found)
    for method, fare in sorted(found.fares.items(), key=lambda pair: -pair[1].area):
        share = f"{fare.share:7.1%} of deletion"
        yield f"{method:24} area {fare.area:7.3f} nats {share}, rank correlation {fare.spearman:.3f}\n"


def _importance(checkpoint: Checkpoint, arguments: argparse.Namespace, out: Path) -> Iterable[str]:
    checkpoint.model_as(Seq2Seq)
    source, target = both_sides(arguments.source, arguments.target)
    pairs = tokenised(checkpoint, source, target)
    every = {WHOLE: checkpoint}
    if arguments.snapshots and checkpoint.folder is not None:
        every |= {one.name: load_snapshot(checkpoint, one.path) for one in snapshots(checkpoint.folder)}
    losses: dict[str, float] = {}
    heads: dict[str, tuple[HeadImportance, ...]] = {}
    left: dict[str, tuple[Removal, ...]] = {}
    for name, one in every.items():
        whole, known = name == WHOLE, heads_of(one.model)
        losses[name], gradients = mean_loss(one, pairs), gradient_importance(one, pairs)
        with _bar(arguments, 2 * len(known), "head", name) as bar:
            off = each_head_off(one, pairs, bar.update) if whole else {}
        heads[name] = tuple(
            HeadImportance(s, h, *off.get((s, h), (math.nan, math.nan)), gradients[s, h]) for s, h in known
        )
        plans = plans_of(heads[name], whole)
        with _bar(arguments, len(plans) * len(SHARES), "removal", name) as bar:
            left[name] = tuple(_counted(removals(one, pairs, source, target, plans, translating=whole), bar))
    means = "" if checkpoint.means is None else checkpoint.means.reference
    about = Corpus(arguments.source.name, arguments.target.name, pairs.size, pairs.left_out, means, losses)
    importance.FILE.write(out, Importance(about, heads, left))
    yield f"{out}\n"


def _counted(found: Iterable[T], bar: "tqdm[Any]") -> Iterable[T]:
    for one in found:
        bar.update()
        yield one


def _bar(arguments: argparse.Namespace, total: int, unit: str, title: str | None = None) -> "tqdm[Any]":
    return tqdm(total=total, unit=unit, desc=title, disable=arguments.quiet, mininterval=1.0)


KINDS = (
    Kind(
        "heads", head_agreement.FILE,
        "Which heads look at the word that decides the translation. For each written word, the source word whose "
        "removal lowers its probability most; how often each cross-attention head looks there. Without --source on the "
        "checkpoint's examples.", _heads, (), ("source",),
    ),
    Kind(
        "familiarity", out_of_distribution.FILE,
        "From where on an input is far from what a translator was trained on. --source holds held-out sentences; "
        f"--name says what such texts are called, in each of {', '.join(LANGUAGES)}.",
        _familiarity, ("source", "name"),
    ),
    Kind(
        "held-out", held_out.FILE,
        "A classifier's thresholds on held-out rows. For each class and threshold the share found and the share called "
        "falsely.", _held_out, ("table",),
    ),
    Kind(
        "means", means.FILE,
        "Mean output of every head over a reference set. Interventions that switch a head off by its mean take it from "
        "there. A translator reads --source and --target, teacher forced; a sequence classifier --source as FASTA.",
        _means, ("source",), ("target", "size", "name"),
    ),
    Kind(
        "importance", importance.FILE.name,
        "Which heads of a translator matter. For each head by how much the mean NLL of a token (nats) rises when it is "
        "off (zero; its mean output: see means), and its gradient importance (Michel et al. 2019, in the token version "
        "of their code). Then NLL and greedy BLEU with 0, 10 ... 90 percent of the heads off (zero): the least "
        "important first by gradient and by zeroing, by type of attention, and in three random orders. The orders are "
        "found on the pairs on which they are judged, which flatters them.",
        _importance, ("source", "target"), ("snapshots",),
    ),
    Kind(
        "faithfulness", faithfulness.SUMMARY,
        "How far each method of attribution can be trusted. Takes the source words away that each method names first, "
        "and those alone leave in, and keeps what the written words lose (nats).",
        _faithfulness, ("source",), ("target", "rows"),
    ),
    Kind(
        "alignment", alignment_error.SUMMARY,
        "Alignment error rates of every head, layer and method. Walks through sentence pairs whose words people have "
        "linked, and counts how often the largest value of each row stands on a link.",
        _alignment, ("links",), ("languages",),
    ),
)  # fmt: skip
"""Every kind of measure."""
