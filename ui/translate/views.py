"""The panels of the Translate page that show the search: one step of it, and the tree of its beams."""

import numpy as np
import streamlit as st

from transformer import Checkpoint, Translation
from transformer.attention.measures import has_kind, sites_of
from transformer.messages import say, words
from transformer.plots.axes import WORD_START
from transformer.plots.beams import beam_tree
from transformer.plots.export import PLOT_CONFIG
from transformer.plots.labels import joined
from transformer.plots.picture import Picture
from ui.shared import subject
from ui.shared.address import parameter, put, whole, whole_numbers
from ui.shared.bars import Bar, Look, bars, next_tokens
from ui.shared.controls import MEAN, Selection
from ui.shared.theme import is_dark
from ui.shared.token_strip import token_strip
from ui.texts import t

LOOKS: dict[Look, str] = {"masked": "figure_masked", "missing": "figure_not_finite"}
"""Keys without a weight, and what they are called."""

STEP, OLD_STEP = "written", "step"
"""The query parameter of the output step, from 1; in older addresses, from 0."""


def steps_panel(shown: Translation, choice: Selection) -> None:
    """One output step: what could have been written, and where the decoder looked."""
    count = len(shown.steps)
    _take_old_step()
    if (place := subject.newly_marked(shown.axes.written)) is not None:
        put(**{STEP: place + 1})
    number = whole(t("translate.step"), 1, count, 1, key=STEP)
    step = number - 1
    written, likeliest = shown.steps[step], shown.steps[step].likeliest[0]
    piece, chance = _word(written.text), written.probability
    told = t("translate.step_writes", step=number, last=count, piece=piece, probability=chance)
    if written.rank and shown.tree is not None:
        other = t("translate.step_not_likeliest", other=_word(likeliest.text), probability=likeliest.probability)
        told = f"{told} {other}"
    st.markdown(told)
    st.caption(t("translate.steps_ignore"))
    token_strip(shown.steps, current=step)
    next_tokens(shown.steps[step], key="next-tokens")
    for kind in filter(lambda kind: has_kind(shown.record, kind), ("decoder.cross", "decoder.self")):
        available = sites_of(shown.record, kind)
        attention = shown.record[available[min(choice.layer, len(available) - 1)]]
        weights_of_step(attention.picture(choice.head), attention.picture(MEAN), step, kind)


def weights_of_step(picture: Picture, average: Picture, step: int, kind: str) -> None:
    """Where one head looked at one step: a bar for each key, and a diamond for the mean of all heads."""
    head, mean = say(picture.head), say(average.head)
    rows = []
    for key, (text, label) in enumerate(zip(picture.keys.texts, picture.keys.labels, strict=True)):
        value = float(picture.values[step, key])
        if not picture.visible[step, key]:
            rows.append(Bar(text, np.nan, "", f"{label}: {words('figure_masked_cell')}", "masked"))
        elif not np.isfinite(value):
            rows.append(Bar(text, np.nan, "", f"{label}: {words('figure_not_finite')}", "missing"))
        else:
            note, point = f"{label}: {words('figure_head_weight', head=head, value=f'{value:.6g}')}", None
            if mean != head:
                point = float(average.values[step, key])
                note += f"; {words('figure_head_weight', head=mean, value=f'{point:.6g}')}"
            rows.append(Bar(text, value, f"{value:.3f}", note, point=point))
    named: list[tuple[Look, str]] = [("", head)]
    if mean != head:
        named.append(("point", mean))
    looks = {row.look for row in rows}
    named += [(look, words(code)) for look, code in LOOKS.items() if look in looks]
    query, keys = picture.queries.labels[step], say(picture.keys.name)
    title = joined((words("figure_query", text=query), words("figure_key", text=keys), picture.unit))
    bars(rows, title, key=f"step-{kind}", heading=say(picture.title), legend=named)


def _word(piece: str) -> str:
    """A piece as it is read: without the mark of a word's beginning."""
    return piece.replace(WORD_START, " ").strip() or piece


def beams_panel(shown: Translation, checkpoint: Checkpoint) -> None:
    """The whole tree of the search; a click on a hypothesis shows its attention in every view."""
    tokenizer = checkpoint.writer
    if shown.tree is None or tokenizer is None:
        st.info(t("translate.no_beam"))
        return
    figure = beam_tree(shown.tree, lambda token: tokenizer.labels([token])[0], selected=shown.node, dark=is_dark())
    with st.container(key="tree-around"):
        st.plotly_chart(
            figure,
            key="tree",
            width=round(figure.layout.width),
            on_select=_select_from_tree,
            selection_mode="points",
            config=PLOT_CONFIG,
        )
    st.caption(t("translate.beams_look"))
    st.caption(t("translate.beams_ignore"))


def _take_old_step() -> None:
    """Older addresses count steps from 0, under another key."""
    found = whole_numbers(parameter(OLD_STEP) or "", "-")
    if found is not None:
        put(**{OLD_STEP: None, STEP: found[0] + 1})


def _select_from_tree() -> None:
    for point in st.session_state["tree"].selection.points[:1]:
        put(node=int(point["customdata"]))
