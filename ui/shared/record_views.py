"""Views of a record, for every page that shows one: all heads, one head, its lines, downloads."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Bool, Float

from transformer import AttentionMap, Record
from transformer.figures.export import plot_config
from transformer.figures.heatmap import alt_text, heatmap_on_page
from transformer.messages import Message, say
from transformer.pictures.picture import UNSURE, Picture
from ui.components.all_heads.component import LARGEST_SIDE, Picked, all_heads
from ui.components.cells.component import cells
from ui.components.head_view.component import Lines, head_view
from ui.markdown import as_text
from ui.shared import address, selected_pair
from ui.shared.active_heads import active_heads, switch_heads
from ui.shared.address import hundredths, switch
from ui.shared.controls import MEAN, Selection, kind_title, kinds, sentence
from ui.shared.files import Origin, frame_csv, head_stem
from ui.shared.theme import is_dark
from ui.store import render_slots
from ui.texts import in_this_language, plain, t

NOWHERE = Origin()

RoleOf = Callable[[str, int], str | None]
"""What the head of a site does; None where nobody knows."""

IMAGES: Final = ("png", "svg")
"""What a picture can be saved as."""


def record_notes(record: Record) -> None:
    """What has to be known of how the attention was kept; what the maps rest on is said in amber on top of the page."""
    for note in record.notes:
        if not (isinstance(note, Message) and note.code in UNSURE):
            st.info(sentence(note), icon=":material/info:")


def all_heads_panel(
    record: Record, choice: Selection, role_of: RoleOf | None = None, *, origin: Origin = NOWHERE
) -> None:
    """Every layer and head, small; a click opens one. `role_of` says what a head does, where that is known."""
    layers = [record[site] for site in kinds(record)[choice.kind]]
    grid = _grid(layers, choice.words, choice.special)
    kind = as_text(kind_title(choice.kind))
    st.markdown(f"**{t('translate.all_heads')}** · {kind}", help=t("translate.all_heads_help"))
    all_heads(
        grid.values,
        grid.visible,
        row_names=[f"L{i}" for i in range(len(layers))],
        column_names=[f"H{i}" for i in range(layers[0].n_heads)],
        selected=None if choice.head == MEAN else (choice.layer, int(choice.head)),
        roles=[[say(role_of(layer.site, head) or "") for head in range(layer.n_heads)] for layer in layers]
        if role_of
        else None,
        on_pick=_open_head,
        key="all-heads",
        file_name=origin.stem("all-heads", choice.kind),
        about=origin.about(plain("files.all_heads", kind=kind_title(choice.kind)), grid.first),
    )


class _Grid(NamedTuple):
    """Every head of a kind, small; what any layer shows is visible, since a window may hide more in some."""

    values: Float[np.ndarray, "layer head query key"]
    visible: Bool[np.ndarray, "query key"]
    first: Picture


def _grid(layers: Sequence[AttentionMap], words: bool, special: bool) -> _Grid:
    """A pick draws the grid again, whose numbers stay: the pictures of all heads were a sixth of its time.

    It stands beside the fields of the first layer's map, so it is measured with its record, and goes with it.
    """
    known: dict[tuple[bool, bool], _Grid] = vars(layers[0]).setdefault("grids", {})
    if (words, special) not in known:
        pictures = [[one.reduced(LARGEST_SIDE) for one in layer.pictures(words, special)[:-1]] for layer in layers]
        values = np.array([[picture.values for picture in row] for row in pictures], dtype=np.float32)
        visible = np.logical_or.reduce([row[0].visible for row in pictures])
        known[words, special] = _Grid(values, visible, pictures[0][0])
    return known[words, special]


def heatmap_panel(record: Record, choice: Selection, *, origin: Origin = NOWHERE) -> None:
    """One head, large."""
    relative, scores, camera = st.columns(3, vertical_alignment="center")
    with scores:
        show_scores = switch(
            t("translate.scores"), False, key="scores", disabled=choice.head == MEAN, help=t("translate.scores_help")
        )
    with relative:
        is_relative = switch(
            t("translate.relative"), False, key="relative", disabled=show_scores, help=t("translate.relative_help")
        )
    with camera:
        image = address.choice(
            t("translate.camera"), IMAGES, key="image", text=str.upper, bare=True, help=t("translate.camera_help")
        )
    picture = _picture(record, choice, scores=show_scores)
    pair = selected_pair.kept_pair(choice.kind, picture)
    st.plotly_chart(
        heatmap_on_page(picture, relative=is_relative, selected=pair, dark=is_dark()),
        key="heatmap",
        width="content",
        alt=alt_text(picture),
        on_select=partial(_select_from_heatmap, choice.kind, picture),
        selection_mode="points",
        config=plot_config(
            origin.stem(*head_stem(picture), *(["scores"] if show_scores else [])), "svg" if image == "svg" else "png"
        ),
    )
    cells(
        picture, "heatmap", key="heatmap-cells", selected=pair,
        on_pick=partial(selected_pair.select_pair, choice.kind, picture),
    )  # fmt: skip
    said = " ".join([sentence(note) for note in picture.notes]) or t("translate.sums")
    axes = t("translate.axes", queries=picture.queries.name, keys=picture.keys.name)
    st.caption(f"{axes} {said} {t('translate.click_cell')}")
    _pair_panel(record, choice, picture, pair)


def head_view_panel(record: Record, choice: Selection, *, origin: Origin = NOWHERE) -> None:
    """Two columns of tokens, joined by what the heads of one layer look at."""
    threshold = hundredths(t("translate.threshold"), 0.0, 0.5, 0.05, key="threshold")
    attention = record[choice.site]
    mean = choice.head == MEAN
    shown: list[int | Literal["mean"]] = [MEAN] if mean else list(range(attention.n_heads))
    names = [plain("translate.mean")] if mean else [plain("translate.head_name", head=head) for head in shown]
    chosen = 0 if choice.head == MEAN else choice.head
    pictures = [attention.picture(head, choice.words, choice.special) for head in shown]
    first = pictures[0]
    pair = selected_pair.kept_pair(choice.kind, first)
    head_view(
        Lines(
            np.stack([picture.values for picture in pictures]),
            first.visible,
            heads=names,
            query_labels=first.queries.texts,
            key_labels=first.keys.texts,
            query_title=plain("translate.query_title", name=first.queries.name),
            key_title=plain("translate.key_title", name=first.keys.name),
        ),
        active=active_heads(chosen, len(shown)),
        selected_pair=pair,
        threshold=threshold,
        on_pair=lambda picked: selected_pair.select_pair(choice.kind, first, *picked),
        on_heads=None if mean else lambda heads: switch_heads(chosen, heads),
        key="head-view",
        file_name=origin.stem(str(choice.site), "lines"),
        about=origin.about(
            plain("files.lines", kind=kind_title(choice.kind), layer=choice.layer, site=choice.site), first
        ),
    )
    _pair_panel(record, choice, first, pair)


def measures_panel(record: Record, origin: Origin) -> None:
    """A row of numbers for each head."""
    known = vars(next(iter(record.values())))  # as the grid: it goes with its record
    if "measures" not in known:
        render_slots.give_back()  # a long text takes seconds
        known["measures"] = record.measures().drop(columns="roles")
    table: pd.DataFrame = known["measures"]
    columns = {
        name: st.column_config.NumberColumn(
            plain(f"atlas.measure_{name}"), help=plain(f"atlas.measure_{name}_help"), format="%.3f"
        )
        for name in table.columns[2:]
    }
    st.dataframe(
        table, column_config={"site": t("files.site"), "head": t("translate.head"), **columns}, hide_index=True,
        key="measures",
    )  # fmt: skip
    st.download_button(
        t("translate.download_csv"), in_this_language(lambda: frame_csv(table)), f"{origin.stem('measures')}.csv",
        "text/csv", on_click="ignore", key="measures-csv",
    )  # fmt: skip


def _pair_panel(record: Record, choice: Selection, picture: Picture, pair: tuple[int, int] | None) -> None:
    if pair is None:
        return
    query, key = pair
    layers = [record[site] for site in kinds(record)[choice.kind]]
    pictures = [layer.pictures(choice.words, choice.special)[:-1] for layer in layers]
    seen = [layer for layer, row in enumerate(pictures) if row[0].visible[query, key]]  # windows differ by layer
    said = {"query": picture.queries.labels[query], "key": picture.keys.labels[key]}
    st.markdown(f"**{t('translate.marked')}**")
    st.text(plain("translate.looks_at" if picture.visible[query, key] else "translate.is_masked", **said))
    if seen:
        heads = [plain("translate.head_name", head=i) for i in range(layers[0].n_heads)]
        names = [plain("translate.layer_name", layer=layer) for layer in seen]
        weights = [[one.values[query, key] for one in pictures[layer]] for layer in seen]
        st.dataframe(
            pd.DataFrame(weights, index=names, columns=heads),
            column_config={
                name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="%.3f")
                for name in heads
            },
        )
    st.button(t("translate.unmark"), on_click=selected_pair.forget_pair, key="unmark")


def _picture(record: Record, choice: Selection, scores: bool = False) -> Picture:
    return record[choice.site].picture(choice.head, choice.words, choice.special, scores=scores)


def _open_head(picked: Picked) -> None:
    address.put(layer=picked.layer, head=picked.head)


def _select_from_heatmap(kind: str, picture: Picture) -> None:
    for point in st.session_state["heatmap"].selection.points[:1]:
        selected_pair.select_pair(kind, picture, *point["customdata"][:2])
