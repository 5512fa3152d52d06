"""How well a file's records were classified, where their headers say what they are."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from transformer.figures.calibration import calibration_curve
from transformer.figures.export import plot_config
from transformer.runs.scores import Scores, calibration_error, reliability
from transformer.runs.sequences.classify import Verdict
from transformer.sequences.task import SequenceTask
from ui.shared.theme import is_dark
from ui.texts import plain, t


def scores_panel(found: Sequence[Verdict], labels: Sequence[str], task: SequenceTask, stem: str) -> None:
    """Accuracy, Matthews correlation, the confusion matrix and the calibration curve of the labelled records."""
    rows = [(one.probabilities, label) for one, label in zip(found, labels, strict=True) if label]
    judged = [(probabilities, task.classes.index(label)) for probabilities, label in rows if probabilities is not None]
    if not judged:
        return
    probabilities = np.array([one for one, _ in judged])
    truth = np.array([label for _, label in judged])
    scores = Scores.of(probabilities, truth)
    bins = reliability(probabilities.max(axis=1), probabilities.argmax(axis=1) == truth)
    st.markdown(t("sequences.scores", count=len(judged), total=len(found)))
    st.caption(t("sequences.scores_how"))
    left, right = st.columns(2, gap="medium")
    with left:
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
    with right:
        st.caption(t("sequences.calibration"))
        st.plotly_chart(
            calibration_curve(
                [one.confidence for one in bins], [one.accuracy for one in bins], [one.rows for one in bins],
                dark=is_dark(),
            ),
            key="calibration",
            config=plot_config(f"{stem}-calibration"),
        )  # fmt: skip
