"""How far two alignments agree, word by word."""

from math import isnan

import streamlit as st

from transformer.attention.alignment import AlignmentComparison, further_apart
from ui.align.choices import Aligned, Pair
from ui.align.files import stem
from ui.shared.bars import Bar, bars
from ui.shared.record_views import matrix
from ui.texts import plain, t


def agreement_panel(shown: Pair, aligned: Aligned) -> None:
    """The agreement of each target word, and the difference of the two maps."""
    comparison, words = aligned.comparison, aligned.comparison.first.queries
    st.caption(t("align.look_agreement"))
    st.metric(t("align.mean_agreement"), f"{comparison.mean:.3f}", help=t("align.measure_why"), width="content")
    mean = None if isnan(comparison.mean) else comparison.mean
    rows = [
        Bar(
            text, value, "-" if isnan(value) else f"{value:.3f}", f"{label}: {value:.4f}. {note}",
            "faint" if special else "", point=mean,
        )
        for text, label, special, value, note in zip(
            words.texts, words.labels, words.special, comparison.agreement.tolist(), _notes(comparison, shown),
            strict=True,
        )
    ]  # fmt: skip
    named = f"{plain('align.mean')} {comparison.mean:.2f}"
    left, right = st.columns(2, gap="large")
    with left:
        bars(rows, plain("align.agreement"), key="agreement", legend=[] if mean is None else [("line", named)])
        with st.popover(t("align.which_measure"), icon=":material/help:"):
            st.markdown(t("align.look_bars", origin=shown.origin))
            st.markdown(t("align.measure_why"))
            st.latex(
                r"1 - \sqrt{\tfrac12 \sum_s p_s \log_2 \tfrac{2 p_s}{p_s + q_s} + "
                r"\tfrac12 \sum_s q_s \log_2 \tfrac{2 q_s}{p_s + q_s}}"
            )
    with right:
        st.markdown(f"**{t('align.difference', first=shown.first.title, second=shown.second.title)}**")
        matrix(comparison.difference, key="difference", stem=stem(shown, "difference"))
        st.caption(t("align.look_difference", first=shown.first.title, second=shown.second.title))


def _notes(comparison: AlignmentComparison, shown: Pair) -> list[str]:
    """What is said of each word: where the two differ most."""
    keys = comparison.first.keys.labels
    return [
        plain(
            "align.apart", first=shown.first.title, more=keys[more], second=shown.second.title, less=keys[less],
            above=row[more], below=-row[less],
        )
        for row, (more, less) in zip(comparison.difference.values, further_apart(comparison), strict=True)
    ]  # fmt: skip
