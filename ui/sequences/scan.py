"""The panel that scans a long sequence: its track from the whole to the letters, hits, and the files for a browser."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any
from weakref import ref

import pandas as pd
import streamlit as st

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.errors import InputError
from transformer.figures.export import plot_config
from transformer.figures.scan import ScanPicture, scan_track
from transformer.runs.held_out import MOST_UNKNOWN, THRESHOLDS, HeldOut, known_held_out
from transformer.runs.scan import Block, ScanPlan, Strands, plan_scan
from transformer.runs.scan_track import ScanTrack
from transformer.sequences.fasta import FastaRecord, fasta_of
from transformer.sequences.hits import GFF3_START, Hit, Peaks, bed, gff3
from transformer.sequences.task import SequenceTask
from transformer.sequences.tracks import intervals, track_line
from ui.markdown import as_text
from ui.sequences import runs
from ui.shared.address import belong_to, choice, put, whole
from ui.shared.files import frame_csv
from ui.shared.theme import is_dark
from ui.store import arrivals, store, turns
from ui.store.cache import in_session
from ui.texts import language, plain, t

MAX_UPLOAD_MB = 20
MAX_RECORDS = 1_000
"""Most records of a file to choose from."""

MAX_LETTERS = 10_000_000
"""Longest sequence that the page scans; the command line has no limit."""

SLICE_SECONDS = 0.3
"""How long one rerun scans before it shows how far it is, and listens."""

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
    seconds: float = 0.0
    started: bool = False
    cancelled: bool = False
    blocks: Iterator[Block] = field(default_factory=lambda: iter(()), repr=False)

    @property
    def done(self) -> bool:
        """Nothing is left to do."""
        return self.cancelled or self.track.read == self.plan.n_windows

    @property
    def judged(self) -> int:
        """Windows that were read and do not hold too many unknown letters, on all strands together."""
        return self.track.judged * len(self.plan.strands.signs)

    @property
    def rate(self) -> float:
        """Windows a second so far, on all strands together."""
        return self.track.read * len(self.plan.strands.signs) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """At this rate."""
        left = (self.plan.n_windows - self.track.read) * len(self.plan.strands.signs)
        return left / self.rate

    def advance(self, seconds: float) -> None:
        """Scan for a while, at least one block."""
        started = time.monotonic()
        for block in self.blocks:
            self.track.add(block)
            if time.monotonic() - started > seconds:
                break
        self.seconds += time.monotonic() - started

    def start(self) -> None:
        """Go on past the first block."""
        self.started = True

    def cancel(self) -> None:
        """Leave the rest unread."""
        self.cancelled = True
        self.blocks = iter(())  # its threads end with it


def scan_panel(name: str, checkpoint: Checkpoint, task: SequenceTask) -> None:
    """Choose a sequence, a step and strands; see the probabilities along it, the hits, and take them away."""
    record, data = _record(checkpoint)
    if record is None:
        st.info(t("sequences.scan_none"))
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        steps = [str(step) for step in (1, 3, 10, 30) if step <= task.length]
        step = int(choice(t("sequences.scan_step"), steps, key="step", text=str))
        known = list(Strands) if task.alphabet.complement else [Strands.GIVEN]
        strands = Strands(
            choice(
                t("sequences.scan_strands"), [one.value for one in known], key="strands",
                default=Strands.BOTH.value if Strands.BOTH in known else Strands.GIVEN.value,
                text=lambda one: plain(f"sequences.scan_{one}"),
            )
        )  # fmt: skip
    if len(record.sequence) > MAX_LETTERS:
        raise InputError("scan_long", found=len(record.sequence), most=MAX_LETTERS)
    key = (name, store.revision(name), hashlib.sha256(data).hexdigest(), record.id, step, strands.value)
    job = in_session(JOB, key, lambda: _job(checkpoint, task, record, step, strands), 1, pinned=True)
    if _waits(job):
        return
    if not job.done:
        _go_on(job)
    count = job.track.read * len(job.plan.strands.signs)
    ended = "sequences.scan_cancelled" if job.cancelled else "sequences.scan_done"
    st.caption(t(ended, count=count, total=job.plan.passes, seconds=job.seconds))
    if job.judged < count:
        st.caption(t("sequences.scan_unjudged", count=count - job.judged, most=MOST_UNKNOWN))
    threshold = float(
        choice(t("sequences.scan_threshold"), [f"{one:g}" for one in THRESHOLDS], default="0.9", key="least", text=str)
    )
    _say_errors(job, known_held_out(checkpoint), threshold)
    hits = _hits(job, threshold)
    first, after = _range(record, job)
    _picture(record, job, threshold, first, after)
    _table(record, job, hits, task)
    _downloads(record, job, hits, task, checkpoint.name)


def _record(checkpoint: Checkpoint) -> tuple[FastaRecord | None, bytes]:
    """The record to scan and the data that it came with: of the reader's file, or the examples joined end to end."""
    arrivals.expect(2 * MAX_UPLOAD_MB * MEGABYTE)  # the next file comes before the last one goes
    upload = st.file_uploader(
        t("sequences.scan_file"), type=runs.FILES, key="scan-fasta",
        max_upload_size=MAX_UPLOAD_MB,
    )  # fmt: skip
    if upload is None:
        data = runs.example_set(checkpoint)
        examples = [one.sequence for one in fasta_of(data)]
        joined = "".join(examples[:: max(1, len(examples) // EXAMPLES)])
        st.caption(t("sequences.scan_examples") if joined else "")
        return (FastaRecord("examples", "", joined) if joined else None), data
    data = upload.getvalue()
    records = list(islice(fasta_of(data), MAX_RECORDS))
    if not records:
        return None, data
    names = [str(number) for number in range(1, len(records) + 1)]
    if len(records) == 1:
        return records[0], data
    chosen = choice(
        t("sequences.scan_record"), names, key="record", form="list", width=480,
        text=lambda number: f"{number}: {records[int(number) - 1].id} ({len(records[int(number) - 1].sequence):,})",
    )  # fmt: skip
    return records[int(chosen) - 1], data


def _job(checkpoint: Checkpoint, task: SequenceTask, record: FastaRecord, step: int, strands: Strands) -> Job:
    plan = plan_scan(checkpoint, task.alphabet.read(record.sequence), step, strands)
    columns = tuple(task.classes.index(name) for name in task.findable)
    return Job(plan, ScanTrack(plan, columns), task.findable, blocks=plan.blocks(WORKERS))


def _waits(job: Job) -> bool:
    """Measure the first block of a new scan; True when the rest will take long, and the reader has not asked for it."""
    if not job.track.read:
        with turns.aside():
            job.advance(0)
    if job.done or job.started or job.plan.passes <= AT_ONCE:
        return False
    st.info(t("sequences.scan_cost", count=job.plan.passes, rate=job.rate, seconds=job.seconds_left))
    st.button(t("sequences.scan_start"), type="primary", on_click=job.start, icon=":material/play_arrow:")
    return True


def _go_on(job: Job) -> None:
    """Scan for a while, say how far it is, and run the page again."""
    job.started = True
    with turns.aside():
        job.advance(SLICE_SECONDS)
    if not job.done:
        st.button(t("sequences.cancel"), on_click=job.cancel, icon=":material/stop_circle:")
        share = job.track.read / job.plan.n_windows
        st.progress(share, t("sequences.scan_progress", share=share, rate=job.rate, seconds=job.seconds_left))
    st.rerun()


def _say_errors(job: Job, known: HeldOut | None, threshold: float) -> None:
    """How often the threshold errs on held-out rows, and what that means for as many windows as were read."""
    if known is None:
        st.caption(t("sequences.scan_not_measured"))
        return
    if not job.judged:
        return
    for name in job.classes:
        for point in known.points.get(name, ()):
            if point.threshold != threshold:
                continue
            said: dict[str, Any] = {
                "name": name, "threshold": threshold, "rows": known.rows, "found": point.found, "windows": job.judged,
            }  # fmt: skip
            if point.false:
                st.caption(t("sequences.scan_errors", false=point.false, expected=point.false * job.judged, **said))
            else:  # nothing is known of how seldom that is
                st.caption(t("sequences.scan_no_errors", **said))


def _hits(job: Job, threshold: float) -> list[Hit]:
    plan, track = job.plan, job.track
    found = []
    for column, name in enumerate(job.classes):
        peaks = [Peaks(threshold, plan.width // 2) for _ in plan.strands.signs]
        for first, after in _chunks(track.read):
            values = track.probabilities(first, after)
            for row, peak in enumerate(peaks):
                peak.add(plan.starts(first, after), values[row, column])
        for sign, peak in zip(plan.strands.signs, peaks, strict=True):
            found += [Hit(start, start + plan.width, sign, name, value) for start, value in peak.found()]
    return sorted(found, key=lambda hit: (hit.start, hit.strand, hit.label))


def _chunks(windows: int, size: int = 100_000) -> list[tuple[int, int]]:
    return [(first, min(windows, first + size)) for first in range(0, windows, size)]


def _range(record: FastaRecord, job: Job) -> tuple[int, int]:
    """The windows to draw, from the letters that the reader chose (from 1)."""
    length = len(job.plan.letters)
    belong_to((record.id, length), "from", "to")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        start = whole(t("sequences.scan_from"), 1, length, 1, key="from")
        stop = whole(t("sequences.scan_to"), 1, length, length, key="to")
        middle, half = (start + stop) // 2, max(job.plan.width, stop - start + 1) // 2
        for text, size in (("scan_zoom_in", max(LETTERS_SHOWN // 2, half // 4)), ("scan_zoom_out", 4 * half)):
            ends = {"from": max(1, middle - size), "to": min(length, middle + size)}
            st.button(t(f"sequences.{text}"), key=text, on_click=lambda ends=ends: put(**ends))
        st.button(t("sequences.scan_whole"), key="scan_whole", on_click=lambda: put(**{"from": 1, "to": length}))
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
    table = _frame(shown, task)
    st.dataframe(
        table, hide_index=True, height=280, key=ROWS, on_select=partial(_open, ref(job), record.id, shown),
        selection_mode="single-row",
    )  # fmt: skip


def _frame(hits: Sequence[Hit], task: SequenceTask) -> pd.DataFrame:
    return pd.DataFrame(
        {
            plain("sequences.hit_first"): [hit.start + 1 for hit in hits],
            plain("sequences.hit_last"): [hit.end for hit in hits],
            plain("sequences.hit_strand"): [hit.strand for hit in hits],
            plain("sequences.hit_class"): [hit.label for hit in hits],
            plain("sequences.hit_meaning"): [
                task.in_language(task.meanings.get(hit.label, ""), language()) for hit in hits
            ],
            plain("sequences.hit_probability"): [round(hit.probability, 4) for hit in hits],
        }
    )


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
        "sequences.scan_table": (lambda: frame_csv(_frame(hits, task)), f"{stem}-hits.csv", "text/csv"),
        "BED": (lambda: bed(record.id, hits, task), f"{stem}-hits.bed", "text/plain"),
        "GFF3": (lambda: GFF3_START + gff3(record.id, hits, name), f"{stem}-hits.gff3", "text/plain"),
        "bedGraph": (lambda: _bedgraph(record, job), f"{stem}-scan.bedgraph", "text/plain"),
    }
    with st.container(horizontal=True):
        for text, (data, file, kind) in files.items():
            label = t(text) if "." in text else as_text(text)
            st.download_button(label, data, file, kind, on_click="ignore", key=f"scan-{file}")
    st.caption(t("sequences.scan_bigwig"))


def _bedgraph(record: FastaRecord, job: Job) -> str:
    plan, parts = job.plan, list[str]()
    for row, sign in enumerate(plan.strands.signs):
        for column, name in enumerate(job.classes):
            parts.append(track_line(f"{name} {sign}"))
            for first, after in _chunks(job.track.read):
                values = job.track.probabilities(first, after)[row, column]
                parts.append(intervals(record.id, values, plan.centre(first), plan.step, len(plan.letters)))
    return "".join(parts)


def _stem(record: FastaRecord) -> str:
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in record.id)[:60]
