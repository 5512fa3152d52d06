"""What a model of pictures attends to: a picture in; over it, what a patch looks at; and the usual views of a head."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import AttentionMap, Checkpoint
from transformer.attention.measures import strongest_head
from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.checkpoint.safe.photos import ENDINGS, MOST_BYTES
from transformer.errors import HeedmapError
from transformer.figures.export import plot_config
from transformer.figures.patches import THUMBNAIL, heads_over_picture, over_picture
from transformer.models.vision import VisionConfig, VisionTransformer
from transformer.pictures.photo import Photo
from transformer.runs.any_model import MAX_POSITIONS, AnyRun
from transformer.runs.classes import classes_of
from transformer.runs.vision import on_patches
from ui.shared import address, controls, downloads, record_views
from ui.shared.controls import MEAN, Selection
from ui.shared.files import Origin
from ui.shared.part import part
from ui.shared.theme import is_dark
from ui.store import arrivals, photos, store
from ui.texts import plain, said, t

ROUND, PROBLEM = "photo.round", "photo.problem"
PHOTO, QUERY = "photo", "patch"
"""The query parameters of the picture, and of the token that looks."""

TOP = 10
"""Classes that are listed."""


def pictures_panel(name: str, checkpoint: Checkpoint) -> None:
    """Choose or bring a picture, see what it is taken for, and what each head of each layer looks at.

    Raises:
        CheckpointError: the picture cannot be read.
    """
    with st.container(key="columns"):
        small, large = st.columns([7, 11], gap="small")
    with small:
        token = _chosen(checkpoint)
        controlled = st.container()
    with large:
        place = st.container()
    photos.run(name, token)  # in the page's run: it may be refused
    part(lambda: _looked_at(name, token, controlled, place))


def _looked_at(name: str, token: str, controlled: DeltaGenerator, place: DeltaGenerator) -> None:
    """What depends on head and patch: all is looked up anew, since a part keeps nothing."""
    checkpoint = store.checkpoint(name)
    config = checkpoint.model_as(VisionTransformer).config
    photo, shown = photos.photo(name, token), photos.run(name, token)
    first = strongest_head(shown.record, "encoder.self")
    with controlled:
        choice = controls.selection(shown.record, (first.layer, first.head), has_words=False)
        query = _query(config)
    origin = Origin(shown.checkpoint, said(shown.input))
    attention = shown.record[choice.site]
    panels: dict[str, Callable[[], None]] = {
        "picture": lambda: _over(photo, attention, config, choice, query, origin),
        "heatmap": lambda: record_views.heatmap_panel(shown.record, choice, origin=origin),
        "head_view": lambda: record_views.head_view_panel(shown.record, choice, origin=origin),
        "grid": lambda: record_views.all_heads_panel(shown.record, choice, origin=origin),
        "downloads": lambda: downloads.downloads_panel(shown, choice),
    }
    if len(config.tokens) > MAX_POSITIONS:  # too many cells for a page
        panels = {panel: panels[panel] for panel in ("picture", "downloads")}
    with controlled:
        _heads(photo, attention, config, choice, query)
        _classes(shown, checkpoint)
    with place:
        opened, tab = address.tabs(list(panels), key="map", text=lambda panel: t(f"pictures.view_{panel}"))
        with tab:
            panels[opened]()
            if len(config.tokens) > MAX_POSITIONS:
                st.caption(t("pictures.many", count=len(config.tokens), most=MAX_POSITIONS))
        for note in shown.record.notes:
            st.caption(controls.sentence(note))


def _chosen(checkpoint: Checkpoint) -> str:
    """Which picture is looked at; a new one may be brought."""
    arrivals.expect(MOST_BYTES)
    choosing, bringing = st.container(), st.container()
    with bringing:
        file = st.file_uploader(
            t("pictures.bring"),
            type=list(ENDINGS),
            key=f"photo-{st.session_state.setdefault(ROUND, 0)}",
            max_upload_size=MOST_BYTES // MEGABYTE,
            help=t("pictures.bring_help"),
        )
    if file is not None:
        with st.spinner(t("checkpoints.reading")):
            try:
                address.put(**{PHOTO: photos.keep(file, checkpoint)})
            except HeedmapError as error:
                st.session_state[PROBLEM] = error.message
        st.session_state[ROUND] += 1  # a new uploader, so that the browser's copy is let go
        st.rerun()
    problem = st.session_state.pop(PROBLEM, None)
    if problem:
        st.warning(controls.sentence(problem), icon=":material/block:")
    known = photos.names()
    if (address.parameter(PHOTO) or photos.DRAWN) not in known:
        st.warning(t("pictures.not_here"), icon=":material/info:")
    with choosing:
        return address.choice(
            t("pictures.which"), known, key=PHOTO, form="list", width="stretch", default=photos.DRAWN,
            text=lambda token: photos.name(token) or plain("pictures.drawn"),
        )  # fmt: skip


def _query(config: VisionConfig) -> int:
    """Which token looks."""
    tokens = config.tokens
    chosen = address.choice(
        t("pictures.query"),
        list(tokens),
        key=QUERY,
        form="list",
        default=tokens[0],
        text=str,
        help=t("pictures.query_help"),
    )
    return tokens.index(chosen)


def _over(
    photo: Photo, attention: AttentionMap, config: VisionConfig, choice: Selection, query: int, origin: Origin
) -> None:
    """One head of one token, large, over the picture; a click on a patch lets that patch look."""
    relative = address.switch(t("pictures.relative"), True, key="stretch", help=t("pictures.relative_help"))
    row = attention.head_average()[query] if choice.head == MEAN else attention.row(int(choice.head), query)
    head = plain("translate.mean") if choice.head == MEAN else plain("translate.head_name", head=choice.head)
    name, n_leading = config.tokens[query], len(config.leading)
    selected = divmod(query - n_leading, config.grid[1]) if query >= n_leading else None
    figure = over_picture(
        photo.png(), on_patches(row, config), config.tokens[n_leading:],
        title=plain("pictures.title", query=name, site=choice.site, head=head),
        selected=selected, relative=relative, dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(
        figure, key="over-picture", width="content", selection_mode="points", on_select=partial(_look_from, config),
        config=plot_config(origin.stem(str(choice.site), str(choice.head), name, "picture")),
    )  # fmt: skip
    st.caption(t("pictures.seen", share=float(row[n_leading:].sum()), query=name))
    if n_leading:
        beside = (
            plain("pictures.rest", token=one, weight=weight) for one, weight in zip(config.leading, row, strict=False)
        )
        st.caption(t("pictures.aside", rest=", ".join(beside)))
    st.caption(t("pictures.click"))


def _heads(photo: Photo, attention: AttentionMap, config: VisionConfig, choice: Selection, query: int) -> None:
    """Every head of the layer, small; a click opens one."""
    st.markdown(f"**{t('pictures.heads', layer=choice.layer, query=config.tokens[query])}**")
    rows = np.stack([attention.row(head, query) for head in range(attention.n_heads)])
    figure = heads_over_picture(
        photo.png(THUMBNAIL), on_patches(rows, config),
        selected=None if choice.head == MEAN else int(choice.head), dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(
        figure,
        key="each-head",
        width="content",
        selection_mode="points",
        on_select=_open_head,
        config={"displayModeBar": False},
    )
    st.caption(t("pictures.heads_note", most=float(on_patches(rows, config).max()) or 1.0))


def _classes(shown: AnyRun, checkpoint: Checkpoint) -> None:
    """The likeliest classes, under their names where somebody said them."""
    if "logits" not in shown.outputs:
        st.caption(t("pictures.no_head"))
        return
    found = classes_of(checkpoint, shown.outputs["logits"])
    order = np.argsort(-found.probabilities)[:TOP]
    st.markdown(f"**{t('pictures.classes', count=len(order), all=len(found.names))}**")
    names = [found.names[i] for i in order]
    if not checkpoint.class_names:
        names = [plain("pictures.class_number", number=name) for name in names]
    table = pd.DataFrame({t("pictures.class"): names, t("pictures.probability"): found.probabilities[order]})
    bar = st.column_config.ProgressColumn(t("pictures.probability"), min_value=0.0, max_value=1.0, format="%.3f")
    st.dataframe(table, hide_index=True, key="classes", column_config={t("pictures.probability"): bar})
    if not checkpoint.class_names:
        st.caption(t("pictures.no_names", count=len(found.names)))


def _look_from(config: VisionConfig) -> None:
    for point in st.session_state["over-picture"].selection.points[:1]:
        row, column = point["customdata"][:2]
        address.put(**{QUERY: config.tokens[len(config.leading) + int(row) * config.grid[1] + int(column)]})


def _open_head() -> None:
    for point in st.session_state["each-head"].selection.points[:1]:
        address.put(head=int(point["customdata"][0]))
