"""The panels of the Align page that show two alignments: side by side, and how far they agree."""

from collections.abc import Sequence

import streamlit as st

from transformer.attention.alignment import on_one_axis
from transformer.plots.picture import Picture
from ui.align.choices import MARK, WORD, Aligned, Pair, Words, own_alignments
from ui.align.files import about_maps, stem
from ui.components.alignments.component import Marked, Moment, Panel, alignments
from ui.markdown import as_text
from ui.shared.address import parameter, set_parameter, whole_numbers
from ui.shared.likelihood import likelihood
from ui.shared.token_strip import token_strip
from ui.store import runs
from ui.texts import plain, t

FOLDED = 32
"""From more tokens on, a translation is folded up."""

BEGINNING = 200
"""How many characters of a folded translation are shown."""


def translations(shown: Pair) -> None:
    """What each model wrote, token by token, a long one folded up; beside it how likely the common target is."""
    st.markdown(f"**{t('align.translations')}**")
    for column, side in zip(st.columns(2, gap="large"), shown.sides, strict=True):
        text, steps = side.own.text or plain("align.empty"), side.own.steps
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


def side_by_side(shown: Pair, aligned: Aligned, words: Words) -> None:
    """Two maps over the same source words; pointing at a target word marks its source words in both."""
    if words == "own":
        pictures = on_one_axis(*own_alignments(shown, aligned))
        st.caption(t("align.look_own"))
    else:
        pictures = (aligned.comparison.first, aligned.comparison.second)
        st.caption(t("align.look_same", origin=shown.origin))
    target = None if words == "own" else shown.target
    panels = tuple(_panel(shown, aligned, number, picture, target) for number, picture in enumerate(pictures))
    moment = Moment("", panels)
    alignments(
        [moment],
        pictures[0].keys.labels,
        key="alignments",
        same_rows=words != "own",
        marked=marked(pictures),
        file_name=stem(shown, "alignments"),
        about=about_maps(shown, own=words == "own"),
        on_mark=lambda word: mark(word, pictures),
    )


def marked(panels: Sequence[Picture]) -> Marked | None:
    """The word in the address, if these panels have it; one that they have not is forgotten."""
    found = _marked(panels)
    mark(found, panels)
    return found


def mark(word: Marked | None, panels: Sequence[Picture]) -> None:
    """Put a word into the address, or take it out."""
    set_parameter(WORD, None if word is None else panels[word.panel].queries.labels[word.row])
    set_parameter(MARK, str(word.panel) if word and word.panel else None)


def _marked(panels: Sequence[Picture]) -> Marked | None:
    number, _, old = (parameter(MARK) or "").partition(":")
    word = parameter(WORD) or old
    for panel, picture in sorted(enumerate(panels), key=lambda one: str(one[0]) != number):
        if word in picture.queries.labels:
            return Marked(panel, picture.queries.labels.index(word))
    places = whole_numbers(number, "-")
    if places is None or len(places) != 2:
        return None
    panel_number, row = places
    fits = panel_number < len(panels) and row < len(panels[panel_number].queries)
    return Marked(panel_number, row) if fits else None


def _panel(shown: Pair, aligned: Aligned, number: int, picture: Picture, target: str | None) -> Panel:
    side = shown.sides[number]
    return Panel(
        title=side.title,
        rows=picture.queries.labels,
        weights=picture.values,
        visible=picture.visible,
        note=plain("align.of_file", file=side.label, note=aligned.notes[number]),
        decided=tuple(runs.deciding(side.name, side.own.input, shown.options, target, None).columns.tolist()),
    )
