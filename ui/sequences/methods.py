"""Further tracks of the letters: what a class loses without each, and where the windows' states come from."""

from dataclasses import dataclass

import numpy as np
import streamlit as st
from jaxtyping import Float

from transformer.attention.measures import rank_correlation
from transformer.errors import HeedmapError
from transformer.figures.sequence_tracks import MethodTrack
from transformer.messages import Message
from transformer.runs import faithfulness
from transformer.runs.classify import Classification
from transformer.runs.faithfulness import Faithfulness
from transformer.runs.sequence_attribution import Mutations
from transformer.runs.sequence_methods import DELETIONS, RELEVANCE, SHARES
from ui.sequences import runs
from ui.shared import controls
from ui.shared.address import choice
from ui.store import store
from ui.texts import plain, said, t

NONE = "none"
METHODS = (*DELETIONS, RELEVANCE, *SHARES)

GIVEN, OTHER, BOTH = "given", "other", "both"
"""Which strand is read: as given, its reverse complement, or one after the other."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method says of each letter of the strand given, where it read that one or the other (`strand`)."""

    method: str
    strand: str
    values: Float[np.ndarray, " letter"]

    @property
    def column(self) -> str:
        """The name of its column in a file, in no language."""
        unit = "log-odds lost" if self.method in DELETIONS else "multiples of even"
        return f"{self.method} ({unit})" + (", reverse complement" if self.strand == OTHER else "")

    def track(self, label: str) -> MethodTrack:
        """How it is drawn."""
        signed = self.method in DELETIONS
        title = Message(
            f"sequence_track_{'lost' if signed else 'shares'}", method=runs.method_name(self.method), label=label
        )
        if self.strand == OTHER:
            title = Message("sequence_track_other_strand", title=title)
        return MethodTrack(said(title), self.values, signed)


def answers(name: str, run: Classification, other: Classification | None, target: int) -> list[Answer]:
    """The method and the strand that are chosen, and what comes of them."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        method = choice(
            t("sequences.by"), [NONE, *METHODS], key="by", form="list", width="stretch",
            text=lambda code: plain("sequences.by_none") if code == NONE else said(runs.method_name(code)),
        )  # fmt: skip
        strand = GIVEN
        if other is not None:
            strand = choice(
                t("sequences.strand"), [GIVEN, OTHER, BOTH], key="strand", help=t("sequences.strand_help"),
                text=lambda code: plain(f"sequences.strand_{code}"),
            )  # fmt: skip
    if method == NONE:
        return []
    st.markdown(f"**{t('sources.asks')}** {controls.sentence(Message(f'sequence_question_{method}'))}")
    st.markdown(f"**{t('sources.cannot')}** {controls.sentence(Message(f'sequence_limit_{method}'))}")
    found = []
    try:
        _trusted(faithfulness.shipped(store.checkpoint(name)), method)
        if strand in (GIVEN, BOTH):
            found += _answer(name, run, method, GIVEN, target)
        if other is not None and strand in (OTHER, BOTH):
            found += _answer(name, other, method, OTHER, target)
    except HeedmapError as error:
        controls.explain(error)
    return found


def _trusted(measured: Faithfulness | None, method: str) -> None:
    """How far a method was found to be right, on sequences that the classifier was not trained on."""
    fare = None if measured is None else measured.fares.get(method)
    if measured is None or fare is None:
        st.info(t("sequences.not_measured"), icon=":material/help:")
        return
    chance = measured.fares["random"].share
    numbers = dict(sequences=fare.sentences, share=fare.share, area=fare.area, chance=chance)
    st.info(t("sequences.measured", **numbers, rho=fare.spearman), icon=":material/fact_check:")


def tracks_trusted(name: str) -> None:
    """The same of the tracks that are always drawn, in a line; nothing where it was not measured."""
    measured = faithfulness.shipped(store.checkpoint(name))
    if measured is not None and {"integrated_gradients", "weights"} <= measured.fares.keys():
        gradients, weights, chance = (measured.fares[name] for name in ("integrated_gradients", "weights", "random"))
        fewest = min(fare.sentences for fare in (gradients, weights, chance))
        numbers = dict(sequences=fewest, gradients=gradients.share, weights=weights.share, chance=chance.share)
        st.caption(t("sequences.measured_tracks", **numbers))


def _answer(name: str, run: Classification, method: str, strand: str, target: int) -> list[Answer]:
    """What a method says of one strand; nothing where its work was stopped."""
    values = runs.method_track(name, run, method, target)
    if values is None:
        return []
    # the last letter of the other strand pairs with the first of the strand given
    return [Answer(method, strand, values if strand == GIVEN else values[::-1])]


def agreement(found: list[Answer], changes: Mutations) -> None:
    """How far the methods order the letters as mutations do; of a strand that is read the other way round, too."""
    for answer in found:
        known = ~np.isnan(answer.values)
        rho = rank_correlation(np.abs(answer.values[known]), changes.effect[known]) if known.any() else float("nan")
        st.caption(
            t("sequences.by_agreement", method=runs.method_name(answer.method), rho=rho,
              strand=plain(f"sequences.strand_{answer.strand}"))
        )  # fmt: skip
