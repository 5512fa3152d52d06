"""A look at what each plausible number of heads would mean, on ids or over a picture; a click on one chooses it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import streamlit as st

from transformer.attention.measures import entropy
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.foreign.previews import (
    MAX_TOKENS,
    Input,
    Preview,
    head_previews,
    of_ids,
    plausible_heads,
)
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.figures.patches import THUMBNAIL, heads_over_picture
from transformer.models.vision import VisionConfig
from transformer.pictures.photo import Frame, Photo, drawn
from transformer.runs.vision import on_patches, pixels_of
from ui.components.all_heads.component import all_heads
from ui.shared.theme import is_dark
from ui.store.cache import in_session
from ui.texts import t

PER_ROW = 4
"""Thumbnails beside each other over a picture."""


def have_input(config: Any) -> bool:
    """Whether there is something to read for a look: ids, or our picture."""
    return isinstance(config, VisionConfig) or hasattr(config, "vocab") or hasattr(config, "source_vocab")


def previews_panel(
    found: Bundle, config: Any, heads: Question, given: Mapping[str, Any], pick: Callable[[int], None]
) -> None:
    """The first layer's heads for each plausible number of them; `pick` is called with the number that is clicked."""
    photo = drawn(Frame(*config.picture, config.crop)) if isinstance(config, VisionConfig) else None
    if photo is None:
        st.caption(t("checkpoints.preview_note"))
    else:
        st.caption(t("pictures.preview_note", query=looks_at_first(config)))
    ids = () if photo else tuple(sample_ids(config, MAX_TOKENS // 2))
    others = {question: answer for question, answer in given.items() if question != "n_heads"}
    read: Input = of_ids(ids) if photo is None else lambda config: pixels_of(photo, config)
    counts = plausible_heads(heads, max(heads.options))
    made: tuple[Preview, ...] = in_session(
        "previews", (found.fingerprint, tuple(sorted(others.items())), ids),
        lambda: head_previews(found, others, counts, read),
    )  # fmt: skip
    chosen = given.get("n_heads", None if heads.is_open else heads.default)
    columns = st.columns(2, gap="medium")
    for i, preview in enumerate(made):
        with columns[i % 2]:
            _titled(preview, heads, is_chosen=chosen == preview.n_heads)
            if photo is None:
                _thumbnails(preview, pick)
            else:
                _over_picture(preview, photo, config, pick)


def _titled(preview: Preview, heads: Question, *, is_chosen: bool) -> None:
    spread = np.nanmean([entropy(head) for head in preview.weights]) / np.log(max(2, preview.weights.shape[-1]))
    mark = " ✓" if is_chosen else ""
    title = t("checkpoints.preview_title", heads=preview.n_heads, width=max(heads.options) // preview.n_heads)
    st.markdown(f"**{title}{mark}** · {t('checkpoints.preview_spread', spread=spread)}")


def _thumbnails(preview: Preview, pick: Callable[[int], None]) -> None:
    all_heads(
        preview.weights[None],
        preview.visible,
        row_names=["L0"],
        column_names=[f"H{head}" for head in range(preview.n_heads)],
        selected=None,
        on_pick=lambda _: pick(preview.n_heads),
        key=f"preview-{preview.n_heads}",
        file_name=f"{preview.n_heads}-heads",
    )


def _over_picture(preview: Preview, photo: Photo, config: VisionConfig, pick: Callable[[int], None]) -> None:
    """What one token looks at in each head: whole maps of patches would be too small to read."""
    rows = preview.weights[:, config.tokens.index(looks_at_first(config))]
    st.plotly_chart(
        heads_over_picture(photo.png(THUMBNAIL), on_patches(rows, config), per_row=PER_ROW, dark=is_dark()),
        key=f"preview-{preview.n_heads}",
        width="content",
        selection_mode="points",
        on_select=lambda: pick(preview.n_heads),
        config={"displayModeBar": False},
    )


def looks_at_first(config: VisionConfig) -> str:
    """The token that looks before another one is chosen: the first one, or the patch in the middle."""
    rows, columns = config.grid
    return config.tokens[0 if config.leading else rows // 2 * columns + columns // 2]
