"""What the page Sequences is about, pasted, dropped or an example, and the runs of it that it remembers."""

import hashlib
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import streamlit as st
from jaxtyping import Float

from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.errors import InputError
from heedmap.messages import Message
from heedmap.runs.sequences.classify import Classification, Mutations, classifier, classify, mutations
from heedmap.safe.limits import MEGABYTE
from heedmap.sequences.annotation import FASTA_BEGINS, Annotation, Gene, beyond, genes_on, read_genes
from heedmap.sequences.fasta import FastaRecord, duplicates, fasta_of, label_of, parse_fasta, text_of
from heedmap.sequences.lines import other_names, shortened
from heedmap.sequences.region import Region, region_at, region_of
from heedmap.sequences.task import SequenceTask
from ui.shared.address import belong_to, line, parameter, put, set_parameter
from ui.shared.controls import sentence
from ui.shared.sequence import MAX_RECORDS, chosen_record, example_buttons, header_of, sequence_field
from ui.store import store, upload_guard
from ui.store.cache import cached_result, in_session
from ui.store.progress import with_progress
from ui.store.refs import Revision
from ui.store.store import of_checkpoint
from ui.texts import plain, t

LONGEST = 1_024
"""Longest sequence that the page reads as one: whatever the model, its record then fits into what a run may take."""

EXAMPLE_SET = "examples.fa"
"""The file of a checkpoint that holds sequences of every class."""


@of_checkpoint(spinner="sequences.reading")
def classification(revision: Revision, text: str, places: range | None) -> Classification:
    """A sequence's run; it runs once, whatever is looked at. `places` are its letters in a longer one.

    Raises:
        InputError: the sequence cannot be read, or is too long to be read as one.
    """
    return classify(store.load(revision), text, LONGEST, places)


