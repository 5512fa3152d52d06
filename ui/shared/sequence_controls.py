"""What pages that read sequences ask for: the sequence, a layer and a head. Each writes itself to the address."""

from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, Classification, classifier
from transformer.sequences.fasta import FastaRecord, parse_fasta
from transformer.sites import Site
from ui.markdown import as_text
from ui.shared import subject
from ui.shared.address import belong_to, choice, lines, set_parameter
from ui.texts import plain, t

MEAN: Final = "mean"
"""The average of all heads, where a head is chosen."""

POOLING = "pooling"
"""The site by which windows are pooled; its one query is the decision."""

MAX_CHARACTERS = 100_000
"""Longest text that is looked at for a sequence."""

MAX_PASTED = 1_500_000
"""Longest text that the field takes at all; a longer one never leaves the browser."""

MAX_ADDRESS = 2 * LETTERS_AT_ONCE
"""Longest text that the address holds: more than proxies let pass would make a link that leads nowhere."""

LONGEST_NAME = 40
"""Characters of an example's header that its button shows."""

MAX_LISTED = 500
"""Most records of a pasted text that one is chosen of."""

SEQUENCE, RECORD = "sequence", "pasted"
"""What is pasted, and which of its records is shown, counted from 1."""


@dataclass(frozen=True)
class HeadChoice:
    """Which attention is looked at: a site, and a head of it or the mean."""

    site: Site
    head: int | Literal["mean"]

    @property
    def text(self) -> str:
        """Site and head in a few words."""
        if self.head == MEAN:
            return plain("sequences.place_mean", site=site_text(self.site))
        return plain("sequences.place_head", site=site_text(self.site), head=self.head)

    @property
    def stem(self) -> str:
        """Site and head in the name of a file."""
        return f"{self.site}-mean" if self.head == MEAN else f"{self.site}-head-{self.head}"


def site_text(site: str) -> str:
    """A site as it is told of: `encoder.0.self` is a name, the pooling a word."""
    return plain("sequences.pooling") if site == POOLING else site


def typed_sequence(checkpoint: Checkpoint, longest: int = LETTERS_AT_ONCE, opening: str | None = None) -> FastaRecord:
    """The sequence that was pasted, or an example (at first `opening`): bare letters, or a record of FASTA.

    `longest` is what the page runs.

    Raises:
        InputError: there is none, or far too much.
    """
    model, _ = classifier(checkpoint)
    examples = checkpoint.examples
    first = opening or next(iter(examples), "")
    with st.form("sequence-form", border=False):
        text = lines(
            t("sequences.sequence"),
            first,
            key=SEQUENCE,
            height=110,
            longest=MAX_ADDRESS,
            most=MAX_PASTED,
            help=t("sequences.sequence_help"),
        )
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.form_submit_button(t("sequences.run"), type="primary", icon=":material/play_arrow:")
            shortest = max(model.config.widths)
            st.caption(t("sequences.sequence_limit", shortest=shortest, longest=longest))
    if examples:
        with st.popover(t("sequences.examples")):
            for i, example in enumerate(examples):
                header = example.partition("\n")[0]
                named = header.removeprefix(">").strip()[:LONGEST_NAME] if header.startswith(">") else str(i + 1)
                st.button(as_text(named), key=f"sequence-{i}", on_click=taken_example, args=(example,), width="stretch")
    if len(text) > MAX_CHARACTERS:
        raise InputError("sequence_too_much", count=len(text), longest=longest)
    records = list(parse_fasta(text.split("\n")))
    if not records:
        raise InputError("no_sequence")
    if len(records) == 1:
        subject.show(checkpoint.name, records[0].sequence)
        return records[0]
    belong_to(text, RECORD)
    names = {str(i): f"{i}: {one.id[:LONGEST_NAME]}" for i, one in enumerate(records[:MAX_LISTED], 1)}
    chosen = int(choice(t("sequences.record"), list(names), key=RECORD, form="list", text=names.__getitem__))
    st.caption(t("sequences.one_of", count=len(records)))
    subject.show(checkpoint.name, records[chosen - 1].sequence)
    return records[chosen - 1]


def sites(run: Classification) -> dict[str, Site]:
    """Every attention of a run by what the address calls it: the number of its layer, or the pooling, which is last."""
    layers = [site for site in run.record.sites if site != POOLING]
    found = {str(layer): site for layer, site in enumerate(layers)}
    return {**found, POOLING: Site(POOLING)} if POOLING in run.record else found


def place(run: Classification) -> HeadChoice:
    """Choose the layer (or the pooling) and the head."""
    called = sites(run)
    names = list(called)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        layer = choice(
            t("sequences.layer"),
            names,
            default=names[-1],
            key="layer",
            text=lambda name: plain("sequences.pooling") if name == POOLING else name,
        )
        site = called[layer]
        heads = [*(str(head) for head in range(run.record[site].n_heads)), MEAN]
        head = choice(
            t("sequences.head"),
            heads,
            default=MEAN,
            key="head",
            text=lambda name: plain("sequences.mean") if name == MEAN else name,
        )
    pooling_note(run)
    return HeadChoice(site, MEAN if head == MEAN else int(head))


def pooling_note(run: Classification) -> None:
    """What the pooling is among the layers, where there is one."""
    if POOLING in run.record:
        st.caption(t("sequences.place_note"))


def taken_example(example: str) -> None:
    """Show an example instead of what was pasted."""
    set_parameter(SEQUENCE, example)
