"""Below a changed translation: a second sentence, sweeps over heads and words, and what a corpus says of the heads."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal, cast

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float

from heedmap import Intervention, Record, Translation
from heedmap.errors import HeedmapError
from heedmap.messages import words
from heedmap.plots.axes import Axis
from heedmap.plots.charts import curves
from heedmap.plots.export import plot_config
from heedmap.plots.picture import Picture, Quantity
from heedmap.runs.measures import importance as measures
from heedmap.runs.what_if import LogOdds, for_nobody, parting, refuse_other_places
from heedmap.sites import Site
from ui.components.views import table_of_numbers
from ui.shared import changes, controls
from ui.shared.address import named, parameter, switch
from ui.shared.bars import LEAST_SCALE, is_dark
from ui.shared.changes import Changes
from ui.shared.controls import MEAN, Selection
from ui.shared.files import Provenance, head_prefix, save_button, table
from ui.shared.heads import importance
from ui.shared.part import in_page, part
from ui.shared.record_views import matrix, record_notes
from ui.store.refs import Revision
from ui.texts import plain, t
from ui.what_if import changed, views
from ui.what_if.changed import Asked, Done, Sweep

PATCH, PATCH_HEADS = "patch", "patch-heads"
"""The query parameters of what is put in, and of which heads."""

WHATS: Final = ("weights", "output")
"""What of the donor's heads is put in: `patch_weights`, or `patch_output`."""

HEADS: Final = ("one", "layer", "kind")
"""Of which heads: the chosen one, all of its layer, or all of its kind."""


def donor_panel(revision: Revision, asked: Asked, done: Done, selected: Selection, donor: str) -> None:
    """The donor's run beside this one; what can be put in, and what that did to the answer."""
    st.markdown(f"**{t('what_if.donor_panel')}**", help=t("what_if.donor_help"))
    before = changed.before(revision, asked)
    try:
        other = changed.before(revision, (donor, asked[1], None))
    except HeedmapError as error:
        controls.explain(error)
        return
    st.caption(t("what_if.donor_reads"))
    left, right = st.columns(2, gap="large")
    for place, texts in ((left, (before.input, other.input)), (right, (before.text, other.text))):
        with place:
            views.texts(one=texts[0], two=texts[1])
    record_notes(other.record, said_of=before.record)
    _side_by_side(before, other, selected)
    with st.expander(t("what_if.donor_put"), icon=":material/move_down:"):
        part(partial(_put_in, revision, asked, donor, selected), PATCH, PATCH_HEADS)
    try:
        odds = changed.odds(revision, asked, done, donor)
    except HeedmapError:  # told above: the same changes do not fit this sentence
        return
    _odds_panel(odds)


def _side_by_side(base: Translation, other: Translation, selected: Selection) -> None:
    """The same head of both runs as the model is, on one scale; and their difference where cells stand for cells."""
    site, head = selected.site, selected.head
    own, its = (run.record[site].picture(head) for run in (base, other))
    shown = [("base", base, own), ("other", other, its)]
    one, two = own.values.shape, its.values.shape
    if one == two:
        shown.append(("difference", other, _difference(own, its)))
    left, right = st.columns(2, gap="large")
    for place, (name, run, picture) in zip((left, right, left), shown, strict=False):
        with place:
            st.markdown(f"**{t(f'what_if.donor_{name}')}**")
            parts = (*head_prefix(picture), *(["this-minus-it"] if name == "difference" else []))
            matrix(picture, key=f"donor-map-{name}", stem=Provenance(base.checkpoint, run.input).stem(*parts))
    if one != two:
        st.caption(t("what_if.donor_other_shape", rows=one[0], keys=one[1], other_rows=two[0], other_keys=two[1]))


def _put_in(revision: Revision, asked: Asked, donor: str, selected: Selection) -> None:
    """Controls for what is put in, and the button; or why it cannot be."""
    base, other = changed.before(revision, asked), changed.before(revision, (donor, asked[1], None))
    group = Site(selected.site).group
    step = parting(base, other)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        what = named("what_if.patch", WHATS, key=PATCH)
        heads = named("what_if.patch_heads", HEADS if selected.head != MEAN else HEADS[1:], key=PATCH_HEADS)
    same = len(base.target_ids) == len(other.target_ids)  # else rows stand for each other until the two part
    shared = step + 1 if step is not None and not same and group.startswith("decoder") else None
    sites = [selected.site] if heads != "kind" else [site for site in base.record.sites if site.group == group]
    numbers = (int(selected.head),) if heads == "one" and selected.head != MEAN else None
    for site in sites:
        _refuse(base.record, other.record, site, what, shared)
    written = range(len(base.target_ids) if shared is None else shared)
    queries = tuple(written) if group.startswith("decoder") else None
    make = partial(Intervention, action=f"patch_{what}", heads=numbers, queries=queries, value=changes.STAND_IN)
    ones = [make(str(site)) for site in sites]
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
    run, logits = plain("what_if.odds_run"), plain("what_if.odds_logits")
    runs_ = [plain(f"what_if.odds_{one}") for one in ("base", "now", "donor")]
    values = [odds.base, odds.changed, odds.donor]
    table({run: runs_, logits: values}, formats={logits: "%+.2f"}, width="content")
    if not math.isnan(odds.share):
        st.caption(t("what_if.odds_share", share=odds.share))


