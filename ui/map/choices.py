"""What the map shows: of which checkpoint, of which text, at which word, with which part open.

None of its parameters is one of Translate, whose place at the root of the server it took: see `ui.old_links`.
"""

import streamlit as st

from transformer import Checkpoint
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.explain.diagrams.diagram import Node
from transformer.text.vocabulary import IdTokenizer
from ui.components.map.component import ALL
from ui.map.runs import Shown
from ui.markdown import as_text
from ui.shared import address
from ui.shared.address import choice, line
from ui.texts import language, t

TEXT, STEP, PART, HEAD, LAYERS = "sentence", "at_word", "part", "at_head", "layers"
"""The query parameters besides that of the checkpoint (`ON_MAP`): what it reads, the step from 1 (0: all), the open
part, the head that was picked in it, and `all` layers."""

WHOLE = "all"
"""What stands in the address where every layer is drawn, however many there are."""

SAMPLE = 8
"""Tokens of a text for a checkpoint that brings no example."""


def text(name: str, checkpoint: Checkpoint) -> str:
    """What is read: a line, and examples to take."""
    examples = [_letters(example) for example in checkpoint.examples]
    address.belong_to(name if not checkpoint.translates else checkpoint.languages, TEXT)
    form, beside = st.columns([6, 1], vertical_alignment="bottom", gap="small")
    with form, st.form("read", border=False), st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        found = line(t(_label(checkpoint)), examples[0] if examples else _sample(checkpoint), key=TEXT, bare=True)
        st.form_submit_button(t("map.run"), type="primary", icon=":material/play_arrow:")
    if examples:
        with beside, st.popover(t("map.examples"), width="stretch"):
            for number, example in enumerate(examples, 1):
                known = checkpoint.example_names.get(checkpoint.examples[number - 1], {}).get(language(), "")
                st.button(
                    as_text(known or example), key=f"example-{number}", help=as_text(example), on_click=take,
                    args=(example,), width="stretch",
                )  # fmt: skip
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
    asked = address.whole_numbers(address.parameter(STEP) or "", "-")
    if asked is None or not (1 if written else 0) <= asked[0] <= count:
        return usual
    return asked[0] - 1


def to_step(number: int) -> None:
    """Look at another step in the next run."""
    address.set_parameter(STEP, str(number + 1))


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
    address.put(**{TEXT: example, STEP: None})


def _label(checkpoint: Checkpoint) -> str:
    if checkpoint.task is not None and checkpoint.tokenizer is None:
        return "map.sequence"
    return "map.ids" if isinstance(checkpoint.tokenizer, IdTokenizer) else "map.sentence"


def _letters(example: str) -> str:
    """An example as one line: of a FASTA record the letters alone."""
    return "".join(example.splitlines()[1:]) if example.startswith(">") else example


def _sample(checkpoint: Checkpoint) -> str:
    reader = checkpoint.tokenizer
    if reader is None:
        return ""
    length = max(SAMPLE, *getattr(checkpoint.model.config, "widths", ()), 0)  # a window needs as many tokens
    return reader.decode(sample_ids(checkpoint.model.config, length, len(reader)))
