"""Align: the panels that show what two models make of one sentence, and the finding above them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import isnan

import pandas as pd
import streamlit as st

from heedmap.attention.alignments import on_one_axis
from heedmap.lessons.costs import costs_of, crossing
from heedmap.plots.canvas.views import About
from heedmap.plots.charts import curves
from heedmap.plots.export import archive, plot_config, table_csv
from heedmap.plots.picture import Picture
from heedmap.runs.attribution import forgotten, usual_deletion
from heedmap.runs.what_if import aligned_words
from ui.align.choices import Pair
from ui.components.alignments.component import Marked, Moment, Panel, alignments
from ui.shared.address import parameter, set_parameter
from ui.shared.bars import Bar, bars, is_dark
from ui.shared.files import save_button
from ui.shared.heads import likelihood
from ui.shared.record_views import matrix
from ui.shared.writing import token_strip
from ui.store import runs, store
from ui.texts import as_text, plain, said, t

WORD, MARK = "word", "mark"
"""The query parameters of the marked target word and of its panel, from 0."""

FOLDED, BEGINNING = 32, 200
"""From more tokens on, a translation is folded up; and how many characters of a folded one are shown."""

MOST = 3
"""Words that the finding names."""

FORMULA = (
    r"1 - \sqrt{\tfrac12 \sum_s p_s \log_2 \tfrac{2 p_s}{p_s + q_s} + "
    r"\tfrac12 \sum_s q_s \log_2 \tfrac{2 q_s}{p_s + q_s}}"
)
"""The agreement of two rows p and q over source words s."""

COSTS = ("path_length", "path_growth", "sequential", "sequential_growth", "multiply_adds", "formula", "layers")
"""The rows of the table of costs."""

PLOTTED = tuple(sorted({round(2 ** (power / 4)) for power in range(4, 49)}))
"""Lengths of the curves: 2 to 4,096 tokens."""


def finding(shown: Pair) -> None:
    """A word that one model forgets; or else where they part, or that both write the same: from the run."""
    texts = [side.own.text for side in shown.sides]
    for keeps, loses in (shown.sides, shown.sides[::-1]) if all(text.strip() for text in texts) else ():
        both = (keeps, loses)
        decided = [runs.deciding(side.name, shown.text, shown.options, None, None) for side in both]
        found = forgotten([side.own for side in both], decided)
        if found:
            words, first = _quoted([one.word for one in found[:MOST]]), found[0]
            st.subheader(as_text(plain("align.forgets", model=loses.title, words=words)), anchor=False)
            needed = [plain("align.loses", word=word, nats=nats) for word, nats in first.written.items()]
            hows = [usual_deletion(store.checkpoint(side.name)) for side in (loses, keeps)]
            without, less = (plain(f"align.without_{how}", word=first.word) for how in hows)
            st.caption(
                t(
                    "align.forgets_why", without=without, model=loses.title, lost=max(0.0, first.lost), less=less,
                    other=keeps.title, needed=plain("align.between").join(needed),
                )
            )  # fmt: skip
            return
    parts = [[word.text for word in words if word.changed] for words in aligned_words(*texts)]
    more = [list((Counter(part) - Counter(other)).elements())[:MOST] for part, other in (parts, parts[::-1])]
    empty = plain("align.empty")
    if not any(parts):
        st.subheader(t("align.same_translation"), anchor=False)
        st.caption(as_text(texts[0]))
        return
    if not any(more):
        headline = plain("align.order")
    elif all(more) or not all(texts):
        one, two = (_quoted(words) if words else empty for words in more)
        headline = plain("align.parts", **shown.titles(), one=one, two=two)
    else:
        longer, shorter = sorted(zip(more, shown.sides, strict=True), key=lambda one: not one[0])
        headline = plain("align.more", more=longer[1].title, less=shorter[1].title, words=_quoted(longer[0]))
    st.subheader(as_text(headline), anchor=False)
    st.caption(as_text(plain("align.both", first=texts[0] or empty, second=texts[1] or empty)))


def _quoted(words: list[str]) -> str:
    return plain("align.between").join(plain("align.quoted", word=word) for word in words)


def translations(shown: Pair) -> None:
    """What each model wrote, token by token, a long one folded up; beside it how likely the common target is."""
    st.markdown(f"**{t('align.translations')}**")
    for column, side in zip(st.columns(2, gap="large"), shown.sides, strict=True):
        text, steps = said(side.own.text) or plain("align.empty"), side.own.steps
        with column:
            st.markdown(f"**{as_text(side.title)}** · {as_text(side.label)}")
            st.caption(likelihood(side.own, side.read))
            if len(steps) <= FOLDED:
                st.text(text)
                token_strip(steps)
                continue
            st.text(f"{text[:BEGINNING]} …" if len(text) > BEGINNING else text)
            with st.expander(t("align.all_tokens", count=len(steps))):
                token_strip(steps)


def side_by_side(shown: Pair) -> None:
    """Two maps over the same source words; pointing at a target word marks its source words in both."""
    own, comparison = shown.is_own, shown.comparison
    pictures = on_one_axis(*shown.own_alignments()) if own else (comparison.first, comparison.second)
    st.caption(t("align.look_own") if own else t("align.look_same", origin=shown.origin))
    panels = []
    for side, picture in zip(shown.sides, pictures, strict=True):
        decided = runs.deciding(side.name, shown.text, shown.options, None if own else shown.target, None)
        panels.append(
            Panel(
                title=side.title, rows=picture.queries.labels, weights=picture.values, visible=picture.visible,
                note=plain("align.of_file", file=side.label, note=side.note), decided=tuple(decided.columns.tolist()),
            )
        )  # fmt: skip
    title = plain("align.about_title", first=shown.sides[0].label, second=shown.sides[1].label)
    sentence, target = shown.about
    alignments(
        [Moment("", tuple(panels))], pictures[0].keys.labels, key="alignments", same_rows=not own,
        marked=_marked(pictures), file_name=shown.stem("alignments"),
        about=About(title, [sentence, plain("align.look_own") if own else target]),
        on_mark=lambda word: _mark(word, pictures),
    )  # fmt: skip


def _marked(panels: Sequence[Picture]) -> Marked | None:
    """The word in the address, if these panels have it; one that they have not is forgotten."""
    number, word = parameter(MARK), parameter(WORD) or ""
    in_order = sorted(enumerate(panels), key=lambda one: str(one[0]) != number)
    places = ((panel, one.queries.labels) for panel, one in in_order)
    found = next(((panel, labels.index(word)) for panel, labels in places if word in labels), None)
    _mark(found, panels)
    return found


def _mark(word: Marked | None, panels: Sequence[Picture]) -> None:
    """Put a word into the address, or take it out."""
    set_parameter(WORD, None if word is None else panels[word[0]].queries.labels[word[1]])
    set_parameter(MARK, str(word[0]) if word and word[0] else None)


def agreement_panel(shown: Pair) -> None:
    """The agreement of each target word, and the difference of the two maps."""
    comparison, words = shown.comparison, shown.comparison.first.queries
    st.caption(t("align.look_agreement"))
    why = f"{t('align.measure_why')}\n\n$${FORMULA}$$"
    st.metric(t("align.mean_agreement"), f"{comparison.mean:.3f}", help=why, width="content")
    mean = None if isnan(comparison.mean) else comparison.mean
    keys, rows = comparison.first.keys.labels, list[Bar]()
    for text, word, special, value, row in zip(
        words.texts, words.labels, words.special, comparison.agreement.tolist(), comparison.difference.values,
        strict=True,
    ):  # fmt: skip
        more, less = row.argmax(), row.argmin()
        largest = {"more": keys[more], "less": keys[less], "above": row[more], "below": -row[less]}
        note = plain("align.apart", **shown.titles(), **largest)
        number = "-" if isnan(value) else f"{value:.3f}"
        rows.append(Bar(text, value, number, f"{word}: {value:.4f}. {note}", "faint" if special else "", point=mean))
    line = f"{plain('align.mean')} {comparison.mean:.2f}"
    left, right = st.columns(2, gap="large")
    with left:
        bars(rows, plain("align.agreement"), key="agreement", legend=[] if mean is None else [("line", line)])
        st.caption(t("align.look_bars", origin=shown.origin))
    with right:
        st.markdown(f"**{t('align.difference', **shown.titles())}**")
        matrix(comparison.difference, key="difference", stem=shown.stem("difference"))
        st.caption(t("align.look_difference", **shown.titles()))


def changes_panel(shown: Pair) -> None:
    """Counted from the configs for the sentence that was typed, and drawn for all lengths."""
    tokens = len(shown.sides[0].own.source_ids)
    costs = [costs_of(store.checkpoint(side.name).model, side.title) for side in shown.sides]
    st.markdown(f"**{t('align.look_changes', tokens=tokens)}**", help=t("align.look_changes_help"))
    columns = [
        (
            f"{cost.path_length(tokens):,}", "n-1" if cost.recurrent else "1", f"{cost.sequential_steps(tokens):,}",
            ("n" if cost.layers == 1 else f"{cost.layers}n") if cost.recurrent else str(cost.layers),
            f"{cost.multiply_adds(tokens):,}", cost.formula, str(cost.layers),
        )
        for cost in costs
    ]  # fmt: skip
    names = [f"{i}. {side.title}" for i, side in enumerate(shown.sides, 1)]
    table = pd.DataFrame(dict(zip(names, columns, strict=True)), index=[t(f"align.{row}") for row in COSTS])
    wide = {name: st.column_config.TextColumn(width=270) for name in names}
    st.dataframe(table, width="content", column_config=wide, key="costs", placeholder="-")
    st.markdown(f"**{t('align.counted')}**")
    lines = {name: [float(cost.multiply_adds(n)) for n in PLOTTED] for name, cost in zip(names, costs, strict=True)}
    figure = curves(
        lines, t("align.tokens"), t("align.multiply_adds"), x=PLOTTED, log_x=True, log_y=True, mark=float(tokens),
        mark_name=t("align.your_sentence", tokens=tokens), dashed=True, dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="counted", config=plot_config("multiply-adds"))
    where = crossing(*costs)
    st.caption(t("align.crossing", tokens=where) if where else t("align.no_crossing"))


def downloads_panel(shown: Pair) -> None:
    """Every number of the page: all tables in one ZIP; below, the maps, which leave as pictures."""
    save_button(
        t("align.download_all"), partial(_all, shown), f"{shown.stem('alignments')}.zip", "application/zip",
        type="primary", icon=":material/folder_zip:", help=t("align.download_all_help"),
    )  # fmt: skip
    side_by_side(shown)
    st.caption(t("align.look_downloads"))


def _all(shown: Pair) -> bytes:
    """The maps of the page, each with a note that says whose it is and whose words its rows are, and the agreement."""
    comparison, labels = shown.comparison, [side.label for side in shown.sides]
    difference = plain("align.difference", first=labels[0], second=labels[1])
    maps = {"difference": (comparison.difference, difference)}
    both = zip(("first", "second"), labels, (comparison.first, comparison.second), shown.own_alignments(), strict=True)
    for name, model, read, own in both:
        maps[name] = read, plain("align.file_read", model=model, origin=shown.origin)
        maps[f"{name}-own-words"] = own, plain("align.file_own", model=model)
    noted = {name: replace(picture, notes=(*picture.notes, note)) for name, (picture, note) in maps.items()}
    chosen = [plain("align.about_head", model=side.label, head=side.note) for side in shown.sides]
    keys, header = comparison.first.keys.labels, ("word", "agreement", "more", "less")
    rows = [
        (word, float(value), keys[row.argmax()], keys[row.argmin()])
        for word, value, row in zip(
            comparison.first.queries.labels, comparison.agreement, comparison.difference.values, strict=True
        )
    ]
    table = table_csv([plain(f"align.table_{column}") for column in header], rows)
    return archive(noted, {"agreement": (plain("align.table_is"), table)}, [*shown.about, *chosen])


PANELS: dict[str, Callable[[Pair], None]] = {
    "side": side_by_side,
    "agreement": agreement_panel,
    "changes": changes_panel,
    "downloads": downloads_panel,
}
"""The page's screens, in order."""
