"""The panel of a long sequence: its track with known exons, the sites that were called, changes, and files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.plots.canvas.about import About
from transformer.runs.sequences.held_out import THRESHOLDS, HeldOut, known_held_out
from transformer.runs.sequences.scan import ScanPlan, ScanTrack, Strands, find_hits, plan_scan
from transformer.runs.sequences.variants import Delta, changed_sites, deltas
from transformer.sequences.annotation import Place, is_known, judged, known_sites
from transformer.sequences.hits import Hit, place_of, site_of
from transformer.sequences.task import SequenceTask
from transformer.sequences.tracks import intervals, track_line
from transformer.sequences.variants import read_changes
from ui.components.tracks.component import Arrow, Axis, Mark, Series, Stretch, Track, tracks
from ui.markdown import as_text
from ui.sequences.logos import known_and_new
from ui.sequences.sites import (
    MOST_HITS,
    SHOWN,
    SITE,
    TRACK,
    changes_table,
    downloads,
    point_out,
    signed,
    sites_table,
    stem_of,
)
from ui.sequences.source import Brought
from ui.shared.address import belong_to, choice, line, parameter, put, switch, whole_numbers
from ui.shared.files import Origin
from ui.store import store
from ui.store.cache import cached_result, in_session, store_of
from ui.store.sliced import SlicedWork
from ui.texts import language, plain, said, t

MAX_LETTERS = 4_000_000
"""Longest sequence that the page scans; the command line has no limit."""

WORKERS = 2
"""Threads that share the windows of a block."""

AT_ONCE = 6_000
"""A scan of more windows waits for its button."""

BINS, STEMS = 1_200, 9_600
"""Most points of a line, since a screen has no more; and most windows of which each read one has its own stem."""

LETTERS_SHOWN = 100
"""Up to so many letters are written under the axis."""

MOST_ASKED = 20
"""Most changes that the page computes; the command line takes more."""

JOB, WHOLE = "scan-job", "scan"
"""The kinds of results that a scan on its way is, in one session, and what a finished one has read, for all of them."""


@dataclass(kw_only=True)
class Job(SlicedWork):
    """A scan on its way: of `total` windows of each strand, whose probabilities are in the `track` once they are read.

    On all strands it will read `reads` windows.
    """

    plan: ScanPlan
    track: ScanTrack
    classes: tuple[str, ...]
    reads: int

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        task: SequenceTask,
        text: str,
        strands: Strands,
        every: bool,
        read: ScanTrack | None,
    ) -> "Job":
        """A scan of which nothing is read yet, or, of a finished one, all."""
        plan = plan_scan(checkpoint, task.alphabet.read(text), strands, every)
        track = read or ScanTrack(plan, tuple(map(task.classes.index, task.findable)))
        return cls(
            steps=map(track.add, plan.blocks(WORKERS)), total=plan.n_windows, done=track.read, plan=plan, track=track,
            classes=task.findable, reads=plan.reads,
        )  # fmt: skip

    def cancel(self) -> None:
        """Leave the rest; threads behind the steps end with them."""
        super().cancel()
        self.steps = iter(())

    @property
    def time_left(self) -> str:
        """The time that is left at the rate so far: in minutes, from a minute and a half on."""
        long = self.left >= 90
        count = round(self.left / 60 if long else self.left)
        return plain("sequences.minutes" if long else "sequences.seconds", count=count)

    def hits(self, threshold: float) -> list[Hit]:
        """What was found so far."""
        columns = {name: column for column, name in enumerate(self.classes)}
        return find_hits(self.plan, [self.track.known], columns, threshold)

    def bedgraph(self, sequence: str) -> str:
        """A track for each strand and class."""
        values, first = self.track.known.probabilities, self.plan.centre(0)
        return "".join(
            track_line(f"{name} {sign}") + intervals(sequence, values[row, :, column], first)
            for row, sign in enumerate(self.plan.strands.signs)
            for column, name in enumerate(self.classes)
        )


def gene_panel(name: str, checkpoint: Checkpoint, task: SequenceTask, source: Brought, row: DeltaGenerator) -> None:
    """The track of a sequence and its sites, as it is read; what changes do to them; and what to take away.

    Its controls go on in the `row` in which the sequence is chosen.
    """
    record = source.record
    if len(record.sequence) > MAX_LETTERS:
        raise InputError("scan_long", found=len(record.sequence), most=MAX_LETTERS)
    known = known_sites(source.genes)
    with row:
        written = line(
            t("sequences.changes"),
            "",
            key="variant",
            width=180,
            placeholder=_suggestion(source),
            help=t("sequences.changes_help", most=MOST_ASKED),
        )
        least = [f"{one:g}" for one in THRESHOLDS]
        threshold = float(
            choice(t("sequences.scan_threshold"), least, default="0.9", key="least", form="list", width=100, text=str)
        )
        first, after = _shown(source)
        with st.popover(t("sequences.more"), key="gene-more"):
            of_one_strand = bool(known) and {strand for _, strand, _ in known} == {"+"}
            strands = _strands(task, Strands.GIVEN if of_one_strand else Strands.BOTH)
            every = switch(t("sequences.every"), False, key="every", help=t("sequences.every_help"))
            _say_errors(task, known_held_out(checkpoint), threshold)
        files = st.empty()
    key = (name, store.revision(name), source.digest, strands, every)
    whole = store_of(WHOLE, key)
    job = in_session(
        JOB, key, lambda: Job.of(checkpoint, task, record.sequence, strands, every, whole.find(key)), 1, pinned=True
    )
    if not _is_begun(job):
        return
    if job.done == job.total and key not in whole:
        whole.put(key, job.track)
    hits = job.hits(threshold)
    found = _deltas(name, source, written, job) if not job.going else []
    chosen = next((hit for hit in hits if hit.window == parameter(SITE)), None)
    _picture(name, source, job, hits, found, chosen, threshold, (first, after), task)
    _say(job, hits, known, source)
    if found:
        changes_table(found, record.id)
    sites_table(hits, known, chosen, bool(source.genes), len(record.sequence))
    if known and not job.going:
        known_and_new(name, job.plan, hits, known, chosen)
    with files.popover(t("sequences.files"), key="gene-files"):
        downloads(source, hits, known, name, partial(job.bedgraph, record.id))
    if job.going:
        st.rerun()


def _strands(task: SequenceTask, usual: Strands) -> Strands:
    known = [one.value for one in Strands] if task.alphabet.complement else [Strands.GIVEN.value]
    return Strands(
        choice(
            t("sequences.scan_strands"),
            known,
            key="strands",
            default=usual.value if len(known) > 1 else known[0],
            text=lambda one: plain(f"sequences.scan_{one}"),
        )
    )


def _suggestion(source: Brought) -> str:
    """A change that can be tried: the first letter of the first known intron on the given strand."""
    places = sorted(place for _, strand, place in known_sites(source.genes) if strand == "+")
    if not places:
        return "568 G>A"
    letter = source.record.sequence[places[0] - 1].upper()
    return f"{places[0]} {letter}>{'A' if letter != 'A' else 'G'}"


def _shown(source: Brought) -> tuple[int, int]:
    """The letters to draw (from 1, both within): what the reader wrote, else all."""
    length = len(source.record.sequence)
    belong_to(source.digest, SHOWN, SITE)
    written = line(t("sequences.letters_shown"), f"1-{length}", key=SHOWN, width=130)
    found = whole_numbers(re.sub("[, ]", "", written), "-") or ()
    first, last = (*found, 1, length)[:2] if len(found) == 2 else (1, length)
    first, last = max(1, min(first, last, length)), min(length, max(first, last))
    middle, half = (first + last) // 2, max(LETTERS_SHOWN, last - first + 1) // 2
    for text, size in (("scan_zoom_in", max(LETTERS_SHOWN // 2, half // 4)), ("scan_zoom_out", 4 * half)):
        ends = f"{max(1, middle - size)}-{min(length, middle + size)}"
        icon = ":material/zoom_in:" if text == "scan_zoom_in" else ":material/zoom_out:"
        shown = None if size >= length else ends
        st.button(t(f"sequences.{text}"), icon=icon, key=text, on_click=put, kwargs={SHOWN: shown})
    return first, last


def _is_begun(job: Job) -> bool:
    """Read on for a slice; False where a long scan waits to be asked for, once its first block was measured."""
    if not job.done:
        job.advance(0)
    if job.going and not job.started and job.reads > AT_ONCE:
        st.info(t("sequences.scan_cost", count=job.reads, left=job.time_left))
        st.button(t("sequences.scan_start"), type="primary", on_click=job.start, icon=":material/play_arrow:")
        return False
    if job.going:
        job.start()
        job.advance()
    if job.going:
        share = job.done / job.total
        st.button(t("sequences.stop"), on_click=job.cancel, icon=":material/stop_circle:", key="stop-scan")
        st.progress(share, t("sequences.scan_progress", share=share, left=job.time_left))
    return True


def _deltas(name: str, source: Brought, written: str, job: Job) -> list[Delta]:
    """What the changes do that were written or dropped; what is wrong with them is said here."""
    text = "\n".join(filter(None, [written, source.changes]))
    if not text.strip():
        return []
    plan = job.plan

    def compute() -> list[Delta]:
        asked = read_changes(text, source.record.id, plan.letters)
        if len(asked) > MOST_ASKED:
            raise InputError("changes_many", most=MOST_ASKED)
        with st.spinner(t("sequences.reading"), show_time=True):
            return [one for change in asked for one in changed_sites(deltas(plan.checkpoint, plan.letters, change))]

    try:
        return cached_result("changes", (store.revision(name), source.digest, source.record.id, text), compute)
    except InputError as error:
        st.error(as_text(said(error.message)))
        return []


def _picture(
    name: str,
    source: Brought,
    job: Job,
    hits: Sequence[Hit],
    found: Sequence[Delta],
    chosen: Hit | None,
    threshold: float,
    shown: tuple[int, int],
    task: SequenceTask,
) -> None:
    plan, half = job.plan, job.plan.width // 2
    first = min(max(0, shown[0] - 1 - half - 1), max(0, job.done - 1))
    after = max(first + 1, min(job.done, shown[1] - half + 2))
    bins = STEMS if plan.is_sparse else BINS
    starts, values = job.track.maxima(first, after, bins)
    places = np.empty(values.shape, int)
    for row, sign in enumerate(plan.strands.signs):
        for column, label in enumerate(job.classes):
            mark = task.landmark(label)
            offset = half + 1
            if mark is not None:
                offset = place_of(site_of(0, plan.width, sign, mark), sign, mark.term)
            places[row, column] = starts + offset
    known, signs, length = known_sites(source.genes), plan.strands.signs, len(plan.letters)
    calls = [
        Mark(
            hit.place, signed(hit.strand, hit.probability), f"{said(hit.said())}: {hit.probability:.3f}",
            job.classes.index(hit.label), is_known(hit, known), hit == chosen,
        )
        for hit in sorted(hits, key=lambda hit: -hit.probability)[:MOST_HITS]
    ]  # fmt: skip
    changed = [(one, signed(one.site.strand, one.before), signed(one.site.strand, one.after)) for one in found]
    arrows = [
        Arrow(one.place, before, after, f"{one.change}: {one.before:.2f} → {one.after:.2f}")
        for one, before, after in changed
        if one.site.strand in signs
    ]
    genes = [
        [
            Stretch(begin + 1, end, plain("sequences.scan_exon", exon=f"{gene.name}: {begin + 1:,}-{end:,}"))
            for begin, end in gene.exons
        ]
        for gene in source.genes
        if gene.exons
    ]
    drawn = Track(
        "stems" if plan.is_sparse else "steps", plain("sequences.scan_probability"),
        _series(job, [_class_name(task, one) for one in job.classes], places, values, -(-(after - first) // bins)),
        (-1.0 * ("-" in signs), 1.0 * ("+" in signs)), [signed(sign, threshold) for sign in signs], calls, arrows,
    )  # fmt: skip
    letters = plan.letters.text[shown[0] - 1 : shown[1]] if shown[1] - shown[0] < LETTERS_SHOWN else ""
    title = plain("sequences.scan_axis", sequence=source.record.id)
    tracks(
        [*([Track("boxes", boxes=genes)] if genes else []), drawn], Axis(*shown, title, letters), key=TRACK,
        file_name=f"{stem_of(source)}-scan", about=About(title, Origin(name).facts()),
        on_pick=partial(point_out, hits, length), on_drag=lambda begin, end: put(**{SHOWN: f"{begin}-{end}"}),
    )  # fmt: skip


def _series(job: Job, names: Sequence[str], places: np.ndarray, values: np.ndarray, together: int) -> list[Series]:
    """The probabilities of each class on each strand, each the largest of so many windows `together`."""
    read = plain("sequences.scan_largest", count=together) if together > 1 else plain("sequences.scan_window")
    found = []
    for row, sign in enumerate(job.plan.strands.signs):
        strand = plain("sequences.scan_up" if sign == "+" else "sequences.scan_down")
        for column, name in enumerate(names):
            told = plain("sequences.scan_series", name=name, strand=strand, read=read)
            height = signed(sign, values[row, column])
            found.append(Series(f"{name} {sign}", places[row, column], height, told, column, sign == "-"))
    return found


def _class_name(task: SequenceTask, label: str) -> str:
    """A class with the name of its landmark: `EI, donor GT`."""
    mark = task.landmark(label)
    return f"{label}, {task.in_language(mark.name, language())}" if mark else label


def _say(job: Job, hits: Sequence[Hit], known: set[Place], source: Brought) -> None:
    """How many sites were called, how many of the known ones are among them, and what was read."""
    signs = job.plan.strands.signs
    kilobases = max(1, job.done) * len(signs) / 1_000
    numbers = dict(hits=len(hits), rate=len(hits) / kilobases)
    found = judged(hits, known, signs)
    if source.genes and found.n_known and found.precision is not None:
        ranks = ", ".join(map(str, found.ranks)) or "-"
        told = dict(found=len(found.ranks), known=found.n_known, ranks=ranks, share=found.precision)
        st.markdown(t("sequences.judged", **told, **numbers))
    else:
        st.markdown(t("sequences.called", **numbers))
    if job.plan.letters.notes:
        st.caption(as_text("; ".join(map(said, job.plan.letters.notes))))
    if job.cancelled:
        st.caption(t("sequences.scan_cancelled", share=job.done / job.total))


def _say_errors(task: SequenceTask, known: HeldOut | None, threshold: float) -> None:
    """How often the threshold errs on held-out rows, and what that makes in a kilobase."""
    if known is None:
        st.caption(t("sequences.scan_not_measured"))
        return
    for name in task.findable:
        for point in known.points.get(name, ()):
            if point.threshold == threshold:
                told = dict(name=name, threshold=threshold, rows=known.rows, found=point.found, false=point.false)
                code = "scan_errors" if point.false else "scan_no_errors"
                st.caption(t(f"sequences.{code}", kilobase=1_000 * point.false, **told))
