"""The panel of a long sequence: its track with known exons, the sites that were called, changes, and files."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.errors import InputError
from heedmap.messages import Message
from heedmap.plots.canvas.views import About
from heedmap.runs.measures.held_out import THRESHOLDS, HeldOut, known_held_out
from heedmap.runs.sequences.scan import ScanPlan
from heedmap.runs.sequences.variants import CALLED, Change, Delta, changed_sites, deltas, read_changes
from heedmap.sequences.annotation import known_sites
from heedmap.sequences.hits import GFF3_START, Hit, bed, gff3, is_known, judged, place_of, site_of
from heedmap.sequences.lines import other_names
from heedmap.sequences.task import SequenceTask
from ui.components.tracks.component import Arrow, LetterAxis, Mark, Series, Stretch, Track, tracks
from ui.sequences.scan import SHOWN, SITE, Job, Seen
from ui.sequences.source import WINDOW, Brought, warn
from ui.shared.address import belong_to, choice, line, parameter, put, whole_numbers
from ui.shared.files import Provenance, frame_csv, save_button, table
from ui.store import store
from ui.store.cache import cached_result, in_session, store_of
from ui.texts import as_text, language, plain, said, t

MAX_LETTERS = 4_000_000
"""Longest sequence that the page scans; the command line has no limit."""

AT_ONCE = 6_000
"""A scan of more windows waits for its button."""

BINS, SINGLE_WINDOWS = 1_200, 9_600
"""Most points of a line, since a screen has no more; and most windows of which each read one has its own stem."""

LETTERS_SHOWN = 100
"""Up to so many letters are written under the axis."""

MOST_ASKED, MOST_HITS = 20, 2_000
"""Most changes that the page computes, and most hits of table and picture; the command line and the files hold all."""

SAME = 1e-6
"""Probabilities of one window that came by different ways differ by less."""

JOB, WHOLE = "scan-job", "scan"
"""The kinds of results that a scan on its way is, in one session, and what a finished one has read, for all of them."""

ROWS, TRACK = "scan-hits", "scan-track"
"""The keys of table and picture."""


def gene_panel(name: str, checkpoint: Checkpoint, task: SequenceTask, source: Brought, row: DeltaGenerator) -> None:
    """The track of a sequence and its sites, as it is read; what changes do to them; and what to take away.

    Its controls go on in the `row` in which the sequence is chosen.
    """
    record = source.record
    if len(record.sequence) > MAX_LETTERS:
        raise InputError("scan_long", found=len(record.sequence), most=MAX_LETTERS)
    known = known_sites(source.genes, len(record.sequence))
    with row:
        asked_help = t("sequences.changes_help", most=MOST_ASKED)
        written = line(
            t("sequences.changes"), "", key="variant", width=180, placeholder="568 G>A", help=asked_help
        )  # fmt: skip
        least = [f"{one:g}" for one in THRESHOLDS]
        threshold = float(
            choice(t("sequences.scan_threshold"), least, default="0.9", key="least", form="list", width=100, text=str)
        )
        shown = _shown(source)
        files = st.empty()
    is_on_one_strand = not task.alphabet.complement or {strand for _, strand, _ in known} == {"+"}
    signs = "+" if is_on_one_strand else "+-"
    key = (name, store.revision(name), source.digest, signs)
    whole = store_of(WHOLE, key)
    job = in_session(
        JOB, key, lambda: Job.of(checkpoint, task, record.sequence, signs, whole.find(key)), 1, pinned=True
    )
    if not _is_begun(job):
        return
    if job.done == job.total and key not in whole:
        whole.put(key, job.track)
    found = [] if job.going else _deltas(name, source, written, job.plan)
    seen = Seen(name, task, source, job, known, threshold, job.hits(threshold), found)
    _picture(seen, shown)
    _say(seen, known_held_out(checkpoint))
    if found:
        _changes_table(found, record.id)
    _sites_table(seen)
    with files.popover(t("sequences.files"), key="gene-files"):
        _downloads(seen)
    if job.going:
        st.rerun()


def _shown(source: Brought) -> tuple[int, int]:
    """The letters to draw (from 1, both within): what the reader wrote, else all."""
    length = len(source.record.sequence)
    belong_to(source.digest, SHOWN, SITE)
    written = line(t("sequences.letters_shown"), f"1-{length}", key=SHOWN, width=130)
    first, last = whole_numbers(re.sub("[, ]", "", written), 2) or (1, length)
    first, last = max(1, min(first, last, length)), min(length, max(first, last))
    size = 2 * max(LETTERS_SHOWN, last - first + 1)
    wider = f"{max(1, (first + last) // 2 - size)}-{min(length, (first + last) // 2 + size)}"
    st.button(
        t("sequences.scan_zoom_out"), icon=":material/zoom_out:", key="scan_zoom_out", on_click=put,
        kwargs={SHOWN: None if size >= length else wider}, disabled=(first, last) == (1, length),
    )  # fmt: skip
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


def _deltas(name: str, source: Brought, written: str, plan: ScanPlan) -> list[Delta]:
    """What the changes do that were written or dropped; what is wrong with them is said here."""
    files = (("", written), *source.changes)
    if not written.strip() and not source.changes:
        return []

    def compute() -> tuple[list[Delta], list[Message]]:
        asked, notes = list[Change](), list[Message]()
        for file, text in files:
            read = read_changes(text, source.record.id, plan.letters, source.region)
            asked += read.found
            of_file = [*read.notes, *filter(None, [other_names(read.names, source.names)])]
            notes += (Message("problem_of", name=file, problem=note) if file else note for note in of_file)
        if len(asked) > MOST_ASKED:
            notes.append(Message("changes_many", most=MOST_ASKED, found=len(asked)))
        with st.spinner(t("sequences.reading"), show_time=True):
            found = (deltas(plan.checkpoint, plan.letters, change) for change in asked[:MOST_ASKED])
            return [one for sites in found for one in changed_sites(sites)], notes

    digest = hashlib.sha256(repr(files).encode()).hexdigest()  # the texts are long, and belong to their session
    key = (store.revision(name), source.digest, source.record.id, source.names, source.region, digest)
    try:
        found, notes = cached_result("changes", key, compute)
    except InputError as error:
        found, notes = [], [error.message]
    warn(notes, in_red=not found)
    return found


def _signed(strand: str, probability: Any) -> Any:
    """The height at which the picture shows a probability: that of the other strand downwards."""
    return probability if strand == "+" else -probability


def _picture(seen: Seen, shown: tuple[int, int]) -> None:
    """Known exons above the probabilities of each strand and class, with the calls and what changes do to them."""
    job, plan, record, signs = seen.job, seen.job.plan, seen.source.record, seen.job.plan.signs
    chosen = seen.chosen
    calls = [
        Mark(
            hit.place, _signed(hit.strand, hit.probability), f"{said(hit.said())}: {hit.probability:.3f}",
            job.classes.index(hit.label), is_known(hit, seen.known), hit == chosen,
        )
        for hit in sorted(seen.hits, key=lambda hit: -hit.probability)[:MOST_HITS]
    ]  # fmt: skip
    arrows = [
        Arrow(
            one.place, _signed(one.site.strand, one.before), _signed(one.site.strand, one.after),
            f"{one.change}: {one.before:.2f} → {one.after:.2f}",
        )
        for one in seen.found
        if one.site.strand in signs
    ]  # fmt: skip
    genes = [
        [
            Stretch(
                max(1, begin + 1),
                min(end, seen.length),
                plain("sequences.scan_exon", exon=f"{gene.name}: {begin + 1:,}-{end:,}"),
            )
            for begin, end in gene.exons
            if begin < seen.length and end > 0
        ]
        for gene in seen.source.genes
    ]
    drawn = Track(
        "stems" if plan.is_sparse else "steps", plain("sequences.scan_probability"), _series(seen, shown),
        (-1.0 * ("-" in signs), 1.0 * ("+" in signs)), [_signed(sign, seen.threshold) for sign in signs], calls, arrows,
    )  # fmt: skip
    letters = plan.letters.text[shown[0] - 1 : shown[1]] if shown[1] - shown[0] < LETTERS_SHOWN else ""
    title = plain("sequences.scan_axis", sequence=record.id)
    tracks(
        [*([Track("boxes", boxes=genes)] if genes else []), drawn], LetterAxis(*shown, title, letters), key=TRACK,
        file_name=f"{seen.stem}-scan", about=About(title, Provenance(seen.name).facts()),
        on_pick=partial(_point_out, seen.hits, seen.length),
        on_drag=lambda begin, end: put(**{SHOWN: f"{begin}-{end}"}),
    )  # fmt: skip


def _series(seen: Seen, shown: tuple[int, int]) -> list[Series]:
    """The probabilities of each class on each strand in the letters shown, each the largest of some windows."""
    job, plan, task, half = seen.job, seen.job.plan, seen.task, seen.job.plan.width // 2
    first = min(max(0, shown[0] - 1 - half - 1), max(0, job.done - 1))
    after = max(first + 1, min(job.done, shown[1] - half + 2))
    bins = SINGLE_WINDOWS if plan.is_sparse else BINS
    starts, values = job.track.maxima(first, after, bins)
    together = -(-(after - first) // bins)
    read = plain("sequences.scan_largest", count=together) if together > 1 else plain("sequences.scan_window")
    found = []
    for row, sign in enumerate(plan.signs):
        strand = plain("sequences.scan_up" if sign == "+" else "sequences.scan_down")
        for column, label in enumerate(job.classes):
            mark, offset, name = task.landmark(label), half + 1, label
            if mark is not None:
                offset = place_of(site_of(0, plan.width, sign, mark), sign, mark.term)
                name = f"{label}, {task.in_language(mark.name, language())}"
            note = plain("sequences.scan_series", name=name, strand=strand, read=read)
            height = _signed(sign, values[row, column])
            found.append(Series(f"{name} {sign}", starts + offset, height, note, column, sign == "-"))
    return found


def _point_out(hits: Sequence[Hit], length: int, place: int, height: float) -> None:
    """Point out the site whose value was clicked in the picture, if it is a call."""
    same = [hit for hit in hits if abs(_signed(hit.strand, hit.probability) - height) < SAME]
    if same:  # a stem may stand for several windows, of which the first gives its place
        _show(min(same, key=lambda hit: abs(hit.place - place)), length)


def _show(hit: Hit | None, length: int) -> None:
    """Say in the address which site is pointed out, and bring it into the picture where only a part is shown."""
    moved = {}
    shown = whole_numbers(parameter(SHOWN), 2)
    if hit is not None and shown and not shown[0] <= hit.place <= shown[1]:
        half = (shown[1] - shown[0]) // 2
        moved = {SHOWN: f"{max(1, hit.place - half)}-{min(length, hit.place + half)}"}
    put(**{SITE: None if hit is None else hit.window}, **moved)


def _say(seen: Seen, measured: HeldOut | None) -> None:
    """How many sites were called, how many of the known ones are among them, what was read, and how often it errs."""
    job, plan, hits = seen.job, seen.job.plan, seen.hits
    errors = t("sequences.scan_not_measured")
    if measured is not None:  # on held-out rows, and what that makes in a kilobase
        errors = "\n\n".join(
            t(
                "sequences.scan_errors" if point.false else "sequences.scan_no_errors",
                name=name, threshold=seen.threshold, data=measured.data, own=measured.own[name], found=point.found,
                others=measured.rows - measured.own[name], false=point.false or measured.bound(name),
                kilobase=1_000 * point.false,
            )
            for name in seen.task.findable
            for point in measured.points.get(name, ())
            if point.threshold == seen.threshold
        )  # fmt: skip
    numbers = dict(hits=len(hits), rate=len(hits) / (max(1, job.done) * len(plan.signs) / 1_000))
    found = judged(hits, seen.known, plan.signs)
    if seen.source.genes and found.n_known and found.precision is not None and job.done == job.total:
        ranks = ", ".join(map(str, found.ranks)) or "-"
        fields = dict(found=len(found.ranks), known=found.n_known, ranks=ranks, share=found.precision)
        st.markdown(t("sequences.judged", **fields, **numbers), help=errors)
    else:
        st.markdown(t("sequences.called", **numbers), help=errors)
    if plan.letters.notes:
        st.caption(as_text("; ".join(map(said, plan.letters.notes))))
    if job.cancelled:
        st.caption(t("sequences.scan_cancelled", share=job.done / job.total))


def _changes_table(found: Sequence[Delta], name: str) -> None:
    """Sites that changes gain and lose, with both probabilities."""
    names = [plain(f"sequences.change_{one}") for one in ("change", "site", "letters", "before", "after", "delta")]
    rows = [
        (
            str(one.change), said(one.site.said()), f"{one.was} → {one.found or '-'}",
            *(round(number, 3) for number in (one.before, one.after, one.delta)),
        )
        for one in found
    ]  # fmt: skip
    frame = table(rows, names, key="changes-table", column_config=_narrow(names))
    for one in found:
        if one.is_broken and one.after >= CALLED:
            fields = dict(change=str(one.change), before=one.was, after=one.found, probability=one.after)
            st.warning(t("sequences.change_broken", **fields), icon=":material/warning:")
    save_button(t("sequences.changes_file"), frame, f"{name}-changes.csv")


def _sites_table(seen: Seen) -> None:
    """Sites by probability; a tick points one out, and a button reads the window of the one that is pointed out."""
    if not seen.hits:
        return
    chosen, shown = seen.chosen, sorted(seen.hits, key=lambda hit: (-hit.probability, hit.start))[:MOST_HITS]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if chosen is not None:
            st.button(
                t("sequences.open_window", site=said(chosen.said()), window=chosen.window), type="primary",
                icon=":material/search:", on_click=put, kwargs={WINDOW: chosen.window}, key="open-window",
            )  # fmt: skip
        else:
            st.caption(t("sequences.scan_open"))
        if len(shown) < len(seen.hits):
            st.caption(t("sequences.scan_most", count=len(shown)))

    def choose() -> None:
        rows = st.session_state[ROWS].selection.rows
        _show(shown[rows[0]] if rows else None, seen.length)

    frame = _frame(shown, seen)
    st.dataframe(
        frame, hide_index=True, height=280, key=ROWS, selection_mode="single-row", column_config=_narrow(frame.columns),
        on_select=choose,
    )  # fmt: skip


def _narrow(names: Iterable[str]) -> dict[str, Any]:
    """Columns as wide as what stands in them needs: the site, wide; the rest, small."""
    wide = plain("sequences.hit_site"), plain("sequences.change_site")
    return {name: st.column_config.Column(width="medium" if name in wide else "small") for name in names}


def _frame(hits: Sequence[Hit], seen: Seen) -> pd.DataFrame:
    """A row a hit; whether it is known, where anything is."""
    known = [plain("sequences.is_known" if is_known(hit, seen.known) else "sequences.is_new") for hit in hits]
    columns: dict[str, list[Any]] = {
        "site": [said(hit.said()) for hit in hits],
        "probability": [round(hit.probability, 4) for hit in hits],
        "letters": [hit.found or "-" for hit in hits],
        **({"known": known} if seen.source.genes else {}),
        "near": [plain("sequences.is_weaker") if hit.weaker else "" for hit in hits],
        "window": [hit.window for hit in hits],
    }
    return pd.DataFrame({plain(f"sequences.hit_{name}"): values for name, values in columns.items()})


def _downloads(seen: Seen) -> None:
    """Sites and the track as files, in the letters of the sequence."""
    name, hits = seen.source.record.id, seen.hits
    files = {
        "sites.csv": (t("sequences.scan_table"), lambda: frame_csv(_frame(hits, seen))),
        "sites.bed": (as_text("BED"), lambda: bed(name, hits)),
        "sites.gff3": (as_text("GFF3"), lambda: GFF3_START + gff3(name, hits, seen.name)),
        "scan.bedgraph": (as_text("bedGraph"), lambda: seen.job.bedgraph(name)),
    }
    for file, (label, data) in files.items():
        kind = "text/csv" if file.endswith("csv") else "text/plain"
        save_button(label, data, f"{seen.stem}-{file}", kind, key=f"scan-{file}", width="stretch")
