"""A text of more tokens than are drawn cell by cell: its run, all heads small, and one of them through a window."""

from collections.abc import Callable, Hashable

import numpy as np
import streamlit as st
from jaxtyping import Float

from transformer import Checkpoint, Record
from transformer.attention.record import AttentionMap
from transformer.plots.canvas.about import About
from transformer.runs.any_model import MAX_POSITIONS, ModelRun, read
from transformer.runs.concurrency import forward_slot, letting_others
from ui.components.all_heads.component import LARGEST_SIDE, Picked, all_heads
from ui.shared.address import choice, put
from ui.shared.controls import MEAN, form, kind_name, kinds
from ui.shared.downloads import record_button
from ui.shared.files import Origin
from ui.shared.zooming import Said, zoom_panel, zoomed
from ui.store import runs, store
from ui.store.progress import with_progress
from ui.texts import plain, said, t

AT_ONCE = 60_000_000
"""Weights of a record that is shown as short texts are, whose maps are computed whole."""

MOST_SMALL, MOST_PASSED = 1_024, 10**11
"""Heads that are seen all at once, and weights that are computed for it."""


def is_long(checkpoint: Checkpoint, text: str) -> bool:
    """Whether a text is seen here: of a model that reads one text, and only where that text has many tokens.

    Raises:
        InputError: nothing to read, or what has no id.
        CheckpointError: the checkpoint has no tokenizer.
    """
    if checkpoint.translates or len(text) <= MAX_POSITIONS:  # a token has at least one character
        return False
    return len(read(checkpoint, text, None)[0]) > MAX_POSITIONS


def long_panel(name: str, text: str, result: Callable[[ModelRun], None]) -> None:
    """Run, look over all heads, zoom into one; `result` says what the model made of the text.

    Raises:
        InputError: the text would take more memory than a run is given.
    """
    shown = runs.long_run_of_any(name, text)
    if shown is None:
        return
    result(shown)
    views(shown, (store.revision(name), text))


def is_wide(record: Record) -> bool:
    """Whether a record's maps are seen here: they are long, or too many to be computed at one time."""
    longest = max(max(one.shape) for one in record.values())
    return longest > MAX_POSITIONS or sum(map(_numbers, record.values())) > AT_ONCE


def views(shown: ModelRun, key: tuple[Hashable, ...]) -> None:
    """All heads of a kind small, in blocks, and one of them through a window; `key` names the run, as caches do."""
    record = shown.record
    available = kinds(record)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        kind = next(iter(available))
        if len(available) > 1:
            kind = choice(t("translate.attention"), list(available), key="kind", form="list", text=kind_name)
        sites = available[kind]
        layers = [str(i) for i in range(len(sites))]
        layer = int(choice(t("sequences.layer"), layers, key="layer", form=form(layers), text=str))
        heads = [*map(str, range(record[sites[layer]].n_heads)), MEAN]
        head = choice(
            t("sequences.head"), heads, key="head", form=form(heads),
            text=lambda one: plain("sequences.mean") if one == MEAN else one,
        )  # fmt: skip
    maps = [record[site] for site in sites]
    count, attention = sum(one.n_heads for one in maps), maps[layer]
    overview, detail = st.columns([1, 2], gap="medium")
    if count > MOST_SMALL or sum(map(_numbers, maps)) > MOST_PASSED:
        overview.info(t("your_model.many_heads", heads=count, positions=max(attention.shape)))
    else:
        small = with_progress(
            "long_thumbnails", (*key, kind), plain("checkpoints.thumbnails"), plain("checkpoints.thumbnails"),
            lambda: lambda _: plain("checkpoints.thumbnails"), lambda progress: _small(maps, progress),
        )  # fmt: skip
        if small is None:
            return
        with overview:
            all_heads(
                small, None, row_names=[f"L{i}" for i in range(len(sites))],
                column_names=[f"H{i}" for i in range(small.shape[1])],
                selected=None if head == MEAN else (layer, int(head)), key="all-heads", on_pick=_open_head,
            )  # fmt: skip
    with detail:
        zoom = zoomed(key, attention, MEAN if head == MEAN else int(head))
        if zoom is None:
            return
        origin, axis = Origin(shown.checkpoint, shown.input), said(attention.queries.name)
        stem = origin.stem(str(attention.site), f"head-{head}")
        facts = [plain("checkpoints.long_tokens", count=len(attention.queries)), shown.checkpoint]
        about = About(f"{attention.site}, {head}", facts)
        zoom_panel(zoom, key, Said(axis, said(attention.keys.name), stem, about), key="tokens-tiles")
        record_button(shown)


def _numbers(attention: AttentionMap) -> int:
    return attention.n_heads * attention.shape[0] * attention.shape[1]


def _small(maps: list[AttentionMap], progress: Callable[[float], None]) -> Float[np.ndarray, "layer head row column"]:
    """Every head in blocks, others first between two of them."""
    told, whole = letting_others(progress), sum(one.n_heads for one in maps)
    found, done = [], 0
    with forward_slot():
        for one in maps:
            heads = []
            for head in range(one.n_heads):
                told(done / whole)
                heads.append(one.overview(head, LARGEST_SIDE))
                done += 1
            found.append(heads)
    return np.array(found)


def _open_head(picked: Picked) -> None:
    put(layer=picked.layer, head=picked.head)
