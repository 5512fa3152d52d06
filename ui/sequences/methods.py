"""One more track of the letters: what a class loses without each, or where the windows' states come from."""

from dataclasses import dataclass

import numpy as np
import streamlit as st
from jaxtyping import Float

from transformer.attention.measures import rank_correlation
from transformer.errors import HeedmapError
from transformer.figures.sequence_tracks import MethodTrack
from transformer.messages import Message
from transformer.runs.measures import faithfulness
from transformer.runs.sequences.attribution import GRADIENTS, RELEVANCE, SHARES, UNKNOWN, WEIGHTS, Mutations
from transformer.runs.sequences.classify import Classification
from ui.sequences import runs
from ui.shared import controls
from ui.shared.address import choice
from ui.store import store
from ui.texts import plain, said, t

NONE = "none"
METHODS = (UNKNOWN, RELEVANCE, *SHARES)
"""Those to choose from: mutations, integrated gradients and attention are always drawn."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method says of each letter."""

    method: str
    values: Float[np.ndarray, " letter"]

    @property
    def column(self) -> str:
        """The name of its column in a file, in no language."""
        return f"{self.method} ({'log-odds lost' if self.method == UNKNOWN else 'multiples of even'})"

    def track(self, label: str) -> MethodTrack:
        """How it is drawn."""
        signed = self.method == UNKNOWN
        title = Message(
            f"sequence_track_{'lost' if signed else 'shares'}", method=runs.method_name(self.method), label=label
        )
        return MethodTrack(said(title), self.values, signed)


def chosen_answer(name: str, run: Classification, target: int) -> Answer | None:
    """The method that is chosen, and what comes of it; None where none is, or its work was stopped."""
    method = choice(
        t("sequences.by"), [NONE, *METHODS], key="by", form="list", width="stretch",
        text=lambda code: plain("sequences.by_none") if code == NONE else said(runs.method_name(code)),
    )  # fmt: skip
    if method == NONE:
        return None
    st.markdown(f"**{t('sources.asks')}** {controls.sentence(Message(f'sequence_question_{method}'))}")
    st.markdown(f"**{t('sources.cannot')}** {controls.sentence(Message(f'sequence_limit_{method}'))}")
    try:
        _say_trust(name, method)
        values = runs.track_of_method(name, run, method, target)
    except HeedmapError as error:
        controls.explain(error)
        return None
    return None if values is None else Answer(method, values)


def _say_trust(name: str, method: str) -> None:
    """How far a method was found to be right, on sequences that the classifier was not trained on."""
    measured = faithfulness.shipped(store.checkpoint(name))
    fare = None if measured is None else measured.fares.get(method)
    if measured is None or fare is None:
        st.info(t("sequences.not_measured"), icon=":material/help:")
        return
    chance = measured.fares["random"].share
    numbers = dict(sequences=fare.sentences, share=fare.share, area=fare.area, chance=chance)
    st.info(t("sequences.measured", **numbers, rho=fare.spearman), icon=":material/fact_check:")


def say_trust_of_tracks(name: str) -> None:
    """The same of the tracks that are always drawn, in a line; nothing where it was not measured."""
    measured = faithfulness.shipped(store.checkpoint(name))
    if measured is not None and {GRADIENTS, WEIGHTS} <= measured.fares.keys():
        gradients, weights, chance = (measured.fares[name] for name in (GRADIENTS, WEIGHTS, "random"))
        fewest = min(fare.sentences for fare in (gradients, weights, chance))
        numbers = dict(sequences=fewest, gradients=gradients.share, weights=weights.share, chance=chance.share)
        st.caption(t("sequences.measured_tracks", **numbers))


def say_agreement(answer: Answer, changes: Mutations) -> None:
    """How far the method orders the letters as mutations do."""
    known = ~np.isnan(answer.values)
    rho = rank_correlation(np.abs(answer.values[known]), changes.effect[known]) if known.any() else float("nan")
    st.caption(t("sequences.by_agreement", method=runs.method_name(answer.method), rho=rho))
