"""The panel that scans a long sequence: its track from the whole to the letters, hits, and the files for a browser."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from weakref import ref

import pandas as pd
import streamlit as st

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.plots.export import plot_config
from transformer.plots.scan import ScanPicture, scan_track
from transformer.runs.sequences.held_out import MOST_UNKNOWN, THRESHOLDS, HeldOut, known_held_out
from transformer.runs.sequences.scan import Block, ScanPlan, ScanTrack, Strands, find_hits, plan_scan
from transformer.safe.limits import MEGABYTE
from transformer.sequences.fasta import FastaRecord, fasta_of
from transformer.sequences.hits import GFF3_START, Hit, bed, gff3
from transformer.sequences.task import SequenceTask
from transformer.sequences.tracks import intervals, track_line
from ui.markdown import as_text
from ui.sequences import runs
from ui.sequences.slices import SLICE_SECONDS, Slices, progress
from ui.shared.address import belong_to, choice, put, whole
from ui.shared.files import frame_csv
from ui.shared.theme import is_dark
from ui.store import store, upload_guard
from ui.store.cache import in_session
from ui.texts import language, plain, t

MAX_UPLOAD_MB = 20
MAX_RECORDS = 1_000
"""Most records of a file to choose from."""

MAX_LETTERS = 10_000_000
"""Longest sequence that the page scans; the command line has no limit."""

WORKERS = 2
"""Threads that share the windows of a block."""

AT_ONCE = 6_000
"""A scan of more windows waits for its button."""

BINS = 1_200
"""Most points of a line: a screen has no more."""

LETTERS_SHOWN = 100
"""Up to so many letters are written under the axis."""

MOST_HITS = 2_000
"""Most hits of the table; the files hold all."""

EXAMPLES = 24
"""About so many of a checkpoint's example sequences are joined to one that can be scanned at once."""

JOB, ROWS = "scan-job", "scan-hits"


@dataclass
class Job:
    """A scan on its way, in one session."""

    plan: ScanPlan
    track: ScanTrack
    classes: tuple[str, ...]
    work: Slices[Block]

    @classmethod
    def of(cls, checkpoint: Checkpoint, task: SequenceTask, text: str, step: int, strands: Strands) -> "Job":
        """A scan of which nothing is read yet."""
        plan = plan_scan(checkpoint, task.alphabet.read(text), step, strands)
        track = ScanTrack(plan, tuple(map(task.classes.index, task.findable)))
        return cls(plan, track, task.findable, Slices(plan.blocks(WORKERS)))

    @property
    def count(self) -> int:
        """Windows that were read, on all strands together."""
        return self.track.read * len(self.plan.strands.signs)

    @property
    def judged(self) -> int:
        """Those of them that do not hold too many unknown letters."""
        return self.track.judged * len(self.plan.strands.signs)

    @property
    def pace(self) -> dict[str, float]:
        """Windows a second so far, and the seconds that are left at this rate."""
        rate = self.count / max(self.work.seconds, 1e-9)
        return {"rate": rate, "seconds": (self.plan.passes - self.count) / rate}

    def hits(self, threshold: float) -> list[Hit]:
        """What was found so far."""
        columns = {name: column for column, name in enumerate(self.classes)}
        return find_hits(self.plan, self.track.blocks(), columns, threshold)

    def bedgraph(self, sequence: str) -> str:
        """A track for each strand and class."""
        plan, parts = self.plan, list[str]()
        for row, sign in enumerate(plan.strands.signs):
            for column, name in enumerate(self.classes):
                parts.append(track_line(f"{name} {sign}"))
                for block in self.track.blocks():
                    values = block.probabilities[row, :, column]
                    parts.append(intervals(sequence, values, plan.centre(block.first), plan.step, len(plan.letters)))
        return "".join(parts)


