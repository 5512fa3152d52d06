"""Where a written word came from: two methods side by side, and how far each can be trusted."""

from html import escape

import numpy as np
import streamlit as st

from transformer import Attribution, Checkpoint, Translation
from transformer.attention.measures import rank_correlation
from transformer.errors import HeedmapError
from transformer.explain.attribution.methods import METHODS, defined, limit, question
from transformer.explain.attribution.trust import PERCENTS, Trust
from transformer.messages import Message, words
from transformer.plots.export import csv
from transformer.plots.quantity import Quantity
from transformer.runs.measures import alignment_error, faithfulness
from transformer.runs.measures.faithfulness import Faithfulness
from ui.shared import controls
from ui.shared.address import belong_to, choice, parameter, put, switch
from ui.shared.bars import Bar, bars
from ui.shared.files import Origin
from ui.shared.record_views import matrix
from ui.store import runs
from ui.texts import in_this_language, plain, said, t

WORD, FIRST, SECOND = "word", "by", "also"
"""The query parameters: which written word, and the two methods."""

NONE = "none"
"""The choice of no second method."""

_STYLE = """
<style>
.sources { display: flex; flex-wrap: wrap; gap: .25rem .3rem; margin: .2rem 0 .6rem; }
.sources span { padding: .12rem .45rem .2rem; border-radius: .45rem; text-align: center; unicode-bidi: isolate;
  border: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.sources b { display: block; font-weight: 600; max-width: 16rem; overflow: hidden; text-overflow: ellipsis; }
.sources small { font-variant-numeric: tabular-nums; }
</style>
"""


def sources_panel(checkpoint: Checkpoint, request: controls.Request, shown: Translation) -> None:
    """Pick a written word and a method (or two): its source words light up, under them the whole answer."""
    known = defined(shown.scored_sequence(checkpoint), shown.record)
    steps = shown.axes.written.merged()
    belong_to((shown.text, request.text), WORD)
    words = list(steps.labels)
    usual = next((label for label, special in zip(words, steps.special, strict=True) if not special), words[0])
    label = choice(
        t("sources.word"), words, key=WORD, text=str, default=usual, form="list", width="stretch",
        help=t("sources.word_help"),
    )  # fmt: skip
    one, two = st.columns(2)
    with one:
        first = choice(t("sources.method"), known, key=FIRST, text=_name, form="list", width="stretch")
    with two:
        others = [NONE, *(method for method in known if method != first)]
        second = choice(t("sources.beside"), others, key=SECOND, text=_name, form="list", width="stretch")
    methods = [first] if second == NONE else [first, second]
    try:
        asked = [
            runs.watched_attribution(checkpoint.name, request.text, request.options, request.forced, shown.node, method)
            for method in methods
        ]
        measured, aligned = faithfulness.shipped(checkpoint), alignment_error.shipped(checkpoint)
    except HeedmapError as error:
        controls.explain(error)
        return
    answers = [answer for answer in asked if answer is not None]
    if not answers:
        return
    row = words.index(label)
    for place, answer in zip(st.columns(len(answers)), answers, strict=True):
        with place:
            _lit(answer, row, label)
            _told(answer, measured)
            _against_people(answer, aligned)
    if len(answers) == 2:
        _agreement(answers[0], answers[1], row, label)
    _measured_here(checkpoint, request, shown, tuple(answer.method for answer in answers))
    for number, answer in enumerate(answers):
        _whole(answer, row, number, Origin(shown.checkpoint, shown.input))
    missing = [_name(method) for method in METHODS if method not in known]
    if missing:
        st.caption(t("sources.not_defined", methods=", ".join(missing)))


def _name(method: str) -> str:
    return plain("sources.none") if method == NONE else said(Message(f"attribution_{method}"))


def _lit(answer: Attribution, row: int, label: str) -> None:
    """The sentence, each word as bright as it stands behind the written one."""
    values = answer.of_source[row]
    st.markdown(f"**{t('sources.for_word', method=answer.name, word=label)}**")
    if not np.isfinite(values).any():
        st.warning(t("sources.no_numbers", word=label), icon=":material/warning:")
    largest = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    cells = []
    for text, value in zip(answer.source.texts, values, strict=True):
        strength = max(0.0, value) / largest if largest > 0 and np.isfinite(value) else 0.0
        cells.append(
            f'<span style="background: color-mix(in srgb, #0f766e {60 * strength:.0f}%, transparent)">'
            f"<b>{escape(text)}</b><small>{_number(answer, value)}</small></span>"
        )
    st.html(_STYLE + f'<div class="sources" data-testid="sources-{answer.method}">{"".join(cells)}</div>')
    st.caption(controls.sentence(answer.quantity.unit))


def _number(answer: Attribution, value: float) -> str:
    if not np.isfinite(value):
        return plain("sources.no_number")
    return f"{value:.0%}" if answer.quantity in (Quantity.SHARE, Quantity.WEIGHT) else f"{value:z.2f}"


