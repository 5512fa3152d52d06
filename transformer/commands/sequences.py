"""`classify`: FASTA in, a table of calibrated probabilities out; `scan`: a long sequence in, sites out."""

import argparse
import csv
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np
import torch
from tqdm import tqdm

from ..checkpoint import load
from ..checkpoint.checkpoint import Checkpoint
from ..errors import InputError
from ..messages import Message
from ..plots.export import file_names, harmless
from ..runs.measures.held_out import known_held_out
from ..runs.sequences.classify import classifier, verdicts
from ..runs.sequences.scan import ScanBlock, ScanPlan, find_hits, plan_scan
from ..runs.sequences.variants import changed_sites, deltas, read_changes
from ..sequences.fasta import FastaRecord, duplicates, read_fasta, text_of
from ..sequences.hits import GFF3_START, bed, gff3
from ..sequences.lines import other_names, shortened
from ..sequences.region import region_of
from ..sequences.tracks import intervals, track_line
from . import Arguments, Command
from . import checkpoint as checkpoint_argument

CLASSIFY = """Classify every sequence of a FASTA file, plain or packed with gzip.

Writes a table (divided by tabs) to stdout: id, predicted, and the calibrated probability of each class. A sequence that
cannot be read gets a row without values, a sentence on stderr says why, and the exit status is 1. An id that a
spreadsheet would take for a formula has ' in front."""

SCAN = """Read every record of a FASTA file in windows of the length that a classifier was trained on, on both strands.

Writes hits to stdout as BED (or GFF3): sites whose probability reaches the threshold, where the intron begins or ends,
with a type of the Sequence Ontology in GFF3. Of calls within three letters the likeliest is the hit. Only windows that
hold the letters which a class needs (GT, AG) are read; --all reads every window, and lists sites without these letters
too. A class without such letters names whole windows: no likelier one lies nearer than half a window. How often the
threshold errs on held-out rows is said on stderr, where that was measured. Tracks are bedGraph, a file for each class
and strand: the probability from the middle letter of each window to that of the next. Windows with more than a tenth of
unknown letters are not read.

With --variants, what each change does to the sites within 50 letters is written instead, as a table: every site whose
probability changes by 0.2 or more, or whose letters are lost, and the largest difference where there is none. A change
that cannot be computed is named on stderr by its line and the reason, stops no other, and makes the exit status 1."""

THREADS = os.cpu_count() or 1
"""Threads that read windows."""

COLUMNS = ("sequence", "change", "class", "strand", "place", "letters", "before", "after", "delta")
"""Of the table of changes."""


def classify(arguments: argparse.Namespace) -> int:
    """Write the table; 1 when a sequence could not be read, else 0."""
    checkpoint = load(arguments.checkpoint)
    _, task = classifier(checkpoint)
    records, status = _records_of(arguments.file), 0
    _write(["id", "predicted", *task.classes])
    for verdict in tqdm(verdicts(checkpoint, records), unit="sequence", disable=None):
        cells = [""] * (1 + len(task.classes))
        if verdict.probabilities is None:
            status = 1
            sys.stderr.write(f"note: {verdict.id}: {verdict.problem}\n")
        else:
            best = task.classes[int(verdict.probabilities.argmax())]
            cells = [best, *(f"{p:.6f}" for p in verdict.probabilities)]
        _write([harmless(verdict.id), *cells])
    sys.stdout.buffer.flush()
    return status


def scan(arguments: argparse.Namespace) -> int:
    """Scan every record; 1 when one could not be read, else 0."""
    torch.set_num_threads(1)  # threads share out windows, not the small matrices of a pass
    checkpoint = load(arguments.checkpoint)
    _, task = classifier(checkpoint)
    if not 0 < arguments.threshold <= 1:
        raise InputError("scan_threshold", threshold=arguments.threshold)
    _say_errors(checkpoint, arguments.threshold)
    columns, status = {name: task.classes.index(name) for name in task.findable}, 0
    signs = "+-" if task.alphabet.complement else "+"
    records = _records_of(arguments.file)
    _note("", shortened(duplicates(records)))
    if arguments.variants is not None:
        return _variants(checkpoint, records, _changes_in(arguments.variants), signs)
    gff = arguments.format == "gff3"
    sys.stdout.write(GFF3_START if gff else "")
    tracks = {} if arguments.tracks is None else _begun(arguments.tracks, columns, signs)
    for record in records:
        try:
            plan = plan_scan(checkpoint, task.alphabet.read(record.sequence), signs, arguments.all)
        except InputError as error:
            status = 1
            _note(record.id, [error.message])
            continue
        hits = find_hits(plan, _blocks(plan, record.id, tracks), columns, arguments.threshold)
        sys.stdout.write(gff3(record.id, hits, checkpoint.name) if gff else bed(record.id, hits))
        sys.stdout.flush()
    return status


