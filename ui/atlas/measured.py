"""What lies beside a checkpoint and was measured of its heads: how much is lost without each."""

from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path

import streamlit as st

from transformer.runs.measures.importance import FILE, WHOLE, Corpus
from ui.store import shipped
from ui.store.atlases import Atlas, Row
from ui.store.cache import cached
from ui.store.refs import CheckpointRef, Origin
from ui.texts import KEY, language, t

IMPORTANCE = "importance"
"""The column of the table for it; the alignment errors stand in the atlas itself."""


@dataclass(frozen=True, eq=False)
class Measured:
    """By how many nats a token the loss rises without each head (zero in its place); `about` is where that was seen."""

    lost: dict[tuple[str, int], float]
    about: Corpus | None = None

    def of(self, row: Row) -> float:
        """A head of the atlas; NaN for one that nobody measured."""
        return self.lost.get((row["site"], row["head"]), nan)

    def place(self, row: Row) -> int:
        """The place of a head among all by how much is lost without it, from 1."""
        return 1 + sum(other > self.of(row) for other in self.lost.values())


def measured(name: str) -> Measured:
    """What lies beside a checkpoint.

    Raises:
        CheckpointError: a file of it is damaged.
    """
    ref = CheckpointRef.parse(name)
    path = shipped.CHECKPOINTS / ref.name / FILE.name
    there = ref.origin is Origin.SHIPPED and path.is_file()
    return _measured(str(path), path.stat().st_mtime_ns if there else 0)


def facts(name: str, atlas: Atlas, row: Row) -> None:
    """What was measured of one head in sentences, and where cross-attention can be looked at as an alignment."""
    found = measured(name)
    if found.about is not None and not isnan(found.of(row)):
        st.caption(
            t("atlas.importance", nats=found.of(row), place=found.place(row), count=len(found.lost)),
            help=t("atlas.importance_help", pairs=found.about.pairs, source=found.about.source),
        )
    read = row.get("error_read")
    if read is not None and not isnan(read):
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.caption(
                t("atlas.errors", written=row["error_written"], read=read), width="content",
                help=t("atlas.errors_help", sentences=atlas.about["linked"]),
            )  # fmt: skip
            st.page_link(
                "pages/align.py", label=t("atlas.open_align"), width="content",
                query_params={"model": name, "head1": f"{row['layer']}.{row['head']}", KEY: language()},
            )  # fmt: skip


@cached()
def _measured(path: str, written: int) -> Measured:
    """Read once; `written` changes with the file, and is 0 where there is none."""
    if not written:
        return Measured({})
    table = FILE.read(Path(path))
    return Measured({(str(one.site), one.head): one.zero for one in table.heads.get(WHOLE, ())}, table.about)
