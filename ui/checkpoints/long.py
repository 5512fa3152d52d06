"""A text of more tokens than are drawn cell by cell: its run, all heads small, and one of them through a window."""

from collections.abc import Callable

import numpy as np
import streamlit as st
from jaxtyping import Float

from transformer import Checkpoint
from transformer.attention.record import AttentionMap
from transformer.canvas.about import About
from transformer.runs.any_model import MAX_POSITIONS, AnyRun, read
from transformer.runs.concurrency import forward_slot, letting_others
from ui.components.all_heads.component import LARGEST_SIDE, Picked, all_heads
from ui.shared.address import choice, put
from ui.shared.controls import MEAN
from ui.shared.files import Origin
from ui.shared.zooming import Said, zoom_panel, zoomed
from ui.store import runs, store
from ui.store.slow import with_progress
from ui.texts import plain, said, t


def is_long(checkpoint: Checkpoint, text: str) -> bool:
    """Whether a text is seen here: of a model that reads one text, and only where that text has many tokens.

    Raises:
        InputError: nothing to read, or what has no id.
        CheckpointError: the checkpoint has no tokenizer.
    """
    if checkpoint.translates or len(text) <= MAX_POSITIONS:  # a token has at least one character
        return False
    return len(read(checkpoint, text, None)[0]) > MAX_POSITIONS


def long_panel(name: str, text: str, result: Callable[[AnyRun], None]) -> None:
    """Run, look over all heads, zoom into one; `result` says what the model made of the text.

    Raises:
        InputError: the text would take more memory than a run is given.
    """
    shown = runs.long_run_of_any(name, text)
    if shown is None:
        return
    result(shown)
    sites = [site for site, attention in shown.record.items() if len(attention.queries) == len(attention.keys)]
    key = (store.revision(name), text)
    small = with_progress(
        "long_thumbnails", key, plain("sequences.thumbnails"), plain("sequences.thumbnails"),
        lambda: lambda _: plain("sequences.thumbnails"),
        lambda progress: _small([shown.record[site] for site in sites], progress),
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        layer = int(choice(t("sequences.layer"), [str(i) for i in range(len(sites))], key="layer", text=str))
        heads = [*map(str, range(shown.record[sites[layer]].n_heads)), MEAN]
        head = choice(
            t("sequences.head"), heads, key="head", text=lambda one: plain("sequences.mean") if one == MEAN else one
        )
    if small is None:
        return
    overview, detail = st.columns([1, 2], gap="medium")
    with overview:
        all_heads(
            small, None, row_names=[f"L{i}" for i in range(len(sites))],
            column_names=[f"H{i}" for i in range(small.shape[1])],
            selected=None if head == MEAN else (layer, int(head)), key="all-heads", on_pick=_open_head,
        )  # fmt: skip
    with detail:
        attention = shown.record[sites[layer]]
        zoom = zoomed(key, attention, MEAN if head == MEAN else int(head))
        if zoom is None:
            return
        origin, axis = Origin(shown.checkpoint, shown.input), said(attention.queries.name)
        stem = origin.stem(str(attention.site), f"head-{head}")
        about = About(f"{attention.site}, {head}", [t("checkpoints.long_tokens", count=len(attention.queries)), name])
        zoom_panel(zoom, key, Said(axis, said(attention.keys.name), stem, about), key="tokens-tiles")


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
