"""`scan`: a long sequence read in windows by a sequence classifier; hits out, and a track where one is asked for."""

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO, cast
from urllib.parse import quote

import numpy as np
import torch
from tqdm import tqdm

from transformer.checkpoint import load
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.commands.arguments import Commands, add_command
from transformer.commands.classify import add_sequences, records_of
from transformer.errors import InputError
from transformer.runs.sequences.classify import classifier
from transformer.runs.sequences.held_out import known_held_out
from transformer.runs.sequences.scan import Block, ScanPlan, Strands, find_hits, plan_scan
from transformer.runs.sequences.variants import changed_sites, deltas
from transformer.sequences.hits import GFF3_START, bed, gff3
from transformer.sequences.tracks import column_name, intervals, track_line
from transformer.sequences.variants import read_changes

DESCRIPTION = """Read every record of a FASTA file in windows of the length that a classifier was trained on.

Writes hits to stdout as BED (or GFF3): sites whose probability reaches the threshold, where the intron begins or ends,
with a type of the Sequence Ontology in GFF3. Of calls within three letters the likeliest is the hit. Only windows that
hold the letters which a class needs (GT, AG) are read; --all reads every window, and lists sites without these letters
too. A class without such letters names whole windows: no likelier one lies nearer than half a window. How often the
threshold errs on held-out rows is said on stderr, where that was measured. Tracks are bedGraph, a file for each class
and strand, with chrom.sizes beside them as UCSC's bedGraphToBigWig asks: the probability from the middle letter of each
window to that of the next. Windows with more than a tenth of unknown letters are not read.

With --variants, what each change does to the sites within 50 letters is written instead, as a table: every site whose
probability changes by 0.2 or more, or whose letters are lost, and the largest difference where there is none."""


THREADS = os.cpu_count() or 1
"""Threads that read windows."""


def register(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command."""
    meaning = "find what a sequence classifier looks for in long sequences"
    parser = add_command(commands, "scan", run, meaning, DESCRIPTION)
    add_sequences(parser)
    parser.add_argument("--all", action="store_true", help="read every window, whatever letters it holds")
    parser.add_argument("--strands", type=Strands, choices=list(Strands), default=Strands.BOTH, help="default: both")
    parser.add_argument("--threshold", type=float, default=0.9, metavar="P", help="probability of a hit (default: 0.9)")
    parser.add_argument("--variants", metavar="CHANGES", help='a VCF file, or changes such as "568 G>A, 572 G>C"')
    parser.add_argument("--format", choices=("bed", "gff3"), default="bed", help="of the hits (default: bed)")
    parser.add_argument("--tracks", type=Path, metavar="FOLDER", help="write every probability there, as bedGraph")


def run(arguments: argparse.Namespace) -> int:
    """Scan every record; 1 when one could not be read, else 0."""
    torch.set_num_threads(1)  # threads share out windows, not the small matrices of a pass
    checkpoint = load(arguments.checkpoint)
    _, task = classifier(checkpoint)
    if not 0 < arguments.threshold <= 1:
        raise InputError("scan_threshold", threshold=arguments.threshold)
    _say_errors(checkpoint, arguments.threshold)
    columns, status = {name: task.classes.index(name) for name in task.findable}, 0
    with ExitStack() as files:
        tracks, sizes = dict[tuple[str, int], TextIO](), cast(TextIO, io.StringIO())
        if arguments.tracks:
            tracks = _opened(files, arguments.tracks, columns, arguments.strands)
            sizes = files.enter_context((arguments.tracks / "chrom.sizes").open("w", encoding="utf-8"))
        changes = _changes(arguments.variants)
        table = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
        if changes:
            table.writerow(["sequence", "change", "class", "strand", "place", "letters", "before", "after", "delta"])
        elif arguments.format == "gff3":
            sys.stdout.write(GFF3_START)
        for record in records_of(arguments.file):
            try:
                letters = task.alphabet.read(record.sequence)
                plan = plan_scan(checkpoint, letters, arguments.strands, arguments.all)
                if changes:
                    table.writerows(_deltas(plan, record.id, changes))
                    continue
            except InputError as error:
                status = 1
                sys.stderr.write(f"note: {record.id}: {error.message}\n")
                continue
            sizes.write(f"{column_name(record.id)}\t{len(plan.letters)}\n")
            hits = find_hits(plan, _blocks(plan, record.id, tracks), columns, arguments.threshold)
            gff = arguments.format == "gff3"
            sys.stdout.write(gff3(record.id, hits, checkpoint.name) if gff else bed(record.id, hits))
            sys.stdout.flush()
    return status


def _changes(given: str | None) -> str:
    """The changes that are asked about: what the file of this name holds, or the text itself."""
    path = Path(given or "")
    return path.read_text(encoding="utf-8") if given and path.is_file() else given or ""


def _deltas(plan: ScanPlan, name: str, changes: str) -> Iterator[list[object]]:
    """A row for each site that a change of this sequence gains or loses."""
    for change in read_changes(changes, name, plan.letters):
        for one in changed_sites(deltas(plan.checkpoint, plan.letters, change, plan.strands)):
            numbers = [f"{value:.4f}" for value in (one.before, one.after, one.delta)]
            yield [name, change, one.site.label, one.site.strand, one.place, f"{one.was}>{one.found}", *numbers]


def _opened(
    files: ExitStack, folder: Path, columns: Mapping[str, int], strands: Strands
) -> dict[tuple[str, int], TextIO]:
    """The file of each strand (by sign) and class (by number)."""
    folder.mkdir(parents=True, exist_ok=True)
    opened = dict[tuple[str, int], TextIO]()
    for sign in strands.signs:
        for name, column in columns.items():
            path = folder / f"{quote(name, safe='')}-{'given' if sign == '+' else 'other'}-strand.bedgraph"
            opened[sign, column] = files.enter_context(path.open("w", encoding="utf-8"))
            opened[sign, column].write(track_line(f"{name} {sign}"))
    return opened


def _say_errors(checkpoint: Checkpoint, threshold: float) -> None:
    """What the held-out rows say of the nearest measured threshold that is not above the one asked for."""
    known = known_held_out(checkpoint)
    for name in classifier(checkpoint)[1].findable:
        points = [point for point in (known.points.get(name, ()) if known else ()) if point.threshold <= threshold]
        if known is not None and points:
            point = points[-1]
            sys.stderr.write(
                f"note: {name} from {point.threshold}: of {known.rows} held-out rows {point.found:.1%} of this class "
                f"are found, {point.false:.2%} of the others too\n"
            )


def _blocks(plan: ScanPlan, record: str, tracks: Mapping[tuple[str, int], TextIO]) -> Iterator[Block]:
    """What a plan reads, written to the tracks on its way."""
    with tqdm(total=plan.reads, unit="window", desc=record, disable=None) as bar:
        for block in plan.blocks(THREADS):
            for (sign, column), file in tracks.items():
                values = block.probabilities[plan.strands.signs.index(sign), :, column]
                file.write(intervals(record, values, plan.centre(block.first)))
            bar.update(int((~np.isnan(block.probabilities[..., 0])).sum()))
            yield block
