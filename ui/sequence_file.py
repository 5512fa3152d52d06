"""The panel that classifies a whole file: a table that grows, and can be stopped."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st

from transformer.checkpoint.task import SequenceTask
from transformer.classify import MAX_LETTERS, Verdict, verdicts
from transformer.errors import InputError
from transformer.tokens.fasta import fasta_of
from ui import cached

MAX_UPLOAD_MB = 20
MAX_RECORDS = 50_000
"""Most records that a page classifies; the command line has no limit."""

SLICE_SECONDS = 0.5
"""How long one rerun classifies before it shows what it has, and listens."""

JOB = "sequence-job"


@dataclass
class Job:
    """A file on its way through the classifier, in one session."""

    file_id: str
    source: Iterator[Verdict]
    found: list[Verdict] = field(default_factory=list)
    done: bool = False
    note: str = ""

    def advance(self, seconds: float) -> None:
        """Classify for a while."""
        until = time.monotonic() + seconds
        try:
            for verdict in self.source:
                self.found.append(verdict)
                if len(self.found) >= MAX_RECORDS:
                    self.done, self.note = True, f"Stopped after {MAX_RECORDS:,} records; `classify` reads any number."
                    return
                if time.monotonic() > until:
                    return
            self.done = True
        except InputError as error:
            self.done, self.note = True, f"Stopped after {len(self.found):,} records: {error}."

    def cancel(self) -> None:
        """Leave the rest unread."""
        self.done, self.note = True, f"Stopped by you after {len(self.found):,} records."


def file_panel(name: str, task: SequenceTask) -> None:
    """Upload FASTA, plain or packed with gzip; see the table, take it away."""
    upload = st.file_uploader(
        "FASTA file", type=["fa", "fasta", "fna", "gz", "txt"], key="fasta", max_upload_size=MAX_UPLOAD_MB
    )
    st.caption(
        f"Plain or gzip, at most {MAX_UPLOAD_MB} MB and {MAX_RECORDS:,} records of {MAX_LETTERS:,} letters. "
        "Larger files: `python -m transformer classify CHECKPOINT FILE.fa.gz > out.tsv`."
    )
    if upload is None:
        st.session_state.pop(JOB, None)
        st.info("Choose a FASTA file with one or many sequences; each gets its class and probabilities.")
        return
    job: Job | None = st.session_state.get(JOB)
    file_id = f"{name}/{cached.revision(name)}/{upload.file_id}"
    if job is None or job.file_id != file_id:
        job = Job(file_id, verdicts(cached.checkpoint(name), fasta_of(upload.getvalue())))
        st.session_state[JOB] = job
    if not job.done:
        job.advance(SLICE_SECONDS)
    if job.done:
        st.caption(job.note or f"All {len(job.found):,} records were read.")
    else:
        st.button("Cancel", on_click=job.cancel, icon=":material/stop_circle:")
        st.progress(0.0, f"{len(job.found):,} records read …")
    table = _table(job.found, task)
    st.dataframe(table, hide_index=True)
    stem = upload.name.partition(".")[0] or "sequences"
    st.download_button(
        "Table (CSV)", lambda: table.to_csv(index=False), f"{stem}-classes.csv", "text/csv", on_click="ignore"
    )
    if not job.done:
        st.rerun()


def _table(found: list[Verdict], task: SequenceTask) -> pd.DataFrame:
    rows = [
        {"id": one.id, "predicted": "", "problem": one.problem}
        if one.probabilities is None
        else {"id": one.id, "predicted": task.classes[int(one.probabilities.argmax())]}
        | dict(zip(task.classes, one.probabilities.round(6).tolist(), strict=True))
        for one in found
    ]
    columns = ["id", "predicted", *task.classes]
    return pd.DataFrame(rows, columns=columns + ["problem"] * any(one.probabilities is None for one in found))