def scan_panel(name: str, checkpoint: Checkpoint, task: SequenceTask) -> None:
    """Choose a sequence, a step and strands; see the probabilities along it, the hits, and take them away."""
    record, data = _record(checkpoint)
    if record is None:
        st.info(t("sequences.scan_none"))
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        steps = [str(step) for step in (1, 3, 10, 30) if step <= task.length]
        step = int(choice(t("sequences.scan_step"), steps, key="step", text=str))
        known = [one.value for one in Strands] if task.alphabet.complement else [Strands.GIVEN.value]
        strands = choice(
            t("sequences.scan_strands"), known, key="strands", default=known[-1],
            text=lambda one: plain(f"sequences.scan_{one}"),
        )  # fmt: skip
    if len(record.sequence) > MAX_LETTERS:
        raise InputError("scan_long", found=len(record.sequence), most=MAX_LETTERS)
    key = (name, store.revision(name), hashlib.sha256(data).hexdigest(), record.id, step, strands)
    job = in_session(
        JOB, key, lambda: Job.of(checkpoint, task, record.sequence, step, Strands(strands)), 1, pinned=True
    )
    if not _is_read(job):
        return
    ended = "sequences.scan_cancelled" if job.work.cancelled else "sequences.scan_done"
    st.caption(t(ended, count=job.count, total=job.plan.passes, seconds=job.work.seconds))
    if job.judged < job.count:
        st.caption(t("sequences.scan_unjudged", count=job.count - job.judged, most=MOST_UNKNOWN))
    threshold = float(
        choice(t("sequences.scan_threshold"), [f"{one:g}" for one in THRESHOLDS], default="0.9", key="least", text=str)
    )
    _say_errors(job, known_held_out(checkpoint), threshold)
    hits = job.hits(threshold)
    _picture(record, job, threshold, *_range(record, job))
    _table(record, job, hits, task)
    _downloads(record, job, hits, task, checkpoint.name)


