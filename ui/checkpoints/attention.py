"""What a checkpoint attends to: tokens or ids in, the same views as everywhere out. For any architecture."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import streamlit as st

from transformer import Checkpoint, DecodingOptions
from transformer.attention.measures import has_kind, strongest_head
from transformer.checkpoint.checkpoint import DRAWN, HUGGING_FACE
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.checkpoint.safe.contents import shape_text
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.models.protocols import written_length
from transformer.runs.any_model import AnyRun
from transformer.runs.classes import Classes, classes_of, numbers_of, token_classes
from transformer.runs.continuing import continues
from transformer.runs.filling import mask_of
from transformer.runs.translate import Translation
from transformer.sequences.task import SequenceTask
from transformer.tokens.vocabulary import IdTokenizer
from ui.checkpoints import long, pictures
from ui.shared import address, controls, downloads, record_views, writing
from ui.shared.files import Origin
from ui.shared.visit import visit
from ui.store import runs
from ui.texts import plain, t

INPUT = "input"
"""The query parameter of what is read."""

SAMPLE = 8
LONGEST_IN_ADDRESS = 8_192
"""Characters of a text that the address holds: more than proxies let pass would make a link that leads nowhere."""

MOST_CLASSES = 12
"""Classes of a token that have a column of their own; the likeliest one is always named."""

LONGEST_OUTPUT = 40
"""Tokens that a model writes at most here: one that was never trained does not stop by itself."""


def attention_panel(name: str, checkpoint: Checkpoint) -> None:
    """Type, run, look.

    Raises:
        InputError, CheckpointError: what was typed cannot be run.
    """
    if checkpoint.model.abilities.reads_pictures:
        pictures.pictures_panel(name, checkpoint)
        return
    if checkpoint.tokenizer is None and checkpoint.task is not None:
        _sequence_classifier(checkpoint.task)
        return
    text, forced = _asked(name, checkpoint)
    if not continues(checkpoint) and long.is_long(checkpoint, text):
        long.long_panel(name, text, lambda run: _result(run, checkpoint))
        return
    if continues(checkpoint):
        _assumptions(checkpoint, ())
        shown, whole = _continued(name, text)
        record_views.record_notes(shown.record)
    else:
        shown = whole = runs.any_run(name, text, DecodingOptions(beam=1, max_length=LONGEST_OUTPUT), forced)
        _result(shown, checkpoint)
        _added(shown, checkpoint)
        if mask_of(checkpoint):
            writing.gaps_panel(name, checkpoint, text, lambda filled: address.put(**{INPUT: filled}))
    kind = next(kind for kind in controls.KINDS if has_kind(shown.record, kind))
    first = strongest_head(whole.record, kind)  # whichever step is looked at
    with st.container(key="choices"):
        choice = controls.selection(shown.record, (first.layer, first.head))
    origin = Origin(shown.checkpoint, shown.input)
    overview, detail = st.columns([1, 2], gap="medium")
    with overview:
        record_views.all_heads_panel(shown.record, choice, origin=origin)
    panels: dict[str, Callable[[], None]] = {
        "heatmap": lambda: record_views.heatmap_panel(shown.record, choice, origin=origin),
        "head_view": lambda: record_views.head_view_panel(shown.record, choice, origin=origin),
        "downloads": lambda: downloads.downloads_panel(shown, choice),
    }
    with detail:
        opened, place = address.tabs(list(panels), key="map", text=lambda panel: t(f"checkpoints.view_{panel}"))
        with place:
            panels[opened]()


def _continued(name: str, text: str) -> tuple[AnyRun, AnyRun]:
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
    return found.at(step), found.run


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
    made_up = {one.code: one for one in checkpoint.assumptions if isinstance(one, Message) and one.code in DRAWN}
    length = max(SAMPLE, *getattr(checkpoint.model.config, "widths", ()), 0)  # a window needs as many tokens
    sample = sample_ids(checkpoint.model.config, length, len(reader))
    start = checkpoint.examples[0] if checkpoint.examples else reader.decode(sample)
    address.belong_to((name, by_id), INPUT, "forced")
    with st.container(key="look-area"), st.form("look", border=False):
        pairs = checkpoint.reads_pairs
        widths = [5, 4, 2] if checkpoint.translates or pairs else [9, 2]
        first, *others, last = st.columns(widths, gap="small", vertical_alignment="bottom")
        label = t("checkpoints.ids", last=len(reader) - 1) if by_id else t("checkpoints.text")
        label = t("checkpoints.vectors", last=len(reader) - 1) if pairs or "assumed_vectors" in made_up else label
        with first:
            text = address.line(label, start, key=INPUT, placeholder=t("checkpoints.text_hint"))
        forced = ""
        for place in others:
            with place:
                what = "other" if pairs else "forced"
                forced = address.line(
                    t(f"checkpoints.{what}"), "", key="forced", placeholder=t(f"checkpoints.{what}_hint")
                )
        with last:
            st.form_submit_button(t("checkpoints.run"), type="primary", icon=":material/play_arrow:")
    if made_up:
        st.caption(t("checkpoints.vectors_note"))
    visit().keep_out(INPUT, len(text or "") > LONGEST_IN_ADDRESS)
    return text or "", forced if forced and forced.strip() else None


def _result(shown: AnyRun, checkpoint: Checkpoint) -> None:
    """What was written, or what the model ends with; and what is known of a folder that had no questions."""
    _assumptions(checkpoint, shown.record.notes)
    if shown.translation is not None:
        with st.container(key="result-area"):
            record_views.result(shown.translation, shown.translation, checkpoint.languages)
            _cut(shown.translation, checkpoint)
        return
    record_views.record_notes(shown.record)
    for output, values in shown.outputs.items():
        if output == "logits" and values.ndim == 1:
            _class_probabilities(values, checkpoint)
        elif output == "logits" and (of_tokens := token_classes(checkpoint, values)) is not None:
            _token_classes(of_tokens, shown)
        elif output == "scores":
            st.markdown(f"**{t('checkpoints.numbers')}**")
            numbers = numbers_of(checkpoint, values)
            st.dataframe(pd.DataFrame([list(numbers.values())], columns=list(numbers)), hide_index=True, key="numbers")
        else:
            st.caption(t("checkpoints.ends", output=output, shape=shape_text(values.shape)))


def _cut(shown: Translation, checkpoint: Checkpoint) -> None:
    """That what was written has no end, and whether the model's table of positions had none either."""
    if shown.tree is None or shown.node is None or shown.tree.nodes[shown.node].status != "cut":
        return
    longest = len(shown.steps)
    by_table = longest == written_length(checkpoint.translator()[0].config)
    st.caption(t("checkpoints.cut_by_table" if by_table else "checkpoints.cut", longest=longest))