def _difference(base: Picture, other: Picture) -> Picture:
    """Base minus donor; where their tokens differ, a label has both."""

    def both(one: Axis, two: Axis) -> Axis:
        pairs = zip(one.texts, two.texts, strict=True)
        labels = [a if a == b else plain("what_if.donor_label", own=a, other=b) for a, b in pairs]
        return Axis.of_tokens(one.name, labels)

    queries, keys = both(base.queries, other.queries), both(base.keys, other.keys)
    values = base.values - other.values
    return replace(other, values=values, quantity=Quantity.DIFFERENCE, queries=queries, keys=keys, notes=())


SWEEPS: Final = ("none", "heads", "source")

SWEEP: Final = "sweep"
"""The query parameter of the sweep: a name of `SWEEPS`."""


def is_asked() -> bool:
    """Whether a sweep is shown: a button stops it, so the page's own run draws it."""
    return parameter(SWEEP) in SWEEPS[1:]


def sweep_panel(revision: Revision, asked: Asked, before: Translation, action: str) -> bool:
    """A grid of effects on this sentence, which grows; says whether it goes on, for a run that follows."""
    st.markdown(f"**{t('what_if.sweep')}**", help=t("what_if.sweep_help"))
    wanted = named("what_if.sweep", SWEEPS, key=SWEEP, bare=True)
    if wanted == "none":
        return False
    in_page()
    sweep = changed.sweep(revision, asked, "source" if wanted == "source" else action)
    try:
        if sweep.going:
            sweep.advance()
        counts = dict(done=sweep.done, total=sweep.total)
        if sweep.going:
            st.progress(sweep.done / sweep.total, t("what_if.sweeping", **counts))
            stop = t("what_if.sweep_cancel")
            st.button(stop, key="sweep-cancel", icon=":material/stop_circle:", on_click=sweep.cancel)
        elif sweep.cancelled:
            st.caption(t("what_if.sweep_cancelled", **counts))
            go_on = t("what_if.sweep_resume")
            st.button(go_on, key="sweep-resume", icon=":material/play_arrow:", on_click=sweep.start)
    except HeedmapError as error:
        controls.explain(error)
    (_source if wanted == "source" else _heads)(sweep, before, action, Provenance(str(revision.ref), asked[0]))
    return sweep.going and sweep.problem is None


def _heads(sweep: Sweep, before: Translation, action: str, origin: Provenance) -> None:
    sites = list(before.record.sites)
    every = [(site, head) for site in sites for head in range(before.record[site].n_heads)]
    found = list(zip(every, sweep.found, strict=False))
    values = np.full((len(sites), max(head for _, head in every) + 1), np.nan)
    for (site, head), change in found:
        values[sites.index(site), head] = change
    whole = sum(np.isfinite(row[: before.record[site].n_heads]).all() for row, site in zip(values, sites, strict=True))
    titles = plain("what_if.column_head"), plain("what_if.column_effect", way=changes.way_name(action))
    rows = sorted(((f"{site} H{head}", change) for (site, head), change in found), key=lambda one: one[1])

    def pick(row: int, head: int) -> None:
        changes.add(Intervention(str(sites[row]), action, heads=(head,)))

    st.caption(t("what_if.sweep_heads_note", way=changes.way_name(action)))
    labels = sites[:whole], [f"H{i}" for i in range(values.shape[1])]
    names = plain("what_if.sweep_site"), plain("what_if.column_head")
    _show(values[:whole], labels, names, pick, pd.DataFrame(rows, columns=titles), origin.stem("sweep-heads", action))


