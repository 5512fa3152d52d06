"""How far two alignments agree, word by word, and the numbers to take away."""

from functools import partial

import pandas as pd
import streamlit as st

from transformer.attention.alignment import AlignmentComparison, further_apart
from transformer.figures.agreement import agreement_bars
from transformer.figures.export import csv, html, plot_config
from transformer.figures.heatmap import alt_text, heatmap
from transformer.pictures.picture import Picture
from ui.align.choices import Aligned, Pair
from ui.texts import plain, t


def agreement_panel(shown: Pair, aligned: Aligned) -> None:
    """The agreement of each target word, and the difference of the two maps."""
    comparison, dark = aligned.comparison, st.context.theme.type == "dark"
    st.caption(t("align.look_agreement", origin=shown.origin))
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
        width="content",
        config=plot_config("agreement"),
    )
    with st.popover(t("align.which_measure"), icon=":material/help:"):
        st.markdown(t("align.measure_why"))
        st.latex(
            r"1 - \sqrt{\tfrac12 \sum_s p_s \log_2 \tfrac{2 p_s}{p_s + q_s} + "
            r"\tfrac12 \sum_s q_s \log_2 \tfrac{2 q_s}{p_s + q_s}}"
        )
    st.markdown(f"**{t('align.difference', first=shown.first.label, second=shown.second.label)}**")
    st.plotly_chart(
        heatmap(comparison.difference, dark=dark),
        key="difference",
        width="content",
        alt=alt_text(comparison.difference),
        config=plot_config("difference"),
    )
    st.caption(t("align.look_difference", first=shown.first.label, second=shown.second.label))


def agreement_table(comparison: AlignmentComparison) -> pd.DataFrame:
    """One row a target word: agreement, and the source words on which the maps are furthest apart."""
    keys = comparison.first.keys.labels
    rows = [
        (word, value, keys[more], keys[less])
        for word, value, (more, less) in zip(
            comparison.first.queries.labels, comparison.agreement, further_apart(comparison), strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["target word", "agreement", "first looks more at", "second looks more at"])


def downloads_panel(shown: Pair, aligned: Aligned) -> None:
    """Every number of the page."""
    comparison = aligned.comparison
    pictures = {"first": comparison.first, "second": comparison.second, "difference": comparison.difference}
    st.download_button(
        t("align.download_agreement"),
        lambda: agreement_table(comparison).to_csv(index=False),
        "agreement.csv",
        "text/csv",
        on_click="ignore",
    )
    for name, picture in pictures.items():
        with st.container(horizontal=True):
            st.download_button(
                t(f"align.download_{name}"), partial(csv, picture), f"alignment-{name}.csv", "text/csv",
                on_click="ignore",
            )  # fmt: skip
            st.download_button(
                t("align.download_page"), partial(_page, picture), f"alignment-{name}.html",
                "text/html", key=f"html-{name}", on_click="ignore",
            )  # fmt: skip
    for name, side in (("first", shown.first), ("second", shown.second)):
        for what, run in (("own", side.own), ("read", side.read)):
            st.download_button(
                t(f"align.download_record_{what}", model=side.label), run.record.npz, f"{name}-{what}-record.npz",
                "application/octet-stream", key=f"npz-{name}-{what}", on_click="ignore",
            )  # fmt: skip
    st.caption(t("align.look_downloads"))


def _page(picture: Picture) -> str:
    return html(heatmap(picture))


def _notes(comparison: AlignmentComparison, shown: Pair) -> list[str]:
    """What is said of each word: where the two differ most."""
    keys = comparison.first.keys.labels
    return [
        plain(
            "align.apart", first=shown.first.label, more=keys[more], second=shown.second.label, less=keys[less],
            above=row[more], below=-row[less],
        )
        for row, (more, less) in zip(comparison.difference.values, further_apart(comparison), strict=True)
    ]  # fmt: skip
