"""The control that a sequence comes through: pasted, dropped or an example, with known exons and changes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import streamlit as st

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.safe.limits import MEGABYTE
from transformer.sequences.annotation import FASTA_BEGINS, Gene, read_genes
from transformer.sequences.fasta import GZIP, FastaRecord, fasta_of, parse_fasta
from ui.markdown import as_text
from ui.sequences import runs
from ui.shared.address import belong_to, choice, lines, parameter, set_parameter
from ui.shared.sequence_controls import LONGEST_NAME, MAX_ADDRESS, MAX_PASTED, RECORD, SEQUENCE, taken_example
from ui.store import store, upload_guard
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import t

GENES = "genes.gff3"
"""The file of a checkpoint that holds real genes: their exons, and their letters behind `##FASTA`."""

MAX_UPLOAD_MB, MAX_RECORDS = 20, 1_000
"""Largest file, and most records of it to choose from."""

DROPPED, UPLOADED = "dropped", "sequence-files"
"""The query parameter that says that a file was dropped, which nobody else has, and the key of the uploader."""


@dataclass(frozen=True)
class Brought:
    """A sequence, what is known of its exons, the changes that came with it, and a digest of its letters."""

    record: FastaRecord
    genes: tuple[Gene, ...]
    changes: str
    digest: str


def brought(name: str, checkpoint: Checkpoint, background: str) -> Brought:
    """The sequence that the page is about; examples whose header names the `background` class come last.

    Raises:
        InputError: there is none, or what was brought cannot be read.
    """
    shipped, known = _shipped(store.revision(name), checkpoint)
    examples = [f">{one.id} {one.description}\n{one.sequence}" for one in shipped]
    examples += sorted(checkpoint.examples, key=lambda one: one.partition("\n")[0].endswith(f" {background}"))
    files = st.session_state.get(UPLOADED) or []
    with st.popover(t("sequences.bring"), icon=":material/genetics:", key="bring-sequence"):
        with st.form("sequence-form", border=False):
            text = lines(
                t("sequences.sequence"), examples[0] if examples else "", key=SEQUENCE, height=130, longest=MAX_ADDRESS,
                most=MAX_PASTED, help=t("sequences.sequence_help"),
            )  # fmt: skip
            st.form_submit_button(t("sequences.run"), type="primary", icon=":material/play_arrow:")
        upload_guard.expect(4 * MAX_UPLOAD_MB * MEGABYTE)  # the next file comes before the last one goes
        files = st.file_uploader(
            t("sequences.drop"), key=UPLOADED, max_upload_size=MAX_UPLOAD_MB, accept_multiple_files=True,
            on_change=_say_dropped,
        )  # fmt: skip
        for i, example in enumerate(examples):
            header = example.partition("\n")[0].removeprefix(">").strip()
            named = f"{header.split()[0]} ({len(shipped[i].sequence):,})" if i < len(shipped) else header
            st.button(as_text(named[:LONGEST_NAME]), key=f"sequence-{i}", on_click=taken_example, args=(example,))
    if not files and parameter(DROPPED):
        st.warning(t("sequences.not_here"), icon=":material/info:")
    records, annotations, changes = list[FastaRecord](), list[str](), list[str]()
    for file in files:
        data = file.getvalue()
        kind = _kind(data)
        if kind == "annotation":
            written = data.decode("utf-8", "replace")
            annotations.append(written)
            if FASTA_BEGINS in written:
                records += islice(parse_fasta(written.partition(FASTA_BEGINS)[2].splitlines()), MAX_RECORDS)
        elif kind == "changes":
            changes.append(data.decode("utf-8", "replace"))
        else:
            records += islice(fasta_of(data), MAX_RECORDS)
    records = records or list(islice(parse_fasta(text.split("\n")), MAX_RECORDS))
    if not records:
        raise InputError("no_sequence")
    record = _chosen(records)
    genes = [gene for written in annotations for gene in read_genes(written).get(record.id, ())]
    same = (one.id for one in shipped if one.sequence == record.sequence)
    genes = genes or list(known.get(next(same, ""), ()))
    digest = hashlib.sha256(record.sequence.encode()).hexdigest()
    return Brought(record, tuple(genes), "\n".join(changes), digest)


def _chosen(records: Sequence[FastaRecord]) -> FastaRecord:
    if len(records) == 1:
        return records[0]
    belong_to(tuple(one.id for one in records), RECORD)
    names = {str(i): f"{i}: {one.id[:LONGEST_NAME]} ({len(one.sequence):,})" for i, one in enumerate(records, 1)}
    return records[int(choice(t("sequences.record"), list(names), key=RECORD, form="list", text=names.__getitem__)) - 1]


@cached()
def _shipped(
    revision: Revision,  # noqa: ARG001  (part of the cache key)
    _checkpoint: Checkpoint,
) -> tuple[list[FastaRecord], dict[str, list[Gene]]]:
    """The genes that lie beside a checkpoint, with their exons."""
    text = runs.shipped_file(_checkpoint, GENES).decode("utf-8", "replace")
    return list(parse_fasta(text.partition(FASTA_BEGINS)[2].splitlines())), read_genes(text)


def _kind(data: bytes) -> str:
    """What a file holds, by how it begins: a sequence, known exons, or changes."""
    start = data[:4_096].decode("utf-8", "replace").lstrip("\ufeff \r\n")
    if data[:2] == GZIP or start.startswith(">"):
        return "sequence"
    if start.startswith("##fileformat=VCF"):
        return "changes"
    return "annotation" if start.startswith(("##gff", "track", "browser")) or start.count("\t") > 1 else "sequence"


def _say_dropped() -> None:
    """The address says that a file was dropped: elsewhere it shows another sequence."""
    set_parameter(DROPPED, "1" if st.session_state[UPLOADED] else None)
