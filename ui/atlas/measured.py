"""What else was measured of heads and lies beside the checkpoint: how much is lost without one, alignment errors."""

from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import streamlit as st

from transformer.runs.measures import alignment_error
from transformer.runs.measures.importance_tables import FOLDER, RUN, WHOLE, Importance
from transformer.sites import Site
from ui.store import shipped
from ui.store.atlases import Atlas, Row
from ui.store.cache import cached
from ui.store.refs import CheckpointRef, Origin
from ui.texts import KEY, language, plain, t

COLUMNS = ("importance", "error_written", "error_read")
"""What the table shows of it."""


@dataclass(frozen=True)
class Head:
    """One head: by how many nats a token the loss rises without it, and its alignment error in the row that writes.

    `error_read` is that of the row that reads the word, one step later. What was not measured is NaN.
    """

    importance: float = nan
    error_written: float = nan
    error_read: float = nan


@dataclass(frozen=True, eq=False)
class Measured:
    """All heads of a checkpoint; `about` is the importance's run.json, `sentences` how many were aligned by people."""

    heads: dict[tuple[str, int], Head]
    about: dict[str, Any] | None = None
    sentences: int | None = None

    def of(self, row: Row) -> Head:
        """A head of the atlas; one that nobody measured has no numbers."""
        return self.heads.get((row["site"], row["head"]), Head())

    def place(self, row: Row) -> int:
        """The place of a head among all by how much is lost without it, from 1."""
        mine = self.of(row).importance
        return 1 + sum(other.importance > mine for other in self.heads.values())


def measured(name: str, atlas: Atlas) -> Measured:
    """What lies beside the checkpoint of an atlas.

    Raises:
        CheckpointError: a file of it is damaged.
    """
    ref = CheckpointRef.parse(name)
    if ref.origin is not Origin.SHIPPED:
        return Measured({})
    folder = shipped.CHECKPOINTS / ref.name
    stamps = tuple(
        path.stat().st_mtime_ns if path.is_file() else 0
        for path in (folder / alignment_error.SUMMARY, folder / FOLDER / RUN)
    )
    return _measured(str(folder), stamps, tuple((row["site"], row["head"]) for row in atlas.heads))


def facts(name: str, found: Measured, row: Row) -> None:
    """What was measured of one head in sentences, and where cross-attention can be looked at as an alignment."""
    one = found.of(row)
    if found.about is not None and not isnan(one.importance):
        st.caption(
            t("atlas.importance", nats=one.importance, place=found.place(row), count=len(found.heads),
              pairs=found.about["pairs"], source=found.about["source"])
        )  # fmt: skip
    if found.sentences is not None and not isnan(one.error_read):
        st.caption(t("atlas.errors", written=one.error_written, read=one.error_read, sentences=found.sentences))
        st.page_link(
            "pages/align.py",
            label=t("atlas.open_align"),
            query_params={"first": name, "head1": f"{row['layer']}.{row['head']}", KEY: language()},
        )


def short_line(found: Measured, row: Row) -> str:
    """The same in one short line of plain text, for a card; empty where nothing was measured."""
    one = found.of(row)
    parts = []
    if not isnan(one.importance):
        parts.append(plain("atlas.card_importance", nats=one.importance))
    if not isnan(one.error_read):
        side = "read" if one.error_read <= one.error_written else "written"
        parts.append(plain(f"atlas.card_error_{side}", error=min(one.error_written, one.error_read)))
    return " · ".join(parts)


@cached()
def _measured(folder: str, stamps: tuple[int, ...], heads: tuple[tuple[str, int], ...]) -> Measured:
    """Read once; `stamps` change with the files."""
    place, about = Path(folder), None
    lost: dict[tuple[str, int], float] = {}
    if stamps[1]:
        table = Importance.of_folder(place / FOLDER)
        about = dict(table.about)
        lost = {(str(one.site), one.head): one.zero for one in table.heads.get(WHOLE, ())}
    counts = place / alignment_error.SUMMARY
    aligned = alignment_error.read(counts) if counts.is_file() else None
    known = {}
    for site, head in heads:
        written = read = nan
        at = Site(site)
        if aligned is not None and at.group == "decoder.cross" and at.layer is not None:
            rates = aligned[1].get(f"weights.{at.layer}.{head}")
            if rates is not None:
                written, read = rates["written"].error_rate, rates["read"].error_rate
        known[site, head] = Head(lost.get((site, head), nan), written, read)
    return Measured(known, about, None if aligned is None else aligned[0])
