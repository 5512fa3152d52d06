"""Controls that pages share. Every one writes itself to the address, so that a link shows the same picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from transformer import DecodingOptions, Record, Translation
from transformer.errors import AttentionAtlasError
from transformer.measures import has_kind, sites_of
from transformer.run import MAX_CHARACTERS
from ui import cached

KINDS = {
    "decoder.cross": "Cross",
    "decoder.self": "Decoder self",
    "encoder.self": "Encoder self",
}
"""Which attention is looked at, by the first and last part of its site names."""

MEAN: Final = "mean"
"""The head average, where a head is chosen."""


@dataclass(frozen=True)
class Request:
    """What a person asked for: a sentence, how to search, and perhaps a target to force."""

    text: str
    options: DecodingOptions
    forced: str | None


@dataclass(frozen=True)
class Selection:
    """Which map is looked at, and in which form."""

    kind: str
    layer: int
    site: str
    head: int | Literal["mean"]
    words: bool
    special: bool


def checkpoint_choice(*architectures: str) -> str | None:
    """Choose a shipped checkpoint of one of the architectures; None, with an explanation, when there is none."""
    names = cached.checkpoint_names(*architectures)
    if not names:
        st.error(
            f"No checkpoint of a {' or '.join(architectures)} model lies in {cached.CHECKPOINTS.name}/: train one with "
            "`python -m transformer train`, or restore the folder."
        )
        return None
    return st.sidebar.selectbox("Checkpoint", names, key="model", bind="query-params")


def request(examples: Sequence[str], longest_input: int) -> Request:
    """The input form: a sentence of at most `longest_input` tokens, examples, decoding options, a target to force."""
    with st.form("request", border=False):
        text = st.text_area(
            f"Sentence (at most {longest_input} tokens, {MAX_CHARACTERS:,} characters)",
            value=examples[0] if examples else "",
            key="text",
            height=92,
            bind="query-params",
            help="Press Run, or Ctrl+Enter.",
        )
        with st.container(horizontal=True, gap="small"):
            st.form_submit_button("Run", type="primary", icon=":material/play_arrow:")
            with st.popover("Decoding", icon=":material/tune:"):
                beam = st.slider("Beam width", 1, 8, 5, key="beam", bind="query-params", help="1 is greedy decoding.")
                penalty = st.slider(
                    "Length penalty",
                    0.0,
                    2.0,
                    1.0,
                    0.1,
                    key="penalty",
                    bind="query-params",
                    help="Hypotheses are compared by log-probability / length ^ penalty. 0 favours short ones.",
                )
                longest = st.slider("Longest output (tokens)", 5, 200, 100, 5, key="longest", bind="query-params")
                forced = st.text_input(
                    "Force this target",
                    key="force",
                    bind="query-params",
                    placeholder="Optional: a translation of your own",
                    help="The model reads your translation instead of its own, and says how likely each token is.",
                )
    if examples:
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            st.caption("Examples", width="content")
            for i, example in enumerate(examples, 1):
                st.button(str(i), key=f"example-{i}", help=example, on_click=_take_example, args=(example,))
    options = DecodingOptions(beam=beam, length_penalty=penalty, max_length=longest)
    return Request(text or "", options, forced if forced and forced.strip() else None)


def selection(record: Record, default: tuple[int, int]) -> Selection:
    """Kind of attention, layer and head (at first the `default` ones), and in which form maps are shown."""
    available = [kind for kind in KINDS if has_kind(record, kind)]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        kind = st.segmented_control(
            "Attention",
            available,
            default=available[0],
            required=True,
            format_func=KINDS.__getitem__,
            key="kind",
            bind="query-params",
        )
        layers = len(sites_of(record, kind))
        layer = st.segmented_control(
            "Layer",
            range(layers),
            default=min(default[0], layers - 1),
            required=True,
            key="layer",
            bind="query-params",
        )
        site = sites_of(record, kind)[layer]
        attention = record[site]
        heads = [*(str(head) for head in range(attention.n_heads)), MEAN]
        head = st.segmented_control(
            "Head",
            heads,
            default=heads[min(default[1], attention.n_heads - 1)],
            required=True,
            key="head",
            bind="query-params",
        )
        words = st.toggle(
            "Whole words",
            value=True,
            key="words",
            bind="query-params",
            help="Merges subword pieces: weights are summed over the keys of a word and averaged over its queries.",
        )
        special = st.toggle(
            "Special tokens",
            value=True,
            key="special",
            bind="query-params",
            help="Shows start and end marks. Without them, rows no longer sum to 1.",
        )
    return Selection(kind, layer, site, MEAN if head == MEAN else int(head), words, special)


def hypothesis(best: Translation, options: DecodingOptions) -> int | None:
    """Which hypothesis of the beam is looked at; None, with no choice to make, for a forced target."""
    tree = best.tree
    if tree is None:
        return None
    texts = cached.hypothesis_texts(best.checkpoint, best.input, options)
    complete = [node.id for node in tree.hypotheses()]
    others = [node.id for node in tree.nodes[1:] if node.id not in set(complete)]

    def name(node: int) -> str:
        found = tree.nodes[node]
        text = texts[node]
        if node in complete:
            return f"{complete.index(node) + 1}. {text} (score {found.score:.2f})"
        return f"{found.fate} at step {found.step}: {text} …"

    return st.selectbox(
        f"Hypothesis ({len(complete)} complete, {len(others)} left behind)",
        [*complete, *others],
        format_func=name,
        key="node",
        bind="query-params",
        help="The beam's best is shown first. Any other, finished or pruned, shows its own attention.",
    )


def explain(error: AttentionAtlasError) -> None:
    """Say what went wrong and what to change; nothing that was typed is lost."""
    st.warning(sentence(str(error)), icon=":material/info:")


def sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def _take_example(example: str) -> None:
    st.session_state["text"] = example
    st.session_state["force"] = ""
