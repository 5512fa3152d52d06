"""The banner of a file: what it is taken for, how surely, and on what its maps rest that nobody has said."""

import pandas as pd
import streamlit as st

from transformer.checkpoint.foreign.found import RECORD_FILE
from transformer.checkpoint.foreign.report import Report
from transformer.safe.contents import shape_text
from ui.checkpoints.bring import SHOW
from ui.markdown import as_text
from ui.shared import address
from ui.texts import said, t


def report_panel(report: Report) -> None:
    """How surely and why; and what does not fit.

    Green is a file of which all is known; amber is one whose maps rest on an assumption, on tensors that were left out,
    or on an answer that is still to come.
    """
    _banner(report)
    with st.expander(t("checkpoints.why"), expanded=not report.fits, icon=":material/fact_check:"):
        _details(report)
    if report.is_ready:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="prove"):
            st.caption(t("checkpoints.prove"), width="content")
            st.button(
                t("checkpoints.prove_open"), key="open-check", type="tertiary", icon=":material/rule:",
                on_click=address.put, kwargs={SHOW: "check"},
            )  # fmt: skip


def _banner(report: Report) -> None:
    title = said(report.title)
    sure = t("checkpoints.sure", share=report.confidence, matched=len(report.matched))
    if report.left_out:
        sure = f"{sure} · {t('checkpoints.left_out', count=len(report.left_out))}"
    if not report.layout:
        st.error(t("checkpoints.unknown", title=title), icon=":material/help:")
        return
    if not report.fits:
        st.error(f"{t('checkpoints.nearest', title=title)} · {sure}", icon=":material/rule:")
        return
    known = f"**{as_text(title)}** · {as_text(said(report.format))} · {sure}"
    if report.open:
        needed = t("checkpoints.unanswered", names=", ".join(question.name for question in report.open))
        why = as_text(", ".join(said(question.why) for question in report.open if question.why))
        st.warning(f"{known} · {needed} ({why})" if why else f"{known} · {needed}", icon=":material/quiz:")
    elif report.guesses:
        unsure = as_text("".join(f" · {said(guess)}" for guess in report.guesses if guess.code != "left_out"))
        st.warning(f"{known}{unsure}", icon=":material/warning:")
    else:
        st.success(known, icon=":material/check_circle:")


def _details(report: Report) -> None:
    for reason in (*report.reasons, *report.assumptions):
        st.text(f"· {said(reason)}")
    _names(t("checkpoints.missing"), [(n, said(shape_text(s)), "") for n, s in report.missing.items()])
    _names(
        t("checkpoints.wrong"),
        [(n, said(shape_text(a)), said(shape_text(b))) for n, (a, b) in report.wrong_shape.items()],
    )
    _names(t("checkpoints.unexpected"), [(n, "", said(shape_text(s))) for n, s in report.unexpected.items()])
    for doubt in dict.fromkeys(report.doubts.values()):
        st.text(f"· {said(doubt)}")
    if report.ignored:
        st.markdown(f"**{t('checkpoints.ignored')}**")
        columns = [t("checkpoints.tensor"), t("checkpoints.reason")]
        st.dataframe(
            pd.DataFrame([(n, said(why)) for n, why in report.ignored.items()], columns=columns),
            hide_index=True,
            key="ignored",
        )
    if not report.fits:
        st.markdown(f"**{t('checkpoints.changes')}**")
        for change in report.changes:
            st.text(f"· {said(change)}")
    if report.record:
        st.markdown(t("checkpoints.record", file=RECORD_FILE))
        st.code("\n".join(report.record), language="python")
    st.download_button(
        t("checkpoints.report_file"), said(report.text) + "\n", "report.txt", "text/plain", on_click="ignore"
    )


def _names(title: str, rows: list[tuple[str, str, str]]) -> None:
    if rows:
        st.markdown(f"**{title} ({len(rows)})**")
        columns = [t("checkpoints.tensor"), t("checkpoints.needed"), t("checkpoints.found")]
        st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, height="content" if len(rows) < 9 else 320)
