"""A look at what each plausible number of heads would mean, on ids; a click on one chooses it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import streamlit as st

from transformer.attention.measures import entropy
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.foreign.previews import (
    MAX_TOKENS,
    Preview,
    head_previews,
    plausible_heads,
)
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.foreign.samples import sample_ids
from ui.components.all_heads.component import all_heads
from ui.store.cache import in_session
from ui.texts import t


def previews_panel(
    found: Bundle, config: Any, heads: Question, given: Mapping[str, Any], pick: Callable[[int], None]
) -> None:
    """The first layer's heads for each plausible number of them; `pick` is called with the number that is clicked."""
    st.caption(t("checkpoints.preview_note"))
    ids = tuple(sample_ids(config, MAX_TOKENS // 2))
    others = {question: answer for question, answer in given.items() if question != "n_heads"}
    counts = plausible_heads(heads, max(heads.options))
    made: tuple[Preview, ...] = in_session(
        "previews", (found.fingerprint, tuple(sorted(others.items())), ids),
        lambda: head_previews(found, others, counts, ids),
    )  # fmt: skip
    chosen = given.get("n_heads", None if heads.is_open else heads.default)
    columns = st.columns(2, gap="medium")
    for i, preview in enumerate(made):
        with columns[i % 2]:
            _titled(preview, heads, is_chosen=chosen == preview.n_heads)
            _thumbnails(preview, pick)


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
