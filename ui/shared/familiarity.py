"""Whether a sentence is like those that a model was trained on; every page with a sentence of one's own says so."""

import streamlit as st

from transformer import Checkpoint, Translation
from transformer.messages import Message
from transformer.runs.measures.out_of_distribution import counts_of, known_bounds
from ui.texts import language, plain, said, t


def unlike(checkpoint: Checkpoint, best: Translation) -> tuple[Message, ...]:
    """Why the source of a translation is far from what the model was trained on; nothing where it is not."""
    known = known_bounds(checkpoint)
    return () if known is None or best.tree is None else known.reasons(counts_of(checkpoint, best))


def warn_of_unlike(checkpoint: Checkpoint, best: Translation) -> bool:
    """Warn, with the reasons, where the source is far from what the model was trained on; says whether it is."""
    known, reasons = known_bounds(checkpoint), unlike(checkpoint, best)
    if known is None or not reasons:
        return False
    why = plain("translate.reason_after").join(said(reason) for reason in reasons)
    rates = {"rate": 100 * known.false_alarms, "caught": 100 * known.caught}
    st.warning(t("translate.far", texts=known.texts[language()], why=why, **rates), icon=":material/travel_explore:")
    return True
