"""How well a file's records were classified, where their headers say what they are."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from transformer.runs.scores import Scores, calibration_error, reliability
from transformer.runs.sequences.classify import Verdict
from transformer.sequences.task import SequenceTask
from ui.texts import plain, t


def scores_panel(found: Sequence[Verdict], labels: Sequence[str], task: SequenceTask) -> None:
    """Accuracy, Matthews correlation, calibration error and the confusion matrix of the labelled records."""
    rows = [(one.probabilities, label) for one, label in zip(found, labels, strict=True) if label]
    judged = [(probabilities, task.classes.index(label)) for probabilities, label in rows if probabilities is not None]
    if not judged:
        return
    probabilities, truth = (np.array(column) for column in zip(*judged, strict=True))
    scores = Scores.of(probabilities, truth)
    bins = reliability(probabilities.max(axis=1), probabilities.argmax(axis=1) == truth)
    st.markdown(t("sequences.scores", count=len(judged), total=len(found)))
    st.caption(t("sequences.scores_how"))
    with st.container(horizontal=True):
        st.metric(t("sequences.accuracy"), f"{scores.accuracy:.3f}")
        varied = min(np.count_nonzero(scores.confusion.sum(axis=axis)) for axis in (0, 1)) > 1
        mcc = f"{scores.mcc:.3f}" if varied else "-"
        st.metric(t("sequences.mcc"), mcc, help=t("sequences.mcc_help" if varied else "sequences.mcc_none"))
        st.metric(t("sequences.ece"), f"{calibration_error(bins):.3f}", help=t("sequences.ece_help"))
    st.caption(t("sequences.confusion"))
    index = [plain("sequences.true_class", name=name) for name in task.classes]
    columns = [plain("sequences.predicted_class", name=name) for name in task.classes]
    table = pd.DataFrame(scores.confusion, index=index, columns=columns)
    table[plain("sequences.recall")] = np.round(scores.recalls, 3)
    st.dataframe(table)