def _added(shown: AnyRun, checkpoint: Checkpoint) -> None:
    """Which tokens stand around the typed ones, that nobody typed: the maps have a row and a column for each."""
    reader = checkpoint.tokenizer
    ids = list(shown.ids if shown.translation is None else shown.translation.source_ids)
    typed = [] if reader is None else reader.encode(shown.input)
    starts = [i for i in range(len(ids) - len(typed) + 1) if ids[i : i + len(typed)] == typed]
    if reader is None or not starts or len(ids) == len(typed):
        return
    before, after = (reader.labels(part) for part in (ids[: starts[0]], ids[starts[0] + len(typed) :]))
    if before and after:
        st.caption(t("checkpoints.added_both", before=" ".join(before), after=" ".join(after)))
    elif before:
        st.caption(t("checkpoints.added_before", tokens=" ".join(before)))
    else:
        st.caption(t("checkpoints.added_after", tokens=" ".join(after)))


def _assumptions(checkpoint: Checkpoint, noted: Sequence[str]) -> None:
    """What is known of a folder that had no questions, but for what the record's own notes say."""
    for assumption in checkpoint.assumptions:
        if checkpoint.architecture.startswith(HUGGING_FACE) and assumption not in noted:
            st.caption(controls.sentence(assumption))


def _token_classes(found: Classes, shown: AnyRun) -> None:
    """Of each token the likeliest class, and the probabilities of all."""
    keys = next(iter(shown.record.values())).keys
    best = found.probabilities.argmax(-1)
    columns = {
        t("map.token"): [writing.readable(text) for text in keys.texts],
        t("checkpoints.token_class"): [found.names[i] for i in best],
        t("writing.next_probability"): found.probabilities[range(len(best)), best],
    }
    named = {f"p({name})": found.probabilities[:, i] for i, name in enumerate(found.names[:MOST_CLASSES])}
    st.markdown(f"**{t('checkpoints.token_classes')}**")
    st.dataframe(pd.DataFrame(columns | named), hide_index=True, key="token-classes")


def _class_probabilities(logits: np.ndarray, checkpoint: Checkpoint) -> None:
    """Under the classes' names, and calibrated, where the checkpoint says them: as everywhere else."""
    found = classes_of(checkpoint, logits)
    if found.each:
        label = t("checkpoints.classes_each")
    elif checkpoint.task is not None and found.names == checkpoint.task.classes:
        label = t("checkpoints.classes_calibrated", temperature=found.temperature)
    else:
        label = t("checkpoints.classes")
    st.markdown(f"**{label}**")
    st.dataframe(pd.DataFrame([found.probabilities], columns=list(found.names)), hide_index=True, key="classes")
