"""Sites as a table that points at the picture, what changes do to them, and the files of both."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from transformer.runs.sequences.variants import CALLED, Delta
from transformer.sequences.annotation import Place, is_known
from transformer.sequences.hits import GFF3_START, Hit, bed, gff3
from ui.markdown import as_text
from ui.sequences.reading import WINDOW
from ui.sequences.source import Brought
from ui.shared.address import parameter, put, whole_numbers
from ui.shared.files import frame_csv
from ui.texts import plain, said, t

MOST_HITS = 2_000
"""Most hits of the table and of the picture; the files hold all."""

ROWS, TRACK = "scan-hits", "scan-track"
"""The keys of table and picture."""

SAME = 1e-6
"""Probabilities of one window that came by different ways differ by less."""

SITE, SHOWN = "site", "letters"
"""What the address calls the site that is pointed out, and the letters of the picture."""


def changes_table(found: Sequence[Delta], name: str) -> None:
    """Sites that changes gain and lose, with both probabilities."""
    frame = _changes_frame(found)
    st.dataframe(frame, hide_index=True, key="changes-table", column_config=_narrow(frame))
    for one in found:
        if one.is_broken and one.after >= CALLED:
            told = dict(change=str(one.change), before=one.was, after=one.found, probability=one.after)
            st.warning(t("sequences.change_broken", **told), icon=":material/warning:")
    st.download_button(
        t("sequences.changes_file"), lambda: frame_csv(frame), f"{name}-changes.csv", "text/csv", on_click="ignore"
    )


def _changes_frame(found: Sequence[Delta]) -> pd.DataFrame:
    columns: dict[str, list[object]] = {
        "change": [str(one.change) for one in found],
        "site": [said(one.site.said()) for one in found],
        "letters": [f"{one.was} → {one.found or '-'}" for one in found],
        "before": [round(one.before, 3) for one in found],
        "after": [round(one.after, 3) for one in found],
        "delta": [round(one.delta, 3) for one in found],
    }
    return pd.DataFrame({plain(f"sequences.change_{name}"): values for name, values in columns.items()})


def sites_table(hits: Sequence[Hit], known: set[Place], chosen: Hit | None, is_annotated: bool, length: int) -> None:
    """Sites by probability; a tick points one out, and a button reads the window of the one that is pointed out."""
    if not hits:
        return
    shown = sorted(hits, key=lambda hit: (-hit.probability, hit.start))[:MOST_HITS]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if chosen is not None:
            st.button(
                t("sequences.open_window", site=said(chosen.said()), window=chosen.window), type="primary",
                icon=":material/search:", on_click=put, kwargs={WINDOW: chosen.window}, key="open-window",
            )  # fmt: skip
        else:
            st.caption(t("sequences.scan_open"))
        if len(shown) < len(hits):
            st.caption(t("sequences.scan_most", count=len(shown)))
    frame = _frame(shown, known, is_annotated)
    st.dataframe(
        frame, hide_index=True, height=280, key=ROWS, selection_mode="single-row", column_config=_narrow(frame),
        on_select=partial(_choose, shown, length),
    )  # fmt: skip


def _narrow(frame: pd.DataFrame) -> dict[str, Any]:
    """Columns as wide as what stands in them needs: the site, wide; the rest, small."""
    wide = plain("sequences.hit_site"), plain("sequences.change_site")
    return {name: st.column_config.Column(width="medium" if name in wide else "small") for name in frame.columns}


def _frame(hits: Sequence[Hit], known: set[Place], is_annotated: bool) -> pd.DataFrame:
    columns: dict[str, list[object]] = {
        "site": [said(hit.said()) for hit in hits],
        "probability": [round(hit.probability, 4) for hit in hits],
        "letters": [hit.found or "-" for hit in hits],
        "known": [plain("sequences.is_known" if is_known(hit, known) else "sequences.is_new") for hit in hits],
        "near": [plain("sequences.is_weaker") if hit.weaker else "" for hit in hits],
        "window": [hit.window for hit in hits],
    }
    if not is_annotated:
        del columns["known"]
    return pd.DataFrame({plain(f"sequences.hit_{name}"): values for name, values in columns.items()})


def signed(strand: str, probability: Any) -> Any:
    """The height at which the picture shows a probability: that of the other strand downwards."""
    return probability if strand == "+" else -probability


def point_out(hits: Sequence[Hit], length: int, place: int, height: float) -> None:
    """Point out the site whose value was clicked in the picture, if it is a call."""
    same = [hit for hit in hits if abs(signed(hit.strand, hit.probability) - height) < SAME]
    if same:  # a stem may stand for several windows, of which the first gives its place
        _show(min(same, key=lambda hit: abs(hit.place - place)), length)


def _choose(hits: Sequence[Hit], length: int) -> None:
    """Point out the site of the row that was chosen."""
    rows = st.session_state[ROWS].selection.rows
    _show(hits[rows[0]] if rows else None, length)


def _show(hit: Hit | None, length: int) -> None:
    """Say in the address which site is pointed out, and bring it into the picture where only a part is shown."""
    moved = {}
    shown = whole_numbers(parameter(SHOWN) or "", "-")
    if hit is not None and shown is not None and len(shown) == 2 and not shown[0] <= hit.place <= shown[1]:
        half = (shown[1] - shown[0]) // 2
        moved = {SHOWN: f"{max(1, hit.place - half)}-{min(length, hit.place + half)}"}
    put(**{SITE: None if hit is None else hit.window}, **moved)


def downloads(source: Brought, hits: Sequence[Hit], known: set[Place], name: str, track: Callable[[], str]) -> None:
    """Sites and the `track` as files, in the letters of the sequence."""
    stem, record = stem_of(source), source.record
    files = {
        f"{stem}-sites.csv": (t("sequences.scan_table"), lambda: frame_csv(_frame(hits, known, bool(source.genes)))),
        f"{stem}-sites.bed": (as_text("BED"), lambda: bed(record.id, hits)),
        f"{stem}-sites.gff3": (as_text("GFF3"), lambda: GFF3_START + gff3(record.id, hits, name)),
        f"{stem}-scan.bedgraph": (as_text("bedGraph"), track),
    }
    for file, (label, data) in files.items():
        kind = "text/csv" if file.endswith("csv") else "text/plain"
        st.download_button(label, data, file, kind, on_click="ignore", key=f"scan-{file}", width="stretch")


def stem_of(source: Brought) -> str:
    """The name of a sequence as a file may be called."""
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in source.record.id)[:60]
