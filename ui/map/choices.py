"""What the map shows: of which checkpoint, of which text, at which word, with which part open."""

import streamlit as st

from transformer import Checkpoint
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.explain.diagrams.diagram import Node
from transformer.plots.axes import Axis
from transformer.text.vocabulary import IdTokenizer
from ui.components.map.component import ALL
from ui.map.runs import Shown
from ui.shared import address, controls, subject
from ui.shared.address import choice, line
from ui.shared.subject import TEXT, WORD, letters, show
from ui.texts import t

PIECE, STEP, SOURCE, PART, HEAD, LAYERS = "piece", "at_word", "from", "part", "at_head", "layers"
"""The query parameters besides model, text and word: which piece of the word (from 2, the first is not said), the
source word that the encoder speaks of, the open part, the head that was picked in it, and `all` layers. The step 0
means all words; older addresses count it from 1."""

WHOLE = "all"
"""What stands in the address where every layer is drawn, however many there are."""

SAMPLE = 8
"""Tokens of a text for a checkpoint that brings no example."""


def text(name: str, checkpoint: Checkpoint) -> str:
    """What is read: a line, and examples to take."""
    examples = [letters(example) for example in checkpoint.examples]
    address.renamed(sentence=TEXT)
    address.belong_to(name if not checkpoint.translates else checkpoint.languages, TEXT)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        with (
            st.form("read", border=False, width="stretch"),
            st.container(horizontal=True, vertical_alignment="bottom", gap="small"),
        ):
            found = line(t(_label(checkpoint)), examples[0] if examples else _sample(checkpoint), key=TEXT, bare=True)
            st.form_submit_button(t("map.run"), type="primary", icon=":material/play_arrow:")
        controls.examples_menu(checkpoint, lambda example: take(letters(example)))
    show(name, found)
    return found


def step(shown: Shown) -> int:
    """The step that is looked at.

    At first the one in the middle of a translation, that of the first token that was written after a text, that of the
    first hidden word; or all that was read at once.
    """
    count, written = len(shown.steps), shown.translation is not None
    usual = (count - 1) // 2 if written else ALL
    if shown.continued is not None and shown.continued.written:
        usual = shown.continued.prompt - 1
    elif shown.hidden:
        usual = shown.hidden[0]
    marked = subject.marked(shown.axis)
    if marked is not None:
        piece = address.whole_numbers(address.parameter(PIECE) or "", "-") or (1,)
        return marked + min(piece[0], shown.axis.words.count(shown.axis.words[marked])) - 1
    asked = address.whole_numbers(address.parameter(STEP) or "", "-")
    if asked is None or not (1 if written else 0) <= asked[0] <= count:
        return usual
    return asked[0] - 1


def to_step(axis: Axis, number: int) -> None:
    """Look at another step in the next run: a position of the axis, or `ALL`."""
    if number == ALL:
        address.put(**{STEP: 0, WORD: None, PIECE: None})
        return
    piece = number - axis.words.index(axis.words[number])
    address.put(**{STEP: None, WORD: subject.word_at(axis, number), PIECE: piece + 1 if piece else None})


def source(shown: Shown) -> int | None:
    """The source word that was clicked, in a translation of two towers."""
    labels, asked = source_labels(shown), address.parameter(SOURCE)
    return labels.index(asked) if asked in labels and shown.translation is not None else None


def to_source(labels: tuple[str, ...], number: int | None) -> None:
    """Let the encoder speak of another word in the next run, or of the one that is looked at most."""
    address.set_parameter(SOURCE, None if number is None else labels[number])


def source_labels(shown: Shown) -> tuple[str, ...]:
    """What the address calls the words that were read."""
    return Axis.of_tokens("", shown.source).labels


def opened(shown: Shown) -> Node | None:
    """The part that the address opens, if the model has it; decoders alone were once drawn as encoders."""
    asked, diagram = address.parameter(PART) or "", shown.flow.diagram
    names = {asked, asked.replace("encoder", "decoder", 1) if diagram.kind == "decoder" else asked}
    return next((node for node in diagram.nodes if node.name in names), None)


def head(n_heads: int, usual: int) -> int:
    """Which head of the open part is shown."""
    heads = [str(number) for number in range(n_heads)]
    return int(choice(t("translate.head"), heads, default=heads[usual], key=HEAD, text=str))


def open_part(part: str, head: int | None) -> None:
    """Open a part in the next run, with one of its heads."""
    address.put(**{PART: part, HEAD: head})


def close_part() -> None:
    """Show the whole map alone in the next run."""
    address.put(**{PART: None, HEAD: None})


def every_layer() -> bool:
    """Whether every layer is drawn whole."""
    return address.parameter(LAYERS) == WHOLE


def turn_layers() -> None:
    """Fold the layers, or draw every one."""
    address.set_parameter(LAYERS, None if every_layer() else WHOLE)


def take(example: str) -> None:
    """Read another text in the next run."""
    address.put(**{TEXT: example, STEP: None, WORD: None, PIECE: None, SOURCE: None})


def _label(checkpoint: Checkpoint) -> str:
    if checkpoint.task is not None and checkpoint.tokenizer is None:
        return "map.sequence"
    return "map.ids" if isinstance(checkpoint.tokenizer, IdTokenizer) else "map.sentence"


def _sample(checkpoint: Checkpoint) -> str:
    reader = checkpoint.tokenizer
    if reader is None:
        return ""
    length = max(SAMPLE, *getattr(checkpoint.model.config, "widths", ()), 0)  # a window needs as many tokens
    return reader.decode(sample_ids(checkpoint.model.config, length, len(reader)))
