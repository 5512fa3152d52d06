"""The panel that holds motifs against known ones, in a file that the reader brings."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float

from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.figures.export import plot_config
from transformer.figures.logo import logo
from transformer.runs.known_motifs import COLUMNS, HeadMatch, head_matches
from transformer.runs.sequence_sets import MOST_FALSE, SequenceSet
from transformer.sequences.motif_files import LETTERS, read_motifs
from transformer.sequences.motif_matching import KnownMotifs
from transformer.sequences.motifs import FLANK
from transformer.sites import Site
from ui.shared.files import frame_csv
from ui.shared.theme import is_dark
from ui.store import arrivals
from ui.store.cache import in_session
from ui.store.refs import Revision
from ui.texts import plain, t

MAX_KNOWN_MB = 5
TYPES = ["meme", "txt", "jaspar", "pfm"]
"""What files of motifs are called."""

KNOWN, MATCHES = "known-motifs", "known-matches"
"""The kinds of result that a file of motifs is, and what was made of it."""

_SHORT = st.column_config.NumberColumn(format="%.2g")


def known_panel(
    found: SequenceSet, whose: tuple[Revision, bytes], asked: tuple[int, int], place: tuple[Site, int]
) -> None:
    """Bring known motifs; see the one that this head's is most like, laid beside it, and that of every head.

    `whose` is the checkpoint and the set, `asked` class and width, `place` the head that is shown.
    """
    st.markdown(t("sequences.known"), help=t("sequences.known_help"))
    arrivals.expect(2 * MAX_KNOWN_MB * MEGABYTE)  # the next file comes before the last one goes
    upload = st.file_uploader(t("sequences.known_file"), type=TYPES, key="known", max_upload_size=MAX_KNOWN_MB)
    if upload is None:
        return
    data = upload.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    known = in_session(KNOWN, digest, lambda: KnownMotifs(read_motifs(data.decode("utf-8", "replace"))), entries=1)
    key = (whose[0], hashlib.sha256(whose[1]).hexdigest(), digest, asked)
    every = in_session(MATCHES, key, lambda: head_matches(found, known, *asked))
    chosen = next(one for one in every if (one.site, one.head) == place)
    match = chosen.match
    st.markdown(
        t(
            "sequences.known_best", count=len(known.motifs), name=match.known.text, overlap=match.overlap,
            distance=match.distance, p=f"{match.p_value:.2g}", e=f"{match.e_value:.2g}", heads=len(every),
            q=f"{chosen.q_value:.2g}",
        )
    )  # fmt: skip
    if chosen.q_value > MOST_FALSE:
        st.info(t("sequences.known_by_chance", most=MOST_FALSE))
    _beside(chosen)
    st.markdown(t("sequences.known_heads"))
    st.dataframe(_shown(every), hide_index=True, column_config=dict.fromkeys(("p", "E", "q"), _SHORT))
    table = pd.DataFrame([one.cells for one in every], columns=list(COLUMNS))
    stem = f"{chosen.label}-width-{chosen.width}-known-motifs"
    st.download_button(
        t("sequences.known_table"), lambda: frame_csv(table), f"{stem}.csv", "text/csv", on_click="ignore"
    )


def _shown(every: Sequence[HeadMatch]) -> pd.DataFrame:
    """The table as the page shows it, in the reader's language."""
    columns = {
        "known_site": [f"{one.site}, {one.head}" for one in every],
        "known_consensus": [one.motif.consensus for one in every],
        "known_name": [one.match.known.text for one in every],
        "known_offset": [one.match.offset - FLANK for one in every],
        "hit_strand": [one.match.strand for one in every],
        "known_overlap": [one.match.overlap for one in every],
        "known_distance": [round(one.match.distance, 3) for one in every],
    }
    shown = pd.DataFrame({plain(f"sequences.{name}"): values for name, values in columns.items()})
    chances = {"p": [one.match.p_value for one in every], "E": [one.match.e_value for one in every]}
    return shown.assign(**chances, q=[one.q_value for one in every])


def _beside(chosen: HeadMatch) -> None:
    """Both logos over the same columns, one above the other."""
    match, width = chosen.match, chosen.motif.counts.shape[1]
    first, after = min(0, match.offset), max(width, match.offset + match.frequencies.shape[1])
    core = chosen.width
    names = [i - FLANK for i in range(first, after)]
    positions = [str(i + 1 if 0 <= i < core else (i if i < 0 else f"+{i - core + 1}")) for i in names]
    text = "sequences.known_given" if match.strand == "+" else "sequences.known_other"
    rows = (
        ("this", plain("sequences.known_this"), chosen.motif.heights, 0),
        ("known", plain(text, name=match.known.text), _heights(match.frequencies), match.offset),
    )
    for key, title, heights, offset in rows:
        shown = np.zeros((len(LETTERS), after - first))
        shown[:, offset - first : offset - first + heights.shape[1]] = heights
        figure = logo(LETTERS, shown, positions, title=title, dark=is_dark())
        st.plotly_chart(figure, key=f"known-{key}", config=plot_config(f"{chosen.label}-{key}", "svg"))


def _heights(frequencies: Float[np.ndarray, "letter column"]) -> Float[np.ndarray, "letter column"]:
    """A logo's letters in bits; nothing is taken off for few sequences, whose number is not known."""
    bits = np.log2(len(LETTERS)) + (frequencies * np.log2(np.where(frequencies > 0, frequencies, 1))).sum(axis=0)
    return frequencies * bits.clip(min=0)