def _record(checkpoint: Checkpoint) -> tuple[FastaRecord | None, bytes]:
    """The record to scan and the data that it came with: of the reader's file, or the examples joined end to end."""
    upload_guard.expect(2 * MAX_UPLOAD_MB * MEGABYTE)  # the next file comes before the last one goes
    upload = st.file_uploader(
        t("sequences.scan_file"), type=runs.FILES, key="scan-fasta", max_upload_size=MAX_UPLOAD_MB
    )
    if upload is None:
        data = runs.example_set(checkpoint)
        examples = [one.sequence for one in fasta_of(data)]
        joined = "".join(examples[:: max(1, len(examples) // EXAMPLES)])
        st.caption(t("sequences.scan_examples") if joined else "")
        return (FastaRecord("examples", "", joined) if joined else None), data
    data = upload.getvalue()
    records = list(islice(fasta_of(data), MAX_RECORDS))
    if len(records) < 2:
        return (records[0] if records else None), data
    names = {str(i): f"{i}: {one.id} ({len(one.sequence):,})" for i, one in enumerate(records, 1)}
    chosen = choice(
        t("sequences.scan_record"), list(names), key="record", form="list", width=480, text=names.__getitem__
    )
    return records[int(chosen) - 1], data


def _is_read(job: Job) -> bool:
    """Read on for a slice; False where a long scan waits to be asked for, once its first block was measured."""
    work, track = job.work, job.track
    if not track.read:
        work.advance(0, track.add)
    if not work.done and not work.started and job.plan.passes > AT_ONCE:
        st.info(t("sequences.scan_cost", count=job.plan.passes, **job.pace))
        st.button(t("sequences.scan_start"), type="primary", on_click=work.start, icon=":material/play_arrow:")
        return False
    if not work.done:
        work.started = True
        work.advance(SLICE_SECONDS, track.add)
        if not work.done:
            share = track.read / job.plan.n_windows
            progress(work, share, t("sequences.scan_progress", share=share, **job.pace))
        st.rerun()
    return True


def _say_errors(job: Job, known: HeldOut | None, threshold: float) -> None:
    """How often the threshold errs on held-out rows, and what that means for as many windows as were read."""
    if known is None:
        st.caption(t("sequences.scan_not_measured"))
        return
    points = [(name, point) for name in job.classes for point in known.points.get(name, ())]
    for name, point in points if job.judged else ():
        if point.threshold == threshold:
            said: dict[str, Any] = dict(
                name=name, threshold=threshold, rows=known.rows, found=point.found, windows=job.judged
            )
            if point.false:
                st.caption(t("sequences.scan_errors", false=point.false, expected=point.false * job.judged, **said))
            else:  # nothing is known of how seldom that is
                st.caption(t("sequences.scan_no_errors", **said))


def _range(record: FastaRecord, job: Job) -> tuple[int, int]:
    """The windows to draw, from the letters that the reader chose (from 1)."""
    length = len(job.plan.letters)
    belong_to((record.id, length), "from", "to")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        start = whole(t("sequences.scan_from"), 1, length, 1, key="from")
        stop = whole(t("sequences.scan_to"), 1, length, length, key="to")
        middle, half = (start + stop) // 2, max(job.plan.width, stop - start + 1) // 2
        sizes = {"scan_zoom_in": max(LETTERS_SHOWN // 2, half // 4), "scan_zoom_out": 4 * half, "scan_whole": length}
        for text, size in sizes.items():
            ends = {"from": max(1, middle - size), "to": min(length, middle + size)}
            st.button(t(f"sequences.{text}"), key=text, on_click=partial(put, **ends))
    shift, step = job.plan.width // 2, job.plan.step
    first = max(0, (min(start, stop) - 1 - shift) // step)
    after = min(job.track.read, max(0, (max(start, stop) - 1 - shift) // step) + 1)
    return min(first, max(0, after - 1)), after


def _picture(record: FastaRecord, job: Job, threshold: float, first: int, after: int) -> None:
    plan = job.plan
    starts, values = job.track.maxima(first, after, BINS)
    positions = [plan.centre(int(start)) + 1 for start in starts]
    together = -(-(after - first) // BINS)
    letters = ""
    if plan.step == 1 and len(positions) <= LETTERS_SHOWN:
        letters = plan.letters.text[positions[0] - 1 : positions[-1]]
    picture = ScanPicture(record.id, job.classes, plan.strands.signs, positions, values, together, threshold, letters)
    st.plotly_chart(scan_track(picture, dark=is_dark()), key="scan-track", config=plot_config(f"{_stem(record)}-scan"))
    if together == 1:
        st.caption(t("sequences.scan_rule", width=plan.width))
    else:
        st.caption(t("sequences.scan_rule_largest", width=plan.width, count=together))


def _table(record: FastaRecord, job: Job, hits: Sequence[Hit], task: SequenceTask) -> None:
    st.markdown(t("sequences.scan_hits", count=len(hits)))
    if not hits:
        return
    shown = hits[:MOST_HITS]
    if len(shown) < len(hits):
        st.caption(t("sequences.scan_most", count=len(shown)))
    st.caption(t("sequences.scan_open"))
    st.dataframe(
        _frame(shown, task), hide_index=True, height=280, key=ROWS, selection_mode="single-row",
        on_select=partial(_open, ref(job), record.id, shown),
    )  # fmt: skip


def _frame(hits: Sequence[Hit], task: SequenceTask) -> pd.DataFrame:
    spoken = language()
    columns: dict[str, list[object]] = {
        "first": [hit.start + 1 for hit in hits],
        "last": [hit.end for hit in hits],
        "strand": [hit.strand for hit in hits],
        "class": [hit.label for hit in hits],
        "meaning": [task.in_language(task.meanings.get(hit.label, ""), spoken) for hit in hits],
        "probability": [round(hit.probability, 4) for hit in hits],
    }
    return pd.DataFrame({plain(f"sequences.hit_{name}"): values for name, values in columns.items()})


def _open(job: "ref[Job]", name: str, hits: Sequence[Hit]) -> None:
    """Show the window of the row that was chosen as one sequence, as its strand is read."""
    known, rows = job(), st.session_state[ROWS].selection.rows
    if known is None or not rows:
        return
    hit, letters = hits[rows[0]], known.plan.letters
    text = letters.text[hit.start : hit.end]
    if hit.strand == "-":
        text = letters.alphabet.reverse_complement(text)
    put(read="one", sequence=f">{name}:{hit.start + 1}-{hit.end}({hit.strand})\n{text}")


def _downloads(record: FastaRecord, job: Job, hits: Sequence[Hit], task: SequenceTask, name: str) -> None:
    stem = _stem(record)
    files = {
        f"{stem}-hits.csv": (t("sequences.scan_table"), lambda: frame_csv(_frame(hits, task))),
        f"{stem}-hits.bed": (as_text("BED"), lambda: bed(record.id, hits, task)),
        f"{stem}-hits.gff3": (as_text("GFF3"), lambda: GFF3_START + gff3(record.id, hits, name)),
        f"{stem}-scan.bedgraph": (as_text("bedGraph"), lambda: job.bedgraph(record.id)),
    }
    with st.container(horizontal=True):
        for file, (label, data) in files.items():
            kind = "text/csv" if file.endswith("csv") else "text/plain"
            st.download_button(label, data, file, kind, on_click="ignore", key=f"scan-{file}")


def _stem(record: FastaRecord) -> str:
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in record.id)[:60]
