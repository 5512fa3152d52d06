"""Changes worth trying: a sentence, what is changed, and one line on what to look for."""

from dataclasses import dataclass
from functools import partial

import streamlit as st

from ui.markdown import as_text
from ui.shared.address import put
from ui.shared.changes import CHANGES, DONOR
from ui.texts import plain, t

CHECKPOINT = "multi30k-en-de"
"""The checkpoint that they were found on, by trying every head and every source word of several sentences."""


@dataclass(frozen=True)
class Trial:
    """One of them: the name of its texts, its sentence, its interventions in their short form, perhaps a donor."""

    name: str
    text: str
    changes: str
    donor: str = ""


def nobody(position: int) -> str:
    """This source token for nobody."""
    sites = [f"{stack}.{i}.{kind}" for i in range(4) for stack, kind in (("encoder", "self"), ("decoder", "cross"))]
    return "~~".join(f"{site}~knock_out~k{position}" for site in sites)


def taken(kind: str, what: str) -> str:
    """What the heads of all layers of a kind give on (or weigh) comes from the donor, in every row that both have."""
    stack, kind = kind.split(".")
    rows = "~q0-9" if stack == "decoder" else ""
    return "~~".join(f"{stack}.{i}.{kind}~patch_{what}{rows}~vdonor" for i in range(4))


RIDER = "A man in a red shirt rides a bicycle."
GUITAR = "A woman is playing a guitar on the street."
RIDING_WOMAN = "A woman in a red shirt rides a bicycle."
HORSE = "A man in a red shirt rides a horse."
BENCH = "A woman sitting on a public bench."
WAKEBOARD = "A man wakeboards in the water."
DOCTOR = "The girl is holding her doctor's hand."

TRIALS = (
    Trial("actor", GUITAR, nobody(1)),
    Trial("verb", RIDER, nobody(6)),
    Trial("verb_head", WAKEBOARD, "decoder.1.self~mean~h0"),
    Trial("shirt", RIDER, nobody(5)),
    Trial("colour", RIDER, nobody(4)),
    Trial("instrument", GUITAR, nobody(5)),
    Trial("place", GUITAR, nobody(8)),
    Trial("order", GUITAR, "decoder.0.cross~mean~h2"),
    Trial("determiner", DOCTOR, nobody(4)),
    Trial("head", DOCTOR, "decoder.3.cross~mean~h1"),
    Trial("pair", BENCH, "decoder.0.cross~mean~h2~~decoder.2.self~mean~h1"),
    Trial("donor_output", RIDER, taken("decoder.cross", "output"), RIDING_WOMAN),
    Trial("donor_weights", RIDER, taken("decoder.cross", "weights"), RIDING_WOMAN),
    Trial("donor_horse", RIDER, taken("encoder.self", "output"), HORSE),
    Trial("quiet", RIDER, "decoder.0.cross~mean~h0"),
)


def try_this(name: str) -> None:
    """A button for each; it puts the sentence and the changes into the address."""
    if name != CHECKPOINT:
        return
    with st.expander(t("what_if.try_this"), icon=":material/lightbulb:"):
        for trial in TRIALS:
            line = plain(f"what_if.try_{trial.name}")
            go = partial(put, text=trial.text, force=None, **{CHANGES: trial.changes, DONOR: trial.donor or None})
            st.button(as_text(line), key=f"try-{trial.name}", on_click=go)
