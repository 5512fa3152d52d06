"""What the map shows: of which text and what was written after it, at which word, with which part open."""

from functools import partial

import streamlit as st

from heedmap import Checkpoint
from heedmap.explain.diagram import Node
from heedmap.plots.axes import Axis
from heedmap.runs.any_model import continues, sample_text
from heedmap.runs.continuing import mask_of
from heedmap.text.tokenizers import IdTokenizer
from ui.components.map.component import ALL
from ui.map.shown import Shown, continued, run_of
from ui.shared import address, controls, subject, writing
from ui.shared.address import line
from ui.shared.subject import TEXT, WORD, letters, show
from ui.texts import t

PIECE, STEP, SOURCE, PART, HEAD, LAYERS = "piece", "at_word", "from", "part", "at_head", "layers"
"""The query parameters besides model, text and word: which piece of the word (from 2, the first is not said), the
source word that the encoder speaks of, the open part, the head that was picked in it, and `all` layers. The step 0
means all words."""

WHOLE = "all"
"""What stands in the address where every layer is drawn, however many there are."""


def text(name: str, checkpoint: Checkpoint) -> str:
    """What is read: a line, and examples to take."""
    address.belong_to(name if not checkpoint.translates else checkpoint.languages, TEXT)
    label = t("map.ids" if isinstance(checkpoint.tokenizer, IdTokenizer) else "map.sentence")
    if checkpoint.task is not None and checkpoint.tokenizer is None:
        label = t("map.sequence")
    row = partial(st.container, horizontal=True, vertical_alignment="bottom", gap="small")
    with row():
        with st.form("read", border=False, width="stretch"), row():
            found = line(label, letters(sample_text(checkpoint)), key=TEXT, bare=True)
            st.form_submit_button(t("map.run"), type="primary", icon=":material/play_arrow:")
        controls.examples_menu(checkpoint, lambda example: take(letters(example)))
    show(name, found)
    return found


def run(name: str, checkpoint: Checkpoint, text: str) -> Shown:
    """The run of a text: with all that was written after it, where that is asked for.

    Raises:
        InputError: the text cannot be read, or leaves no room.
        CheckpointError: the checkpoint has no way to read a text.
    """
    if not continues(checkpoint):
        if mask_of(checkpoint):
            writing.words_to_hide(checkpoint, text, take)
        return run_of(name, text)
    options = writing.options_form()
    address.belong_to((name, text, options), STEP, WORD, PIECE)
    return continued(name, text, options)


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
        piece, *_ = address.whole_numbers(address.parameter(PIECE)) or (1,)
        return marked + min(piece, shown.axis.words.count(shown.axis.words[marked])) - 1
    return ALL if address.parameter(STEP) == "0" and not written else usual


def to_step(axis: Axis, number: int) -> None:
    """Look at another step in the next run: a position of the axis, or `ALL`."""
    if number == ALL:
        address.put(**{STEP: 0, WORD: None, PIECE: None})
        return
    piece = number - axis.words.index(axis.words[number])
    address.put(**{STEP: None, WORD: subject.word_at(axis, number), PIECE: piece + 1 if piece else None})


def source(shown: Shown, labels: tuple[str, ...]) -> int | None:
    """The source word that was clicked, in a translation of two towers; `labels` are what the address calls them."""
    asked = address.parameter(SOURCE)
    return labels.index(asked) if asked in labels and shown.translation is not None else None


def opened(shown: Shown) -> Node | None:
    """The part that the address opens, if the model has it."""
    asked = address.parameter(PART)
    return next((node for node in shown.flow.diagram.nodes if node.name == asked), None)


def close_part() -> None:
    """Show the whole map alone in the next run."""
    address.put(**{PART: None, HEAD: None})


def take(example: str) -> None:
    """Read another text in the next run."""
    address.put(**{TEXT: example, STEP: None, WORD: None, PIECE: None, SOURCE: None})
