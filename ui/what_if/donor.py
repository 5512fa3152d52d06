"""A second sentence beside the first: the same head of both, and the donor's attention put into the other."""

import math
from dataclasses import replace
from functools import partial
from typing import Final

import pandas as pd
import streamlit as st

from transformer import Intervention, Record, Translation
from transformer.errors import HeedmapError
from transformer.plots.axes import Axis
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity
from transformer.runs.donors import LogOdds, parting, refuse_other_places
from transformer.sites import Site
from ui.shared import changes, controls
from ui.shared.address import choice
from ui.shared.controls import MEAN, Selection
from ui.shared.files import Origin, head_stem
from ui.shared.numbers import as_written
from ui.shared.part import part
from ui.shared.record_views import matrix
from ui.store import runs
from ui.texts import plain, t
from ui.what_if import runs as changed_runs
from ui.what_if import views
from ui.what_if.runs import Asked, Done

PATCH, PATCH_HEADS, PATCH_ROWS = "patch", "patch-heads", "patch-rows"
"""The query parameters of what is put in, of which heads and in which rows."""

WHATS: Final = ("weights", "output")
"""What of the donor's heads is put in: `patch_weights`, or `patch_output`."""

HEADS: Final = ("one", "layer", "kind")
"""Of which heads: the chosen one, all of its layer, or all of its kind."""

ROWS: Final = ("all", "shared")
"""In which rows of a decoder: all, or those until the two targets part."""


def donor_panel(name: str, asked: Asked, done: Done, before: Translation, selected: Selection, donor: str) -> None:
    """The donor's run beside this one; what can be put in, and what that did to the answer."""
    st.markdown(f"**{t('what_if.donor_panel')}**", help=t("what_if.donor_help"))
    try:
        other = runs.translation(name, donor, asked[1], None)
    except HeedmapError as error:
        controls.explain(error)
        return
    st.caption(t("what_if.donor_reads"))
    left, right = st.columns(2, gap="large")
    for place, texts in ((left, (before.input, other.input)), (right, (before.text, other.text))):
        with place:
            views.two_sides(*texts)
    _side_by_side(before, other, selected)
    with st.expander(t("what_if.donor_put"), icon=":material/move_down:"):
        part(partial(_put_in, name, asked, donor, selected), PATCH, PATCH_HEADS, PATCH_ROWS)
    try:
        odds = changed_runs.odds(name, asked, done, donor)
    except HeedmapError:  # told above: the same changes do not fit this sentence
        return
    _odds_panel(odds)


def _side_by_side(base: Translation, other: Translation, selected: Selection) -> None:
    """The same head of both runs as the model is, on one scale; and their difference where cells stand for cells."""
    site, head = selected.site, selected.head
    pictures = [run.record[site].picture(head) for run in (base, other)]
    names = ["base", "other"]
    if _alike(*pictures):
        pictures.append(_difference(*pictures))
        names.append("difference")
    left, right = st.columns(2, gap="large")
    for place, name, picture in zip((left, right, left), names, pictures, strict=False):
        origin = Origin(base.checkpoint, base.input if name == "base" else other.input)
        with place:
            st.markdown(f"**{t(f'what_if.donor_{name}')}**")
            stem = origin.stem(*head_stem(picture), *(["this-minus-it"] if name == "difference" else []))
            matrix(picture, key=f"donor-map-{name}", stem=stem)
    if len(names) == 2:
        one, two = (picture.values.shape for picture in pictures)
        st.caption(t("what_if.donor_other_shape", rows=one[0], keys=one[1], other_rows=two[0], other_keys=two[1]))


def _put_in(name: str, asked: Asked, donor: str, selected: Selection) -> None:
    """Controls for what is put in, and the button; or why it cannot be."""
    base, other = runs.translation(name, *asked), runs.translation(name, donor, asked[1], None)
    group = Site(selected.site).group
    step = parting(base, other)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        what = choice(t("what_if.patch"), WHATS, key=PATCH, text=lambda one: plain(f"what_if.patch_{one}"))
        heads = choice(
            t("what_if.patch_heads"),
            HEADS if selected.head != MEAN else HEADS[1:],
            key=PATCH_HEADS,
            text=lambda one: plain(f"what_if.patch_heads_{one}"),
        )
        rows = ROWS[0]
        if step is not None and group.startswith("decoder"):
            usual = ROWS[len(base.target_ids) != len(other.target_ids)]
            rows = choice(
                t("what_if.patch_rows"), ROWS, key=PATCH_ROWS, default=usual,
                text=lambda one: plain(f"what_if.patch_rows_{one}"), help=t("what_if.patch_rows_help"),
            )  # fmt: skip
    shared = None if rows == "all" or step is None else step + 1
    sites = [selected.site] if heads != "kind" else [site for site in base.record.sites if site.group == group]
    numbers = (int(selected.head),) if heads == "one" and selected.head != MEAN else None
    try:
        for site in sites:
            _refuse(base.record, other.record, site, what, shared)
    except HeedmapError as error:
        controls.explain(error)
        return
    written = range(len(base.target_ids) if shared is None else shared)
    queries = tuple(written) if group.startswith("decoder") else None
    ones = [
        Intervention(str(site), f"patch_{what}", heads=numbers, queries=queries, value=changes.STAND_IN)
        for site in sites
    ]
    st.button(t("what_if.patch_do"), key="do-patch", icon=":material/move_down:", on_click=partial(changes.add, *ones))


def _refuse(base: Record, other: Record, site: str, what: str, rows: int | None) -> None:
    """Weights need rows and keys that stand for each other, outputs rows alone."""
    try:
        refuse_other_places(base, other, changes.DONOR, site, rows)
    except HeedmapError as error:
        if what == "weights" or error.code != "donor_has_other_keys":
            raise


def _odds_panel(odds: LogOdds | None) -> None:
    """The donor's token against this sentence's: as it is, in the donor, and now."""
    if odds is None:
        st.caption(t("what_if.donor_same"))
        return
    own, other = odds.tokens
    st.markdown(t("what_if.odds", other=other, own=own, step=odds.step))
    table = pd.DataFrame(
        {"run": [plain(f"what_if.odds_{one}") for one in ("base", "now", "donor")],
         "odds": as_written([odds.base, odds.changed, odds.donor], 2)}
    )  # fmt: skip
    columns = {
        "run": st.column_config.TextColumn(plain("what_if.odds_run")),
        "odds": st.column_config.NumberColumn(plain("what_if.odds_logits"), format="%+.2f"),
    }
    st.dataframe(table, hide_index=True, column_config=columns, width="content", placeholder="-")
    if not math.isnan(odds.share):
        st.caption(t("what_if.odds_share", share=odds.share))


def _alike(first: Picture, second: Picture) -> bool:
    return first.values.shape == second.values.shape


def _difference(base: Picture, other: Picture) -> Picture:
    """Base minus donor; where their tokens differ, a label has both."""
    queries, keys = (
        Axis.of_tokens(
            one.name,
            [
                a if a == b else plain("what_if.donor_label", own=a, other=b)
                for a, b in zip(one.texts, two.texts, strict=True)
            ],
        )
        for one, two in ((base.queries, other.queries), (base.keys, other.keys))
    )
    values = base.values - other.values
    return replace(other, values=values, quantity=Quantity.DIFFERENCE, queries=queries, keys=keys, notes=())
