"""One head's own page: its profile, its shares against chance, its examples, its relatives, its history."""

from functools import partial
from math import isnan

import numpy as np
import streamlit as st

from heedmap import DecodingOptions
from heedmap.atlas.roles import NAMED_SHARES, line_of, share_name
from heedmap.atlas.statistics import OFFSETS
from heedmap.plots.charts import curves, offset_profile
from heedmap.plots.export import PLOT_CONFIG, file_name
from heedmap.plots.logo import logo
from heedmap.plots.picture import Picture
from heedmap.runs.concurrency import forward_slot
from heedmap.runs.sequences.classify import LETTERS_AT_ONCE, Classification, classify
from ui.atlas import heads
from ui.atlas.heads import GROUP, HEAD, LAYER, SCREEN, measured, places, words_panel
from ui.shared import writing
from ui.shared.address import choice, put
from ui.shared.bars import is_dark
from ui.shared.files import table
from ui.shared.heads import KIND
from ui.shared.part import part
from ui.shared.record_views import matrix
from ui.shared.sequence import logo_panel
from ui.store import atlases, runs, store
from ui.store.atlases import Atlas, Row
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import KEY, as_text, language, plain, said, t

PLOTTED = ("confidence", "normalised_entropy", "previous", "same", "next", "special", "advance")
"""Measures whose history is drawn, where a head has them."""

N_RELATIVES = 5

TINY = 1e-12
"""A share of 0 adds nothing to a column's information."""

EXAMPLE = "example"
"""The query parameter of the example that is shown."""


def head_panel(name: str, atlas: Atlas) -> None:
    """Everything that is known of one head."""
    row = heads.head(atlas)
    st.markdown(f"**{as_text(heads.head_name(row))}: {as_text(said(line_of(row)))}**")
    _facts(name, row)
    with st.container(key="atlas-columns"):
        left, right = st.columns([4, 5], gap="medium")
    with left:
        _profile(row)
    with right:
        words_panel(atlas, row)
        if row["letters"] is not None:
            _shares(row)
    known = [
        one for one in atlas.examples if (one["site"], one["head"]) == (row["site"], row["head"]) and one["source"]
    ]
    if known:
        text = str(atlas.about.get("examples_source", atlas.about["source"]))
        with st.container():
            part(lambda: _examples(name, known, row, text), EXAMPLE)
    with st.container(key="atlas-columns-below"):
        below, beside = st.columns(2, gap="medium")
    with below:
        if row["letters"] is None:
            _shares(row)
        _relatives(atlas, row)
    with beside:
        if not heads.is_own(atlas):  # what ships is of another corpus
            _history(name, row)


def _facts(name: str, row: Row) -> None:
    """What was measured of one head in sentences, and where cross-attention can be looked at as an alignment."""
    found = measured(name)
    if found.about is not None and not isnan(found.of(row)):
        st.caption(
            t("atlas.importance", nats=found.of(row), place=found.place(row), count=len(found.lost)),
            help=t("atlas.importance_help", pairs=found.about.pairs, source=found.about.source),
        )
    if row["group"] == KIND and store.architecture(name) in store.TRANSLATORS:
        st.page_link(
            "pages/align.py", label=t("atlas.open_align"), width="content",
            query_params={"model": name, "head1": f"{row['layer']}.{row['head']}", KEY: language()},
        )  # fmt: skip


def _profile(row: Row) -> None:
    """The mean weight on each offset from the query; of a classifier's head, also on letters.

    That is on each letter of a sequence of the trained length, and which letters the windows have that rows look at.
    """
    if row["columns"]:
        width, letters = row["pattern_width"], row["alphabet"]
        shares = np.array(row["columns"]).reshape(width, len(letters)).T
        bits = shares * (np.log2(len(letters)) + (shares * np.log2(np.maximum(shares, TINY))).sum(0))
        st.html(f'<div class="atlas"><div>{places(row)}</div></div>')
        picture = logo(letters, bits.clip(min=0.0), [str(i + 1) for i in range(width)])
        stem = file_name(str(row["site"]), f"head-{row['head']}-logo")
        logo_panel(picture, t("atlas.columns_note", width=width), stem)
    if row["offsets"] is None:
        return
    share, spread, chance = (np.array(row[key], float) for key in ("offsets", "offsets_spread", "offsets_chance"))
    figure = offset_profile(
        OFFSETS, share, spread / np.sqrt(row["sentences"]), chance,
        names=(plain("atlas.share"), plain("atlas.chance")), axis=plain("atlas.offset"),
        quantity=plain("atlas.mean_weight"), dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="atlas-profile", config=PLOT_CONFIG)
    if row["letters"] is None:
        st.caption(t("atlas.profile_note"), help=t("atlas.profile_note_help"))
    else:
        st.caption(t("atlas.profile_note_letters"))