def _told(answer: Attribution, measured: Faithfulness | None) -> None:
    """What the method asks, what it cannot say, and how far it was found to be right."""
    st.markdown(f"**{t('sources.asks')}** {controls.sentence(question(answer.method))}")
    st.markdown(f"**{t('sources.cannot')}** {controls.sentence(limit(answer.method))}")
    fare = None if measured is None else measured.fares.get(answer.method)
    if measured is None or fare is None:
        st.info(t("sources.not_measured"), icon=":material/help:")
        return
    chance = measured.fares["random"].share
    if answer.method == "deletion":  # against itself it would say nothing
        st.info(t("sources.measure", sentences=fare.sentences, area=fare.area, chance=chance), icon=":material/rule:")
        return
    spearman = t("sources.correlation", value=fare.spearman)
    found = t("sources.found", sentences=fare.sentences, share=fare.share, chance=chance, area=fare.area)
    st.info(f"{found} {spearman}", icon=":material/fact_check:")


def _against_people(answer: Attribution, aligned: alignment_error.AlignmentErrors | None) -> None:
    """How far its largest values are from links that people drew, for both rows that a word may be looked for in."""
    if aligned is not None and answer.method in aligned.methods:
        rates = aligned.methods[answer.method]
        written, read = rates["written"].error_rate, rates["read"].error_rate
        st.caption(t("sources.alignment_error", sentences=aligned.sentences, written=written, read=read))


def _agreement(first: Attribution, second: Attribution, row: int, label: str) -> None:
    """How alike two methods rank the source words: of the picked word, and on average."""
    words = [i for i, special in enumerate(first.source.special) if not special]
    each = [rank_correlation(a[words], b[words]) for a, b in zip(first.of_source, second.of_source, strict=True)]
    defined_here = [
        value for value, mark in zip(each, first.steps.special, strict=True) if not (mark or np.isnan(value))
    ]
    if not defined_here:
        st.caption(t("sources.no_agreement"))
        return
    mean = t("sources.agreement", value=float(np.mean(defined_here)), count=len(defined_here))
    one = "" if np.isnan(each[row]) else t("sources.agreement_of_word", word=label, value=each[row])
    st.markdown(f"{mean} {one}")


def _measured_here(
    checkpoint: Checkpoint, request: controls.Request, shown: Translation, methods: tuple[str, ...]
) -> None:
    """The same test on this sentence, where it is asked for: it takes words away many times."""
    if not switch(t("sources.here"), False, key="here", help=t("sources.here_help")):
        return
    try:
        found = runs.trust(checkpoint.name, request.text, request.options, request.forced, shown.node, methods)
    except HeedmapError as error:
        controls.explain(error)
        return
    rows = [*methods, *(name for name in ("deletion", "random", "reversed") if name not in methods)]
    st.dataframe(
        [_row(name, found[name]) for name in rows if found[name].rows],
        hide_index=True,
        placeholder="-",
        column_config={
            plain("sources.column_lost"): st.column_config.LineChartColumn(
                plain("sources.column_lost"), help=t("sources.column_lost_help", percents=_percents())
            ),
            plain("sources.column_kept"): st.column_config.LineChartColumn(
                plain("sources.column_kept"), help=t("sources.column_kept_help", percents=_percents())
            ),
        },
    )


def _percents() -> str:
    return ", ".join(f"{percent} %" for percent in PERCENTS)


def _row(name: str, one: Trust) -> dict[str, object]:
    title = _name(name) if name in METHODS else plain(f"sources.{name}")
    kept, alone = one.comprehensiveness / one.rows, one.sufficiency / one.rows
    return {
        plain("sources.column_method"): title,
        plain("sources.column_area"): round(float(kept.mean()), 3),
        plain("sources.column_lost"): [round(float(value), 3) for value in kept],
        plain("sources.column_alone"): round(float(alone.mean()), 3),
        plain("sources.column_kept"): [round(float(value), 3) for value in alone],
        plain("sources.column_correlation"): round(one.spearman / one.correlated, 3) if one.correlated else None,
    }


def _whole(answer: Attribution, row: int, number: int, origin: Origin) -> None:
    """The matrix, and a bar a step for source against prefix where the method shares something out."""
    picture = answer.picture()
    values = np.where(picture.visible[row], picture.values[row], -np.inf)
    largest = (row, int(np.nanargmax(values))) if np.isfinite(values).any() else None
    matrix(
        picture, key=f"sources-{number}", stem=f"sources-{answer.method}", selected=largest, relative=True,
        on_pick=lambda step, _: _keep(answer, step),
    )  # fmt: skip
    st.download_button(
        t("translate.download_csv"),
        in_this_language(lambda: csv(picture, origin.facts())),
        f"{origin.stem('sources', answer.method)}.csv",
        "text/csv",
        on_click="ignore",
        key=f"sources-csv-{number}",
    )
    share = answer.source_share
    if not len(answer.prefix):
        st.caption(t("sources.one_side"))
    if share is None:
        return
    source, prefix = words("figure_share_source"), words("figure_share_prefix")
    rows = [
        Bar(text, value, f"{value:.3f}", f"{label}: {source} {value:.3f}, {prefix} {1 - value:.3f}", "split")
        if np.isfinite(value)
        else Bar(text, np.nan, plain("sources.no_number"))
        for text, label, value in zip(answer.steps.texts, answer.steps.labels, share.tolist(), strict=True)
    ]
    bars(
        rows, words("figure_share_axis"), key=f"source-share-{number}", legend=[("", source), ("second", prefix)],
    )  # fmt: skip


def _keep(answer: Attribution, step: int) -> None:
    label = answer.steps.labels[step]
    if label != parameter(WORD):
        put(**{WORD: label})