def _variants(checkpoint: Checkpoint, records: Sequence[FastaRecord], text: str, signs: str) -> int:
    """Write a row for each site that a change gains or loses; 1 when one could not be computed, else 0."""
    table = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    table.writerow(COLUMNS)
    status, named, known = 0, Counter[str](), list[str]()
    for record in records:
        region = region_of(record)
        known += [record.id, region.name] if region else [record.id]
        try:
            plan = plan_scan(checkpoint, classifier(checkpoint)[1].alphabet.read(record.sequence), signs)
            read = read_changes(text, record.id, plan.letters, region)
        except InputError as error:
            status = 1
            _note(record.id, [error.message])
            continue
        for change in read.found:
            for one in changed_sites(deltas(checkpoint, plan.letters, change, signs)):
                numbers = [f"{value:.4f}" for value in (one.before, one.after, one.delta)]
                letters = f"{one.was}>{one.found}"
                table.writerow([record.id, change, one.site.label, one.site.strand, one.place, letters, *numbers])
        used = [Message("region_used", region=str(region))] if region and region.name in read.names else []
        _note(record.id, [*used, *read.notes])
        status, named = status or int(bool(read.skipped)), Counter(read.names)
    _note("", filter(None, [other_names(named, known)]))
    return status or int(bool(named) and named.keys().isdisjoint(known))


def _note(name: str, messages: Iterable[Message]) -> None:
    """Say what was not used, or how something was read, with the record that it is about."""
    sys.stderr.writelines(f"note: {name and f'{name}: '}{message}\n" for message in messages)


def _changes_in(given: str) -> str:
    """The text of a file of changes, plain or gzip; what is no file is the changes themselves."""
    if not os.access(given, os.R_OK):  # which a text too long for a name is not, either
        return given
    with _opened(Path(given)) as file:
        return text_of(file)


def _say_errors(checkpoint: Checkpoint, threshold: float) -> None:
    """What the held-out rows say of the nearest measured threshold that is not above the one asked for."""
    known = known_held_out(checkpoint)
    for name in classifier(checkpoint)[1].findable:
        points = [point for point in (known.points.get(name, ()) if known else ()) if point.threshold <= threshold]
        if known is not None and points:
            point = points[-1]
            false = f"{point.false:.2%} too" if point.false else f"none (below {known.bound(name):.2%})"
            sys.stderr.write(
                f"note: {name} from {point.threshold}: of the {known.own[name]} rows of this class in {known.data} "
                f"{point.found:.1%} are found, of the {known.rows - known.own[name]} others {false}\n"
            )


def _begun(folder: Path, columns: Mapping[str, int], signs: str) -> dict[tuple[str, int], Path]:
    """The file of each strand (by sign) and class (by number), with the line that begins a track."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for sign, ((name, column), called) in product(signs, zip(columns.items(), file_names(columns), strict=True)):
        path = folder / f"{called}-{'given' if sign == '+' else 'other'}-strand.bedgraph"
        path.write_text(track_line(f"{name} {sign}"), encoding="utf-8")
        files[sign, column] = path
    return files


def _blocks(plan: ScanPlan, record: str, tracks: Mapping[tuple[str, int], Path]) -> Iterator[ScanBlock]:
    """What a plan reads, with a bar, and written to the tracks on its way."""
    with tqdm(total=plan.reads, unit="window", desc=record, disable=None) as bar:
        for block in plan.blocks(THREADS):
            for (sign, column), path in tracks.items():
                values = block.probabilities[plan.signs.index(sign), :, column]
                with path.open("a", encoding="utf-8") as file:
                    file.write(intervals(record, values, plan.centre(block.first)))
            bar.update(int((~np.isnan(block.probabilities[..., 0])).sum()))
            yield block


def _records_of(path: Path) -> list[FastaRecord]:
    """The sequences of a file, or of stdin for `-`.

    Raises:
        InputError: it cannot be read.
    """
    with _opened(path) as file:
        return list(read_fasta(file))


def _opened(path: Path) -> io.BufferedIOBase:
    """A file, or stdin for `-`.

    Raises:
        InputError: it cannot be opened.
    """
    try:
        return cast(io.BufferedIOBase, sys.stdin.buffer if path == Path("-") else path.open("rb"))  # which both are
    except OSError as error:
        raise InputError("file_cannot_be_read", file=str(path), error=error.strerror) from error


def _write(cells: list[str]) -> None:
    sys.stdout.buffer.write(("\t".join(cells) + "\n").encode("utf-8"))


_SEQUENCES = checkpoint_argument("folder of a sequence classifier") | {
    "file": dict(type=Path, metavar="FILE", help="FASTA, plain or .gz; - reads stdin")
}
_SCANNING: Arguments = {
    "--threshold": dict(type=float, default=0.9, metavar="P", help="probability of a hit (default: 0.9)"),
    "--all": dict(action="store_true", help="read every window, whatever letters it holds"),
    "--format": dict(choices=("bed", "gff3"), default="bed", help="of the hits (default: bed)"),
    "--tracks": dict(type=Path, metavar="DIR", help="write every probability there, as bedGraph"),
    "--variants": dict(metavar="CHANGES", help='a VCF file, plain or .gz, or changes such as "568 G>A, 572 G>C"'),
}
COMMANDS = (
    Command("classify", classify, "classify the sequences of a FASTA file", _SEQUENCES, CLASSIFY),
    Command("scan", scan, "find what a sequence classifier looks for in long ones", {**_SEQUENCES, **_SCANNING}, SCAN),
)