def _shares(row: Row) -> None:
    """Each share, and how many times its chance level that is; for sequences, shares by letter."""
    if row["letters"] is not None:
        letters = row["alphabet"] or "ACGT"
        known = [(letter, row["letters"][i], row["letters_chance"][i]) for i, letter in enumerate(letters)]
    else:
        known = [
            (said(share_name(row, one)), row[one], row[f"{one}_chance"])
            for one in NAMED_SHARES
            if row[one] is not None and not np.isnan(row[one]) and row[f"{one}_chance"] > 0
        ]
    on, share, ratio = (plain(f"atlas.{one}") for one in ("on", "share", "ratio"))
    rows = [(name, value, value / chance if chance else None) for name, value, chance in known]
    table(rows, [on, share, ratio], {share: "%.3f", ratio: "%.2f"})
    note = "atlas.shares_note" if row["letters"] is None else "atlas.shares_note_letters"
    st.caption(t(note, keys=f"{row['effective_keys']:.1f}", confidence=f"{row['confidence']:.2f}"))


def _examples(name: str, known: list[Row], row: Row, corpus: str) -> None:
    """The sentences of a corpus that show the head best and some drawn without looking; one of them with its map."""
    of = "" if row["letters"] is None else "_sequences"
    st.markdown(f"**{t(f'atlas.examples{of}')}**")
    labels = {f"{one['kind']}-{one['rank']}": one for one in known}

    def text(key: str) -> str:
        one = labels[key]
        score = "" if one["kind"] == "ordinary" else f"{one['score']:.2f} "
        return f"{plain('atlas.' + one['kind'])}: {score}{one['source']}"

    best_first = sorted(labels, key=lambda key: not key.startswith("best"))
    picked = choice(t("atlas.example"), best_first, key=EXAMPLE, form="list", width="stretch", text=text)
    one = labels[picked]
    measure = plain(f"atlas.shown_{row['shown_by']}")
    st.caption(t(f"atlas.examples_note{of}", measure=measure, text=corpus))
    picture = _map(name, row, one)
    stem = file_name(name, str(row["site"]), f"head-{row['head']}")
    matrix(picture, key="atlas-example", stem=stem, relative=row["letters"] is not None)  # a row has many windows
    letters, is_translator = row["letters"] is not None, store.architecture(name) in store.TRANSLATORS
    if not (letters or is_translator):
        writing.lead_to_map(name, store.checkpoint(name))
        return
    page, query = "sequences", {"model": name, "sequence": one["source"], KEY: language()}
    if is_translator:
        layer = {} if row["layer"] is None else {"layer": str(row["layer"])}
        at = {"kind": row["group"], **layer, "head": str(row["head"]), KEY: language()}
        page, query = "translate", {"model": name, "text": one["source"], "force": one["target"], **at}
    st.page_link(f"pages/{page}.py", label=t(f"atlas.open_{page}"), query_params=query)


def _map(name: str, row: Row, example: Row) -> Picture:
    """The head's map of an example: of windows, of a text that is read, or of a translation that is forced."""
    text, options = example["source"], DecodingOptions(beam=1)
    if row["letters"] is not None:
        record = _classification(store.revision(name), text).record
    elif store.architecture(name) in store.TRANSLATORS:
        record = runs.translation(name, text, options, example["target"] or None).record
    else:
        record = runs.any_run(name, text, options, None).record
    return record[row["site"]].picture(row["head"])


@cached(spinner="atlas.reading")
def _classification(revision: Revision, text: str) -> Classification:
    with forward_slot():
        return classify(store.load(revision), text, LETTERS_AT_ONCE)


def _relatives(atlas: Atlas, row: Row) -> None:
    rows = atlas.groups[row["group"]]
    if len(rows) < 2:
        return
    from scipy.spatial.distance import squareform  # late: it would hold up the start of every page

    pairs = [pair["distance"] for pair in atlas.pairs if pair["group"] == row["group"]]
    distances = squareform(pairs)[rows.index(row)]
    nearest = [i for i in np.argsort(distances, kind="stable") if rows[i] is not row][:N_RELATIVES]
    st.markdown(f"**{t('atlas.relatives')}**")
    for i in nearest:
        other = rows[int(i)]
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            there = {SCREEN: "head", GROUP: other["group"], LAYER: other["layer"], HEAD: other["head"]}
            label = t("atlas.relative", name=heads.head_name(other, short=True), distance=f"{distances[i]:.3f}")
            st.button(label, key=f"relative-{other['site']}-{other['head']}", on_click=partial(put, **there))
    st.caption(t("atlas.relatives_note"))


def _history(name: str, row: Row) -> None:
    moments = atlases.history(name)
    if not moments:
        return
    rows = [atlas.of(row["site"], row["head"]) for _, atlas in moments]
    found = {measure: np.array([one[measure] for one in rows], float) for measure in PLOTTED}
    series = {plain(f"atlas.measure_{name}"): values for name, values in found.items() if not np.isnan(values).all()}
    st.markdown(f"**{t('atlas.history')}**")
    figure = curves(
        series, plain("atlas.update"), plain("atlas.value"), x=[_moment(label) for label, _ in moments],
        dots=range(len(moments)), dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="atlas-history", config=PLOT_CONFIG)
    st.caption(t("atlas.history_note", sentences=moments[0][1].about["counts"]["sentences"]))


def _moment(label: str) -> str:
    return str(int(label)) if label.isdecimal() else plain("atlas.shipped")
