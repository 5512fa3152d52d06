"""The panel that classifies a whole file: a table that grows, and can be stopped."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from weakref import ref

import pandas as pd
import streamlit as st

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.errors import InputError
from transformer.runs.classify import LETTERS_AT_ONCE, Verdict, classifier, verdicts
from transformer.runs.held_out import HeldOut, composition, known_held_out
from transformer.sequences.fasta import FastaRecord, fasta_of, label_of
from transformer.sequences.task import SequenceTask
from ui.sequences.runs import FILES
from ui.sequences.scores import scores_panel
from ui.shared.address import put
from ui.shared.files import frame_csv
from ui.store import arrivals, holdings, store, turns
from ui.store.cache import in_session
from ui.texts import plain, said, t

MAX_UPLOAD_MB = 20
MAX_RECORDS = 50_000
"""Most records that a page classifies; the command line has no limit."""

SLICE_SECONDS = 0.3
"""How long one rerun classifies before it shows what it has, and listens."""

SHOWN_MEANWHILE = 500
"""Most rows of the table while the file is read: it is drawn anew with each sign of life, which must come soon."""

ROWS = "file-rows"
"""The key of the table, whose rows open their record."""

JOB = "sequence-job"
"""The kind of result that a file on its way is: it holds a checkpoint, so it goes with the session's uploads."""


@dataclass
class Job:
    """A file on its way through the classifier, in one session; `broken` says why its rest could not be unpacked."""

    source: Iterator[Verdict]
    records: Sequence[FastaRecord]
    labels: Sequence[str]
    broken: str = ""
    longer: bool = False
    found: list[Verdict] = field(default_factory=list)
    cancelled: bool = False
    unlike: Callable[[FastaRecord], Sequence[str]] = lambda _: ()
    reasons: list[Sequence[str]] = field(default_factory=list)

    @classmethod
    def of(cls, checkpoint: Checkpoint, data: bytes) -> "Job":
        """The records of a file, unpacked; nothing is classified yet."""
        records, broken = list[FastaRecord](), ""
        try:
            for record in islice(fasta_of(data), MAX_RECORDS + 1):
                records.append(record)
        except InputError as error:
            broken = error.message
        longer = len(records) > MAX_RECORDS
        records = records[:MAX_RECORDS]
        _, task = classifier(checkpoint)
        labels = [label_of(record, task.classes) for record in records]
        source = verdicts(checkpoint, records, LETTERS_AT_ONCE)
        return cls(source, records, labels, broken, longer, unlike=partial(_unlike, task, known_held_out(checkpoint)))

    @property
    def total(self) -> int:
        """Records of the file that are classified."""
        return len(self.records)

    @property
    def done(self) -> bool:
        """Nothing is left to do."""
        return self.cancelled or len(self.found) == self.total

    @property
    def note(self) -> str:
        """How it ended."""
        if self.cancelled:
            return t("sequences.file_cancelled", count=len(self.found), total=self.total)
        if self.broken:
            return t("sequences.file_broken", reason=said(self.broken))
        if self.longer:
            return t("sequences.file_most", count=self.total)
        return t("sequences.file_all", count=self.total) if self.total else t("sequences.file_empty")

    def advance(self, seconds: float) -> None:
        """Classify for a while."""
        until = time.monotonic() + seconds
        for verdict in self.source:
            readable = verdict.probabilities is not None
            self.reasons.append(self.unlike(self.records[len(self.found)]) if readable else ())
            self.found.append(verdict)
            if time.monotonic() > until:
                return

    def cancel(self) -> None:
        """Leave the rest unread."""
        self.cancelled = True


def file_panel(name: str, task: SequenceTask) -> None:
    """Upload FASTA, plain or packed with gzip; see the table, take it away."""
    arrivals.expect(2 * MAX_UPLOAD_MB * MEGABYTE)  # the next file comes before the last one goes
    upload = st.file_uploader(t("sequences.file"), type=FILES, key="fasta", max_upload_size=MAX_UPLOAD_MB)
    st.caption(t("sequences.file_limit", megabytes=MAX_UPLOAD_MB, records=MAX_RECORDS, letters=LETTERS_AT_ONCE))
    if upload is None:
        holdings.mine().results.pop(JOB, None)
        st.info(t("sequences.file_none"))
        return
    key = (name, store.revision(name), upload.file_id)
    job = in_session(JOB, key, lambda: Job.of(store.checkpoint(name), upload.getvalue()), 1, pinned=True)
    if not job.done:
        with turns.aside():
            job.advance(SLICE_SECONDS)
    if not job.total and not job.broken:
        st.info(job.note)
        return
    if job.done:
        st.caption(job.note)
        problems = sum(one.probabilities is None for one in job.found)
        if problems:
            st.caption(t("sequences.file_problems", count=problems))
    else:
        st.button(t("sequences.cancel"), on_click=job.cancel, icon=":material/stop_circle:")
        st.progress(len(job.found) / job.total, t("sequences.file_progress", count=len(job.found), total=job.total))
    table = _table(job, task, None if job.done else SHOWN_MEANWHILE)
    st.caption(t("sequences.file_open"))
    st.dataframe(
        table,
        hide_index=True,
        key=ROWS,
        on_select=partial(_open, ref(job)),  # what the browser may ask for outlives the file otherwise
        selection_mode="single-row",
    )
    stem = upload.name.partition(".")[0] or "sequences"
    st.download_button(
        t("sequences.download_table"),
        lambda: frame_csv(table),
        f"{stem}-classes.csv",
        "text/csv",
        on_click="ignore",
    )
    if not job.done:
        st.rerun()
    scores_panel(job.found, job.labels[: len(job.found)], task, stem)


def _table(job: Job, task: SequenceTask, most: int | None) -> pd.DataFrame:
    """A row a record, at most `most`; what not every file has (labels, problems) is a column only where it is there."""
    rows = []
    for one, record, label, reasons in islice(zip(job.found, job.records, job.labels, job.reasons, strict=False), most):
        unlike = "; ".join(said(reason) for reason in reasons)
        row: dict[str, object] = {"id": one.id, "label": label, "length": "", "unlike": unlike, "problem": ""}
        if one.probabilities is None:
            row |= {"predicted": "", "problem": said(one.problem)}
        else:
            letters = len("".join(record.sequence.split()))
            best = task.classes[int(one.probabilities.argmax())]
            row |= {"predicted": best, "letters": letters}
            row["length"] = "" if letters == task.length else plain("sequences.not_trained", length=task.length)
            row |= dict(zip(task.classes, one.probabilities.round(6).tolist(), strict=True))
        rows.append(row)
    columns = ["id", "label", "predicted", *task.classes, "letters", "length", "unlike", "problem"]
    table = pd.DataFrame(rows, columns=columns)
    empty = [name for name in ("label", "length", "unlike", "problem") if not table[name].astype(bool).any()]
    return table.drop(columns=empty)


def _unlike(task: SequenceTask, held_out: HeldOut | None, record: FastaRecord) -> Sequence[str]:
    """Why a record is unlike those that the classifier was trained on, but for its length; nothing if not measured."""
    if held_out is None:
        return ()
    letters = task.alphabet.read(record.sequence)
    return held_out.reasons(composition(letters.text, task.alphabet), task.length, task)


def _open(job: "ref[Job]") -> None:
    """Show the record of the row that was chosen as one sequence."""
    known, rows = job(), st.session_state[ROWS].selection.rows
    if known is not None and rows:
        record = known.records[rows[0]]
        put(read="one", sequence=f">{record.id} {record.description}".rstrip() + f"\n{record.sequence}")
