"""How far two alignments agree, word by word."""

import streamlit as st

from transformer.attention.alignment import AlignmentComparison, further_apart
from transformer.plots.bars import agreement_bars
from transformer.plots.export import plot_config
from ui.align.choices import Aligned, Pair
from ui.align.files import stem
from ui.shared.record_views import matrix
from ui.texts import plain, t

MOST_STRETCHED = 24
"""Target words up to which the bars take the width of the page."""


def agreement_panel(shown: Pair, aligned: Aligned) -> None:
    """The agreement of each target word, and the difference of the two maps."""
    comparison, dark = aligned.comparison, st.context.theme.type == "dark"
    st.caption(t("align.look_agreement"))
    st.metric(t("align.mean_agreement"), f"{comparison.mean:.3f}", help=t("align.measure_why"), width="content")
    st.plotly_chart(
        agreement_bars(
            comparison.first.queries,
            comparison.agreement,
            comparison.mean,
            _notes(comparison, shown),
            quantity=plain("align.agreement"),
            mean_name=plain("align.mean"),
            dark=dark,
        ),
        key="agreement",
        width="stretch" if len(comparison.agreement) <= MOST_STRETCHED else "content",
        config=plot_config(stem(shown, "agreement")),
    )
    with st.popover(t("align.which_measure"), icon=":material/help:"):
        st.markdown(t("align.look_bars", origin=shown.origin))
        st.markdown(t("align.measure_why"))
        st.latex(
            r"1 - \sqrt{\tfrac12 \sum_s p_s \log_2 \tfrac{2 p_s}{p_s + q_s} + "
            r"\tfrac12 \sum_s q_s \log_2 \tfrac{2 q_s}{p_s + q_s}}"
        )
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
