"""What a checkpoint attends to: tokens or ids in, the same views as everywhere out. For any architecture."""

from collections.abc import Hashable

import streamlit as st

from transformer import Checkpoint, DecodingOptions
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.errors import CheckpointError
from transformer.runs.any_model import MAX_POSITIONS, ModelRun
from transformer.runs.continuing import continues
from transformer.runs.filling import mask_of
from transformer.sequences.task import SequenceTask
from transformer.text.vocabulary import IdTokenizer
from ui.checkpoints import heads, long, results, why
from ui.shared import address, record_views, writing
from ui.store import runs, store
from ui.texts import plain, t

INPUT = "input"
"""The query parameter of what is read."""

SAMPLE = 8
LONGEST_IN_ADDRESS = 8_192
"""Characters of a text that the address holds: more than proxies let pass would make a link that leads nowhere."""

LONGEST_OUTPUT = 40
"""Tokens that a model writes at most here: one that was never trained does not stop by itself."""


def attention_panel(name: str, checkpoint: Checkpoint) -> None:
    """Type, run, look.

    Raises:
        InputError, CheckpointError: what was typed cannot be run.
    """
    if checkpoint.tokenizer is None and checkpoint.task is not None:
        _sequence_classifier(checkpoint.task)
        return
    text, forced = _asked(name, checkpoint)
    if long.is_long(checkpoint, text):
        if continues(checkpoint):
            st.caption(t("checkpoints.long_read_alone", most=MAX_POSITIONS))
        long.long_panel(name, text, lambda run: results.told(run, checkpoint))
        return
    if continues(checkpoint):
        shown, whole, key = _continued(name, text)
    else:
        key = (store.revision(name), text, forced)
        shown = whole = runs.any_run(name, text, DecodingOptions(beam=1, max_length=LONGEST_OUTPUT), forced)
        results.result(shown, checkpoint)
        why.why_panel(name, checkpoint, shown)
        if mask_of(checkpoint):
            writing.gaps_panel(name, checkpoint, text, lambda filled: address.put(**{INPUT: filled}))
    record_views.record_notes(shown.record)
    heads.heads_panel(shown, whole, key)
    results.known(shown, checkpoint)


def _continued(name: str, text: str) -> tuple[ModelRun, ModelRun, Hashable]:
    """What comes next, written as far as asked for. Two runs: as far as the step that is looked at, and the whole one.

    Raises:
        InputError: the text cannot be read, or leaves no room.
    """
    st.subheader(t("writing.continue_title"), anchor=False)
    options = writing.options_form()
    found = runs.continuation(name, text, options)
    step = writing.step_choice(len(found.written), (name, text, options))
    writing.written_panel(found, step)
    writing.next_panel(found, step, options)
    return found.at(step), found.run, (store.revision(name), text, options, len(found.written), step)


def _sequence_classifier(task: SequenceTask) -> None:
    """Say what it is, and lead to the page that reads its sequences: it needs no tokenizer."""
    classes = plain("checkpoints.or").join(task.classes)
    st.info(
        t("checkpoints.sequence_classifier", alphabet=task.alphabet.name, classes=classes), icon=":material/genetics:"
    )
    if st.button(t("checkpoints.to_sequences"), key="to-sequences", type="primary", icon=":material/arrow_forward:"):
        st.switch_page("pages/sequences.py")


def _asked(name: str, checkpoint: Checkpoint) -> tuple[str, str | None]:
    """What is read, and for an encoder-decoder perhaps a target that is walked through."""
    by_id, reader = isinstance(checkpoint.tokenizer, IdTokenizer), checkpoint.tokenizer
    if reader is None:
        raise CheckpointError("tokenizer_not_brought", name=name)
    length = max(SAMPLE, *getattr(checkpoint.model.config, "widths", ()), 0)  # a window needs as many tokens
    sample = sample_ids(checkpoint.model.config, length, len(reader))
    start = checkpoint.examples[0] if checkpoint.examples else reader.decode(sample)
    address.belong_to((name, by_id), INPUT, "forced")
    with st.container(key="look-area"), st.form("look", border=False):
        widths = [5, 4, 2] if checkpoint.translates else [9, 2]
        first, *others, last = st.columns(widths, gap="small", vertical_alignment="bottom")
        label = t("checkpoints.ids", last=len(reader) - 1) if by_id else t("checkpoints.text")
        with first:
            text = address.line(label, start, key=INPUT, placeholder=t("checkpoints.text_hint"))
        forced = ""
        for place in others:
            with place:
                forced = address.line(
                    t("checkpoints.forced"), "", key="forced", placeholder=t("checkpoints.forced_hint")
                )
        with last:
            st.form_submit_button(t("checkpoints.run"), type="primary", icon=":material/play_arrow:")
    address.keep_out(INPUT, len(text or "") > LONGEST_IN_ADDRESS)
    return text or "", forced if forced and forced.strip() else None
