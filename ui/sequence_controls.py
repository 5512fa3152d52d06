"""Controls of the Sequences page; each writes itself to the address."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from transformer.checkpoint.folder import Checkpoint
from transformer.classify import MAX_LETTERS, Classification
from transformer.errors import InputError
from transformer.tokens.fasta import FastaRecord, parse_fasta

MEAN = "mean"
"""The average of all heads, where a head is chosen."""

POOLING = "pooling"
"""The site by which windows are pooled; its one query is the decision."""

MAX_CHARACTERS = 100_000
"""Longest text that is looked at for a sequence."""

MAX_PASTED = 1_500_000
"""Longest text that the field takes at all; a longer one never leaves the browser."""


@dataclass(frozen=True)
class Place:
    """Which attention is looked at: a site, and a head of it or the mean."""

    site: str
    head: int | str

    @property
    def name(self) -> str:
        """Site and head in a few words."""
        return f"{self.site}, {'mean of heads' if self.head == MEAN else f'head {self.head}'}"


def typed_sequence(checkpoint: Checkpoint) -> FastaRecord:
    """The sequence that was pasted, or an example: bare letters, or the first record of FASTA.

    Raises:
        InputError: there is none, or far too much.
    """
    examples = checkpoint.examples
    with st.form("sequence-form", border=False):
        text = st.text_area(
            "Sequence",
            value=examples[0] if examples else "",
            key="sequence",
            height=110,
            max_chars=MAX_PASTED,
            bind="query-params",
            help=f"Letters, or FASTA (its first record). At most {MAX_LETTERS:,} letters. Press Run, or Ctrl+Enter.",
        )
        with st.container(horizontal=True, gap="small"):
            st.form_submit_button("Run", type="primary", icon=":material/play_arrow:")
            st.caption(f"At most {MAX_LETTERS:,} letters; case and white space do not matter.")
    with st.popover("Examples", icon=":material/format_list_bulleted:"):
        for i, example in enumerate(examples):
            header = example.partition("\n")[0].removeprefix(">")
            st.button(header, key=f"sequence-{i}", on_click=_take_example, args=(example,), type="tertiary")
    text = text or ""
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"{len(text):,} characters were pasted, at most {MAX_LETTERS:,} letters are run: choose a part, "
            "or read many sequences from a file"
        )
    records = list(parse_fasta(text.split("\n")))
    if not records:
        raise InputError("the sequence is empty: paste letters or FASTA, or choose an example")
    if len(records) > 1:
        st.caption(f"The first of {len(records)} records is shown; “A file” classifies all of them.")
    return records[0]


def place(run: Classification) -> Place:
    """Choose the layer (or the pooling) and the head."""
    layers = [site for site in run.record.sites if site != POOLING]
    names = [str(i) for i in range(len(layers))] + [POOLING] * (POOLING in run.record)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        layer = st.segmented_control(
            "Layer",
            names,
            default=names[-1],
            required=True,
            key="layer",
            bind="query-params",
            help="Self-attention of a layer, or the attention by which windows are pooled for the decision.",
        )
        site = POOLING if layer == POOLING else layers[int(layer)]
        heads = [*(str(head) for head in range(run.record[site].n_heads)), MEAN]
        head = st.segmented_control("Head", heads, default=MEAN, required=True, key="head", bind="query-params")
    return Place(site, MEAN if head == MEAN else int(head))


def one_of(label: str, options: Sequence[str], *, key: str) -> str:
    """One of a few, as a row of buttons; the first unless the address names another."""
    return st.segmented_control(label, options, default=options[0], required=True, key=key, bind="query-params")


def _take_example(example: str) -> None:
    st.session_state["sequence"] = example
