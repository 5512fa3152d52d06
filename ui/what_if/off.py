"""What a head that is off gives on: what new switches write, and what either way costs where that was measured."""

from typing import Final

import streamlit as st

from transformer import Checkpoint
from transformer.errors import HeedmapError
from transformer.runs.measures.importance import WHOLE, mean_against_zero
from ui.shared import controls
from ui.shared.address import choice
from ui.shared.changes import OFF
from ui.texts import plain, t
from ui.what_if.corpus import importance_of

WAY: Final = "off"
"""The query parameter of what new switches write; what stands in the address is done as it stands there."""


def off_choice(checkpoint: Checkpoint) -> str:
    """What a head gives on that is switched off from now on: its mean output, or zero (also where no means are known).

    What is changed already keeps its way.
    """
    if checkpoint.means is None:
        st.caption(t("what_if.no_means"))
        return "zero"
    chosen = choice(t("what_if.off"), OFF, key=WAY, text=lambda action: plain(f"what_if.off_{action}"))
    st.caption(t(f"what_if.off_{chosen}_why", set=checkpoint.means.reference))
    _costs(checkpoint)
    return chosen


def _costs(checkpoint: Checkpoint) -> None:
    """By how much either way costs more on the corpus on which this checkpoint's heads were measured; else nothing."""
    try:
        found = importance_of(checkpoint)
    except HeedmapError as error:
        controls.explain(error)
        return
    costs = None if found is None else mean_against_zero(found.heads[WHOLE])
    if found is not None and costs is not None:
        about = {"pairs": found.about.pairs, "source": found.about.source}
        st.caption(t("what_if.off_measured", **about, **costs._asdict()))