def thumbnails(run: Classification, sites: tuple[str, ...], size: int) -> Float[np.ndarray, "layer head row column"]:
    """Block maxima of every head of some sites, at most `size` to a side; computed once a run.

    A site of fewer queries than windows, which is the pooling, has each of them over several rows.
    """

    def compute() -> Float[np.ndarray, "layer head row column"]:
        maps = [run.record[site] for site in sites]
        small = [np.array([one.overview(head, size) for head in range(one.n_heads)]) for one in maps]
        rows = max(one.shape[1] for one in small)
        return np.array([one[:, np.arange(rows) * one.shape[1] // rows] for one in small])

    return cached_result("thumbnails", (*key_of(run), sites, size), compute)


def other_strand(name: str, task: SequenceTask, run: Classification) -> Classification | None:
    """The run of the other strand; None where there is none."""
    alphabet = task.alphabet
    return classification(name, alphabet.reverse_complement(run.letters.text), None) if alphabet.complement else None


def key_of(run: Classification) -> tuple[Revision, str, int, int]:
    """What tells this run from all others, in plain values."""
    return store.revision(run.checkpoint), run.letters.text, run.places.start, run.places.step


def effects(name: str, run: Classification, target: int) -> Mutations | None:
    """What every letter did for a class; the first time with a bar and a button that stops it, then None."""
    checkpoint = store.checkpoint(name)

    def compute(progress: Callable[[float], None]) -> Mutations:
        return mutations(checkpoint, run.letters, target, progress)

    key = (store.revision(name), run.letters.text, target)
    label = plain("sequences.changing")
    return with_progress("effects", key, plain("sequences.effects"), compute, label=label)


@of_checkpoint()
def examples_of(revision: Revision, label: str) -> list[str]:
    """The sequences of a class, of the length that was trained on, which lie beside a checkpoint."""
    checkpoint = store.load(revision)
    _, task = classifier(checkpoint)
    records = (one for one in fasta_of(_shipped_file(checkpoint, EXAMPLE_SET)) if len(one.sequence) == task.length)
    return [one.sequence for one in records if label_of(one, task.classes) == label]


def _shipped_file(checkpoint: Checkpoint, file: str) -> bytes:
    """A file that came with a checkpoint's weights; empty where it brought none of this name."""
    path = checkpoint.folder / file if checkpoint.folder else None
    return path.read_bytes() if path is not None and path.is_file() else b""


GENES = "genes.gff3"
"""The file of a checkpoint that holds real genes: their exons, and their letters behind `##FASTA`."""

MAX_UPLOAD_MB = 20
"""Largest file."""

DROPPED, UPLOADED = "dropped", "sequence-files"
"""The query parameter that says that a file was dropped, which nobody else has, and the key of the uploader."""

LONGER = 1.5
"""A sequence of more than so many times the letters that a classifier was trained on is scanned, not read as one."""

WINDOW, LIES = "window", "lies"
"""What the address calls the letters that are read (`538-597(+)`), and where the sequence lies in a longer one."""

_VCF_LINE = re.compile(r"\S+\s+\d+\s+\S+\s+[A-Za-z]+\s+[A-Za-z.,*<>]+(\s|$)", re.ASCII)
_BED_LINE = re.compile(r"\S+ +\d+ +\d+(\s|$)", re.ASCII)
"""The first lines of a VCF without its head, and of a BED file that is divided by spaces."""

_WINDOW = re.compile(r"(\d{1,9})-(\d{1,9})\(([+-])\)", re.ASCII)


@dataclass(frozen=True)
class Brought:
    """A sequence, what is known of its exons, the files of changes that came with it, and a digest of its letters.

    `names` are those of all sequences that came, `region` is where this one lies in a longer one, and `notes` say what
    of the files was not used.
    """

    record: FastaRecord
    genes: tuple[Gene, ...]
    changes: tuple[tuple[str, str], ...]
    digest: str
    names: tuple[str, ...]
    region: Region | None
    notes: tuple[Message, ...]


@dataclass(frozen=True)
class Reading:
    """The letters `text` of a record as they are read: from letter `first` to `last` (from 1), on one strand of it."""

    record: str
    text: str
    first: int
    last: int
    strand: str
    is_part: bool

    @property
    def places(self) -> range:
        """The letter of the record (from 1) that each letter read is."""
        return range(self.first, self.last + 1) if self.strand == "+" else range(self.last, self.first - 1, -1)

    @property
    def fasta(self) -> str:
        """The letters read, under the name of their record and their place in it."""
        place = f":{self.first}-{self.last}({self.strand})" if self.is_part else ""
        return f">{self.record}{place}\n{self.text}"

    @property
    def stem(self) -> str:
        """The record in the name of a file, with the place of its part."""
        return f"{self.record}-{self.first}-{self.last}{self.strand}" if self.is_part else self.record


def brought(name: str, checkpoint: Checkpoint, background: str) -> Brought:
    """The sequence that the page is about; examples whose header names the `background` class come last.

    Raises:
        InputError: there is none, or what was brought cannot be read.
    """
    shipped, known = _shipped(name)
    examples = [f">{one.id} {one.description}\n{one.sequence}" for one in shipped]
    examples += sorted(checkpoint.examples, key=lambda one: one.partition("\n")[0].endswith(f" {background}"))
    files = st.session_state.get(UPLOADED) or []
    names = [f"{one.id} ({len(one.sequence):,})" for one in shipped]
    with st.popover(t("sequences.bring"), icon=":material/genetics:", key="bring-sequence"):
        text = sequence_field(examples[0] if examples else "")
        upload_guard.expect(4 * MAX_UPLOAD_MB * MEGABYTE)  # the next file comes before the last one goes
        files = st.file_uploader(
            t("sequences.drop"), key=UPLOADED, max_upload_size=MAX_UPLOAD_MB, accept_multiple_files=True,
            on_change=_say_dropped,
        )  # fmt: skip
        example_buttons(examples, [*names, *map(header_of, examples[len(shipped) :])])
    if not files and parameter(DROPPED):
        st.warning(t("sequences.not_here"), icon=":material/info:")
    records, annotations, changes = list[FastaRecord](), list[Annotation](), list[tuple[str, str]]()
    for file in files:
        written = text_of(io.BytesIO(file.getvalue()))
        kind = _kind(written)
        if kind == "changes":
            changes.append((file.name, written))
        if kind == "annotation":
            key = hashlib.sha256(written.encode()).hexdigest()
            annotations.append(in_session("annotation", key, partial(read_genes, written)))  # read once in a session
            written = written.partition(FASTA_BEGINS)[2]
        if kind != "changes":
            records += islice(parse_fasta(io.StringIO(written, newline=None)), MAX_RECORDS)
    records = records or list(islice(parse_fasta(text.split("\n")), MAX_RECORDS))
    record = chosen_record(records)
    digest = hashlib.sha256(record.sequence.encode()).hexdigest()
    region = region_of(record)
    if annotations or changes:
        belong_to(digest, LIES)
        named = str(region or "")
        written = line(
            t("sequences.lies"), named, key=LIES, width=200, placeholder="chr11:5225464", help=t("sequences.lies_help")
        )
        region = region_at(written, record) if written.strip() else None
    known_as = tuple(dict.fromkeys([*(one.id for one in records), *([region.name] if region else [])]))
    genes, notes = _laid(annotations, record, region, known_as)
    same = (one.id for one in shipped if one.sequence == record.sequence)
    genes = genes or list(known.get(next(same, ""), ()))
    notes = [*shortened(duplicates(records)), *notes]
    return Brought(record, tuple(genes), tuple(changes), digest, known_as, region, tuple(notes))


def _laid(
    annotations: Iterable[Annotation], record: FastaRecord, region: Region | None, names: tuple[str, ...]
) -> tuple[list[Gene], list[Message]]:
    """The transcripts that have exons on a record, and what of the annotations was not used."""
    length, genes, notes = len(record.sequence), list[Gene](), list[Message]()
    for one in annotations:
        found = genes_on(one, record.id, region)
        genes += (gene for gene in found if any(begin < length and end > 0 for begin, end in gene.exons))
        said_of = [beyond(found, length, region), other_names(one.names, names), *one.notes, *shortened(one.skipped)]
        notes += filter(None, said_of)
    return genes, notes


def warn(messages: Iterable[Message], in_red: bool = False) -> None:
    """Say what was not used, in amber; in red where nothing was."""
    if found := list(messages):
        say = st.error if in_red else st.warning
        say("\n\n".join(sentence(message) for message in found), icon=":material/warning:")


def asked_for(record: FastaRecord, task: SequenceTask) -> Reading | None:
    """What is read as one; None where a long sequence is to be scanned.

    Raises:
        InputError: the window that the address names does not lie within the sequence.
    """
    length = len(record.sequence)
    written = parameter(WINDOW)
    if written is None:
        whole = Reading(record.id, record.sequence, 1, length, "+", is_part=False)
        return None if length > LONGER * task.length else whole
    found = _WINDOW.fullmatch(written)
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if found is None or not 1 <= first <= last <= length:
        raise InputError("window_elsewhere", window=f"{written:.40}", length=length)
    text = record.sequence[first - 1 : last]
    if found[3] == "-":
        text = task.alphabet.reverse_complement(task.alphabet.read(text).text)
    return Reading(record.id, text, first, last, found[3], is_part=True)


def way_back(here: Reading) -> None:
    """The button that leads back to the whole sequence, and whose letters are read."""
    st.button(t("sequences.back", name=here.record), icon=":material/arrow_back:", on_click=put, kwargs={WINDOW: None})
    st.markdown(t("sequences.part", name=here.record, first=here.first, last=here.last, strand=here.strand))


@of_checkpoint()
def _shipped(revision: Revision) -> tuple[list[FastaRecord], dict[str, list[Gene]]]:
    """The genes that lie beside a checkpoint, with their exons."""
    text = _shipped_file(store.load(revision), GENES).decode("utf-8", "replace")
    return list(parse_fasta(text.partition(FASTA_BEGINS)[2].splitlines())), dict(read_genes(text).genes)


def _kind(text: str) -> str:
    """What a file holds, by how it begins: a sequence, known exons, or changes."""
    start = text[:4_096].lstrip()
    first = next((line for line in start.splitlines() if line.strip() and not line.startswith("#")), "")
    if start.startswith(("##fileformat=VCF", "#CHROM")) or _VCF_LINE.match(first):
        return "changes"
    is_annotation = start.startswith(("##gff", "track", "browser")) or _BED_LINE.match(first) or first.count("\t") > 1
    return "annotation" if is_annotation and not start.startswith(">") else "sequence"


def _say_dropped() -> None:
    """The address says that a file was dropped: elsewhere it shows another sequence."""
    set_parameter(DROPPED, "1" if st.session_state[UPLOADED] else None)
