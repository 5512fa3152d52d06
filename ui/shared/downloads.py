"""The panel that hands out a record's numbers: this map, or all of them in one ZIP, in the form that the page shows."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from transformer import Record, Translation
from transformer.attention.notebook import page
from transformer.attention.record_files.contents import ENDING
from transformer.plots.archive import archive
from transformer.plots.export import csv
from transformer.plots.picture import Picture
from transformer.runs.any_model import ModelRun
from transformer.sites import Site
from ui.shared.address import parameter
from ui.shared.controls import MEAN, Selection
from ui.shared.files import Origin, head_stem, head_title
from ui.texts import in_this_language, plain, said, t

MOST_NUMBERS = 2_000_000
"""So many numbers fit into a ZIP of tables, which takes seconds then; beyond, there is the NPZ."""

MOST_IN_NPZ = 100_000_000
"""So many numbers are computed for an NPZ at one time; beyond, there is the file of the record."""


def downloads_panel(shown: Translation | ModelRun, choice: Selection) -> None:
    """The numbers and pictures, as they are on screen: scores, whole words, hidden special tokens, relative scale."""
    record, origin = shown.record, Origin(shown.checkpoint, shown.input, shown.record.interventions)
    scores = _is_on("scores") and choice.head != MEAN
    relative = _is_on("relative") and not scores
    picture = record[choice.site].picture(choice.head, choice.words, choice.special, scores=scores)
    scale = [plain("files.relative")] if relative else []
    facts = origin.facts(*map(said, record.notes))
    form = ["scores"] if scores else []
    stem = origin.stem(*head_stem(picture), *form)
    what = " · ".join([head_title(picture), said(picture.unit), *map(said, picture.notes), *scale])
    st.markdown(f"**{t('files.this')}**")
    st.download_button(
        t("translate.download_csv"), in_this_language(lambda: csv(picture, [*facts, *scale])), f"{stem}.csv",
        "text/csv", on_click="ignore",
    )  # fmt: skip
    st.markdown(f"**{t('files.all')}**")
    numbers = sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    too_many = numbers > MOST_NUMBERS
    with st.container(horizontal=True):
        st.download_button(
            t("files.zip"), _all(record, choice, scores, facts), f"{origin.stem('all-maps', *form)}.zip",
            "application/zip", on_click="ignore", icon=":material/folder_zip:", disabled=too_many,
        )  # fmt: skip
        st.download_button(
            t("translate.download_npz"), record.npz, f"{origin.stem('record')}.npz", "application/octet-stream",
            on_click="ignore", disabled=numbers > MOST_IN_NPZ,
        )  # fmt: skip
        st.download_button(
            t("files.page"), in_this_language(lambda: _page(shown, choice)), f"{origin.stem('all-maps')}.html",
            "text/html", on_click="ignore", help=t("files.page_help"),
        )  # fmt: skip
        record_button(shown)
    if too_many:
        st.caption(t("files.zip_large", numbers=numbers, most=MOST_NUMBERS))
    else:
        st.caption(t("files.zip_holds"))
    st.caption(f"{t('files.holds', what=what)} {t('translate.downloads_note')}")


def record_button(shown: Translation | ModelRun) -> None:
    """The record as a file that can be brought again, however long it is."""
    origin = Origin(shown.checkpoint, shown.input, shown.record.interventions)
    record = replace(shown.record, model=shown.checkpoint, text=shown.input)
    st.download_button(
        t("files.record"), record.to_bytes, f"{origin.stem()}{ENDING}", "application/octet-stream", on_click="ignore",
        icon=":material/save:", help=t("files.record_help"), key="record-file",
    )  # fmt: skip


def _is_on(key: str) -> bool:
    """Whether a switch of another tab is on."""
    return (parameter(key) or "").lower() == "true"


def _page(shown: Translation | ModelRun, choice: Selection) -> str:
    """The views of all heads as a page of HTML, which begins with the head that is shown here."""
    first = Site(choice.site), None if choice.head == MEAN else int(choice.head)
    facts = shown.checkpoint, shown.input
    return page(list(shown.record.values()), *facts, first, choice.words, choice.special).document()


def _all(record: Record, choice: Selection, scores: bool, facts: list[str]) -> Callable[[], bytes]:
    """Every head of every site as one ZIP, once it is asked for; with each layer's mean if the page shows a mean."""

    def pictures() -> dict[str, Picture]:
        found = {}
        for site, attention in record.items():
            for head in [*range(attention.n_heads), *([MEAN] if choice.head == MEAN else [])]:
                name = f"{site}_{MEAN if head == MEAN else f'head-{head}'}"
                found[name] = attention.picture(head, choice.words, choice.special, scores=scores)
        return found

    return in_this_language(lambda: archive(pictures(), about=facts))
