"""What a run ended with: what was written, classes and numbers, and which tokens nobody typed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from transformer import Checkpoint
from transformer.nn.protocols import written_length
from transformer.runs.any_model import ModelRun
from transformer.runs.classes import Classes, classes_of, numbers_of, token_classes
from transformer.runs.continuing import continues
from transformer.runs.translate import Translation
from transformer.safe.contents import shape_text
from ui.shared import controls, record_views, writing
from ui.shared.token_strip import token_strip
from ui.texts import plain, t

MOST_CLASSES = 12
"""Classes of a token that have a column of their own; the likeliest one is always named."""


def result(shown: ModelRun, checkpoint: Checkpoint) -> None:
    """What was written, or what the model ends with."""
    if shown.translation is not None:
        with st.container(key="result-area"):
            _written(shown.translation, checkpoint.languages[1])
            _cut(shown.translation, checkpoint)
        return
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


def known(shown: ModelRun, checkpoint: Checkpoint) -> None:
    """What has to be known of the maps: what was assumed, and which tokens nobody typed."""
    _assumptions(checkpoint, shown.record.notes)
    if not continues(checkpoint):
        _added(shown, checkpoint)


def told(shown: ModelRun, checkpoint: Checkpoint) -> None:
    """All of it, where the maps come later."""
    result(shown, checkpoint)
    record_views.record_notes(shown.record)
    known(shown, checkpoint)


def _written(shown: Translation, language: str) -> None:
    """What was written, token by token, and how likely it was."""
    what = plain(f"translate.what_{'forced' if shown.tree is None else 'best'}")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(t("translate.what_in", what=what, language=language), width="content")
        st.text(shown.text, width="content")
        st.caption(
            t("translate.likely", count=len(shown.steps), log_prob=shown.log_prob), width="content",
            help=t("checkpoints.written_help"),
        )  # fmt: skip
    token_strip(shown.steps)


def _cut(shown: Translation, checkpoint: Checkpoint) -> None:
    """That what was written has no end, and whether the model's table of positions had none either."""
    if shown.tree is None or shown.node is None or shown.tree.nodes[shown.node].status != "cut":
        return
    longest = len(shown.steps)
    by_table = longest == written_length(checkpoint.translator()[0].config)
    st.caption(t("checkpoints.cut_by_table" if by_table else "checkpoints.cut", longest=longest))


def _added(shown: ModelRun, checkpoint: Checkpoint) -> None:
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
        if checkpoint.is_of_other_library and assumption not in noted:
            st.caption(controls.sentence(assumption))


def _token_classes(found: Classes, shown: ModelRun) -> None:
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