def _source(sweep: Sweep, before: Translation, _action: str, origin: Provenance) -> None:
    sources, tokens = before.axes.source.merged().labels, before.axes.written.labels
    whole = len(sweep.found)
    values = np.full((len(sources), len(tokens)), np.nan)
    values[:whole] = np.reshape(sweep.found, (whole, len(tokens)))
    rows = pd.DataFrame(values, columns=list(tokens))
    rows.insert(0, plain("what_if.column_word"), list(sources), allow_duplicates=True)
    rows.insert(1, plain("what_if.column_total"), values.sum(axis=1), allow_duplicates=True)

    def pick(row: int, _token: int) -> None:
        changes.add(*for_nobody(before, row))

    st.caption(t("what_if.sweep_source_note"))
    names = plain("what_if.column_word"), plain("what_if.sweep_token")
    _show(values[:whole], (sources[:whole], tokens), names, pick, rows, origin.stem("sweep-source"))


def _show(
    values: Float[np.ndarray, "row column"],
    labels: tuple[Sequence[str], Sequence[str]],
    names: tuple[str, str],
    pick: Callable[[int, int], None],
    rows: pd.DataFrame,
    stem: str,
) -> None:
    """The rows that are known so far, as colours; their numbers, and the file that holds them."""
    end = float(np.nanmax(np.abs(values), initial=LEAST_SCALE))
    unit = words("figure_change_of_log_p")
    table_of_numbers(values, "", names, unit, key="sweep-grid", file_name=stem, labels=labels, end=end, on_pick=pick)
    with st.expander(t("what_if.sweep_table"), icon=":material/table:"):
        table(rows, key="sweep-table")
    save_button(t("what_if.sweep_csv"), rows, f"{stem}.csv", icon=":material/download:")


MEASURES: Final = ("bleu", "nll")

MEASURE: Final = "measure"
"""The query parameter of what is shown: a name of `MEASURES`."""

CORPUS: Final = "corpus"
"""The query parameter of whether anything is shown."""

NUMBERS: Final = ("zero", "mean", "gradient")
"""What the table says of each head."""


def corpus_panel(name: str, changes: Changes) -> None:
    """Curves and a table, where the checkpoint brings them; heads that this sentence's changes touch are marked.

    They are drawn when they are asked for: until then the page needs no library of charts.

    Raises:
        CheckpointError: a file of the checkpoint is damaged.
    """
    if not switch(t("what_if.corpus"), False, key=CORPUS, help=t("what_if.corpus_help")):
        return
    found = importance(name)
    if found is None:
        st.caption(t("what_if.no_importance"))
        return
    measure = named("what_if.measure", MEASURES, key=MEASURE)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _curves(found, measure)
    with right:
        _table(found.heads[measures.WHOLE], changes)


def _curves(found: measures.Importance, measure: str) -> None:
    """What is left with more and more heads off; and what the numbers say of it."""
    rows = found.removals[measures.WHOLE]
    kind = cast(Literal["bleu", "nll"], measure)
    shares, lines = measures.removal_lines(rows, kind)
    named_ = words("figure_heads_off"), words(f"measure_{kind}")
    figure = curves(lines, *named_, x=shares, dots=range(len(shares)), dashed=True, dark=is_dark())
    # Names are so long that a phone's window has one a row: above the picture there is room for all of them.
    figure.update_layout(height=460, margin=dict(t=90, b=48), legend=dict(yref="paper", y=1.02))
    st.plotly_chart(figure, key="removals", config=plot_config(f"importance-{measure}"))
    st.caption(t("what_if.corpus_note", pairs=found.about.pairs, source=found.about.source))
    for order in ("zero", "gradient"):
        shares_ = plain("what_if.between").join(f"{share} %" for share in measures.beats_random(rows, order, kind))
        name = words(f"plan_{order}")
        said = t("what_if.beats_random", order=name, shares=shares_) if shares_ else t("what_if.beats_none", order=name)
        st.caption(said)
    group, most = measures.steepest(rows, kind)
    st.caption(t("what_if.steepest", group=group, share=most))


def _table(heads: tuple[measures.HeadImportance, ...], changes: Changes) -> None:
    """Every head, the one whose loss costs most first."""
    ordered = sorted(heads, key=lambda one: -one.zero)
    touched = [any(one.site == head.site and one.touches_head(head.head) for one in changes) for head in ordered]
    named_ = [f"{'● ' if mark else ''}{one.site} H{one.head}" for one, mark in zip(ordered, touched, strict=True)]
    head, *columns = (plain(f"what_if.column_{name}") for name in ("head", *NUMBERS))
    rows = pd.DataFrame([[getattr(one, name) for name in NUMBERS] for one in ordered], columns=columns)
    rows.insert(0, head, named_)
    form = {one: st.column_config.NumberColumn(format="%.4f", width=61) for one in columns}
    form[head] = st.column_config.TextColumn(width=144)
    st.caption(t("what_if.corpus_table"))
    table(rows, formats=dict.fromkeys(columns, "%.4f"), height=400, column_config=form)
