"""One head's own page: its profile, its shares against chance, its examples, its relatives, its history."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from transformer import DecodingOptions
from transformer.atlas.roles import NAMED_SHARES, line_of, share_name
from transformer.atlas.statistics import OFFSETS
from transformer.plots.curves import curves
from transformer.plots.export import PLOT_CONFIG
from transformer.plots.file_names import file_name
from transformer.plots.heads import offset_profile
from transformer.plots.logo import logo
from transformer.plots.picture import Picture
from transformer.runs.concurrency import forward_slot
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, Classification, classify
from ui.atlas import cards, choices, measured, tree, words
from ui.markdown import as_text
from ui.shared import writing
from ui.shared.address import choice
from ui.shared.part import part
from ui.shared.record_views import matrix
from ui.shared.theme import is_dark
from ui.store import atlases, runs, store
from ui.store.atlases import Atlas, Row
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import KEY, language, plain, said, t

FOLLOWED = ("confidence", "normalised_entropy", "previous", "same", "next", "special", "advance")
"""Measures whose history is drawn, where a head has them."""

N_RELATIVES = 5

TINY = 1e-12
"""A share of 0 adds nothing to a column's information."""

EXAMPLE = "example"
"""The query parameter of the example that is shown."""


def head_panel(name: str, atlas: Atlas) -> None:
    """Everything that is known of one head."""
    row = choices.head(atlas)
    st.markdown(f"**{as_text(choices.head_name(row))}: {as_text(said(line_of(row)))}**")
    measured.facts(name, atlas, row)
    with st.container(key="atlas-columns"):
        left, right = st.columns([4, 5], gap="medium")
    with left:
        _columns(row) if row["columns"] else _profile(row)
    with right:
        words.words_panel(atlas, row)
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
        if row["columns"]:
            _profile(row)
        if not choices.is_own(atlas):  # what ships is of another corpus
            _history(name, row)


def _columns(row: Row) -> None:
    """Which letters the windows have that rows look at most, column by column."""
    width, letters = row["pattern_width"], row["alphabet"]
    shares = np.array(row["columns"]).reshape(width, len(letters)).T
    bits = shares * (np.log2(len(letters)) + (shares * np.log2(np.maximum(shares, TINY))).sum(0))
    st.html(f'<div class="atlas"><div>{cards.places(row)}</div></div>')
    positions, title = [str(i + 1) for i in range(width)], plain("atlas.columns")
    figure = logo(letters, bits.clip(min=0.0), positions, title=title, dark=is_dark())
    st.plotly_chart(figure, key="atlas-logo", config=PLOT_CONFIG)
    st.caption(t("atlas.columns_note", width=row["pattern_width"]))


def _profile(row: Row) -> None:
    if row["offsets"] is None:
        return
    share, spread, chance = (_numbers(row[key]) for key in ("offsets", "offsets_spread", "offsets_chance"))
    figure = offset_profile(
        OFFSETS, share, spread / np.sqrt(row["sentences"]), chance,
        names=(plain("atlas.share"), plain("atlas.chance")), axis=plain("atlas.offset"),
        quantity=plain("atlas.mean_weight"), dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="atlas-profile", config=PLOT_CONFIG)
    st.caption(t("atlas.profile_note" if row["letters"] is None else "atlas.profile_note_letters"))


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
    rows = [(name, share, share / chance if chance else None) for name, share, chance in known]
    table = pd.DataFrame(rows, columns=["on", "share", "ratio"])
    formats = {"share": "%.3f", "ratio": "%.2f"}
    st.dataframe(
        table,
        hide_index=True,
        placeholder="-",
        column_config={"on": st.column_config.TextColumn(plain("atlas.on"))}
        | {one: st.column_config.NumberColumn(plain(f"atlas.{one}"), format=form) for one, form in formats.items()},
    )
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
        return f"{score}{one['source']}"

    best = [key for key in labels if key.startswith("best")]
    picked = choice(
        t("atlas.example"), [*best, *(key for key in labels if key not in best)], key=EXAMPLE, form="list",
        width="stretch", text=lambda key: f"{plain('atlas.' + labels[key]['kind'])}: {text(key)}",
    )  # fmt: skip
    one = labels[picked]
    measure = plain(f"atlas.shown_{row['shown_by']}")
    st.caption(t(f"atlas.examples_note{of}", measure=measure, text=corpus))
    picture = _map(name, row, one)
    stem = file_name(name, str(row["site"]), f"head-{row['head']}")
    matrix(picture, key="atlas-example", stem=stem, relative=row["letters"] is not None)  # a row has many windows
    if row["letters"] is not None:
        st.page_link(
            "pages/sequences.py",
            label=t("atlas.open_sequences"),
            query_params={"sequence": one["source"], "model": name, KEY: language()},
        )
    elif store.architecture(name) in store.TRANSLATORS:
        choices.open_in_translate(name, row, one["source"], one["target"])
    else:
        writing.lead_to_map(name, store.checkpoint(name))


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
    distances = tree.distances_of(atlas, rows)[rows.index(row)]
    nearest = [i for i in np.argsort(distances, kind="stable") if rows[i] is not row][:N_RELATIVES]
    st.markdown(f"**{t('atlas.relatives')}**")
    for i in nearest:
        other = rows[int(i)]
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.button(
                t("atlas.relative", name=choices.short_name(other), distance=f"{distances[i]:.3f}"),
                key=f"relative-{other['site']}-{other['head']}", on_click=choices.open_head, args=(other,),
            )  # fmt: skip
    st.caption(t("atlas.relatives_note"))


def _history(name: str, row: Row) -> None:
    moments = atlases.history(name)
    if not moments:
        return
    rows = [atlas.of(row["site"], row["head"]) for _, atlas in moments]
    series = {
        plain(f"atlas.measure_{measure}"): _numbers([one[measure] for one in rows])
        for measure in FOLLOWED
        if not np.isnan(_numbers([one[measure] for one in rows])).all()
    }
    st.markdown(f"**{t('atlas.history')}**")
    figure = curves(
        series, plain("atlas.update"), plain("atlas.value"), x=[_moment(label) for label, _ in moments],
        dots=range(len(moments)), dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="atlas-history", config=PLOT_CONFIG)
    st.caption(t("atlas.history_note", sentences=moments[0][1].about["counts"]["sentences"]))


def _moment(label: str) -> str:
    return str(int(label)) if label.isdecimal() else plain("atlas.shipped")


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values])
