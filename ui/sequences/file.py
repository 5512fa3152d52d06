"""The panel that classifies a whole file: a table that grows, and can be stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any
from weakref import ref

import pandas as pd
import streamlit as st

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, Verdict, classifier, verdicts
from transformer.runs.sequences.held_out import HeldOut, composition, known_held_out
from transformer.safe.limits import MEGABYTE
from transformer.sequences.fasta import FastaRecord, fasta_of, label_of
from transformer.sequences.task import SequenceTask
from ui.sequences.runs import FILES
from ui.sequences.scores import scores_panel
from ui.sequences.slices import SLICE_SECONDS, Slices, progress
from ui.shared.address import put
from ui.shared.files import frame_csv
from ui.store import session_resources, store, upload_guard
from ui.store.cache import in_session
from ui.texts import plain, said, t

MAX_UPLOAD_MB = 20
MAX_RECORDS = 50_000
"""Most records that a page classifies; the command line has no limit."""

SHOWN_MEANWHILE = 500
"""Most rows of the table while the file is read: it is drawn anew with each sign of life, which must come soon."""

ROWS = "file-rows"
"""The key of the table, whose rows open their record."""

JOB = "sequence-job"
"""The kind of result that a file on its way is: it holds a checkpoint, so it goes with the session's uploads."""


@dataclass
class Job:
    """A file on its way through the classifier, in one session; `broken` says why its rest could not be unpacked."""

    work: Slices[Verdict]
    task: SequenceTask
    held_out: HeldOut | None
    records: Sequence[FastaRecord]
    labels: Sequence[str]
    broken: str
    longer: bool
    found: list[Verdict] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)

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
        work = Slices(verdicts(checkpoint, records, LETTERS_AT_ONCE))
        return cls(work, task, known_held_out(checkpoint), records, labels, broken, longer)

    @property
    def note(self) -> str:
        """How it ended."""
        total = len(self.records)
        if self.work.cancelled:
            return t("sequences.file_cancelled", count=len(self.found), total=total)
        if self.broken:
            return t("sequences.file_broken", reason=said(self.broken))
        if self.longer:
            return t("sequences.file_most", count=total)
        return t("sequences.file_all", count=total) if total else t("sequences.file_empty")

    def take(self, one: Verdict) -> None:
        """The next row of the table: class and probabilities, or the problem."""
        record, label, task = self.records[len(self.found)], self.labels[len(self.found)], self.task
        self.found.append(one)
        row: dict[str, object] = {"id": one.id, "label": label, "problem": one.problem}
        if one.probabilities is not None:
            letters = task.alphabet.read(record.sequence)
            row |= {"predicted": task.classes[int(one.probabilities.argmax())], "letters": len(letters)}
            row |= dict(zip(task.classes, one.probabilities.round(6).tolist(), strict=True))
            if self.held_out is not None:
                row["unlike"] = self.held_out.reasons(composition(letters.text, task.alphabet), task.length, task)
        self.rows.append(row)

    def table(self, most: int | None = None) -> pd.DataFrame:
        """A row a record, at most `most`; labels, problems and the like are columns only where there are some."""
        columns = ["id", "label", "predicted", *self.task.classes, "letters", "length", "unlike", "problem"]
        table = pd.DataFrame(map(self._in_words, self.rows[:most]), columns=columns)
        optional = ("label", "length", "unlike", "problem")
        return table.drop(columns=[name for name in optional if not table[name].astype(bool).any()])

    def _in_words(self, row: Mapping[str, Any]) -> dict[str, object]:
        trained = self.task.length
        length = "" if row.get("letters", trained) == trained else plain("sequences.not_trained", length=trained)
        unlike = "; ".join(map(said, row.get("unlike", ())))
        return {"predicted": "", **row, "length": length, "unlike": unlike, "problem": said(row["problem"])}


def file_panel(name: str, task: SequenceTask) -> None:
    """Upload FASTA, plain or packed with gzip; see the table, take it away."""
    upload_guard.expect(2 * MAX_UPLOAD_MB * MEGABYTE)  # the next file comes before the last one goes
    upload = st.file_uploader(t("sequences.file"), type=FILES, key="fasta", max_upload_size=MAX_UPLOAD_MB)
    st.caption(t("sequences.file_limit", megabytes=MAX_UPLOAD_MB, records=MAX_RECORDS, letters=LETTERS_AT_ONCE))
    if upload is None:
        session_resources.mine().results.pop(JOB, None)
        st.info(t("sequences.file_none"))
        return
    key = (name, store.revision(name), upload.file_id)
    job = in_session(JOB, key, lambda: Job.of(store.checkpoint(name), upload.getvalue()), 1, pinned=True)
    if not job.work.done:
        job.work.advance(SLICE_SECONDS, job.take)
    count, total, done = len(job.found), len(job.records), job.work.done
    if not total and not job.broken:
        st.info(job.note)
        return
    if done:
        st.caption(job.note)
        if problems := sum(one.probabilities is None for one in job.found):
            st.caption(t("sequences.file_problems", count=problems))
    else:
        progress(job.work, count / total, t("sequences.file_progress", count=count, total=total))
    table = job.table(None if done else SHOWN_MEANWHILE)
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
        t("sequences.download_table"), lambda: frame_csv(table), f"{stem}-classes.csv", "text/csv", on_click="ignore"
    )
    if not done:
        st.rerun()
    scores_panel(job.found, job.labels[:count], task)


def _open(job: "ref[Job]") -> None:
    """Show the record of the row that was chosen as one sequence."""
    known, rows = job(), st.session_state[ROWS].selection.rows
    if known is not None and rows:
        record = known.records[rows[0]]
        put(read="one", sequence=f">{record.id} {record.description}".rstrip() + f"\n{record.sequence}")
