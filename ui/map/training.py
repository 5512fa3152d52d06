"""The lens over a training: what each layer would have said at every snapshot, if it read what the last one wrote."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
import torch

from transformer import Checkpoint, Translation
from transformer.errors import HeedmapError
from transformer.flow.lens import Lens, lens, since
from transformer.runs.concurrency import forward_slot
from ui.map.drawing import readable
from ui.map.runs import Shown, read_ids
from ui.shared import controls
from ui.shared.address import switch
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t

TRAINING = "over_training"
"""The query parameter that asks for the lens over the training."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The lens of the weights after so many updates; `update` is None at the end of the training."""

    update: int | None
    lens: Lens


def training_panel(name: str, checkpoint: Checkpoint, shown: Shown, row: int) -> None:
    """A table of layers x snapshots at a step, computed once it is asked for; nothing where no snapshots were kept."""
    try:
        _panel(name, checkpoint, shown, row)
    except HeedmapError as error:  # a damaged snapshot takes nothing else from the page
        controls.explain(error)


def _panel(name: str, checkpoint: Checkpoint, shown: Shown, row: int) -> None:
    run, last = shown.translation, shown.flow.lens
    if run is None or last is None or not store.snapshots(name):
        return
    if not switch(t("map.over_training"), False, key=TRAINING, help=t("map.over_training_help")):
        return
    found = [*moments(name, checkpoint, run), Moment(None, last)]
    table = layers_table(checkpoint, found, row)
    pinned = {table.columns[0]: st.column_config.Column(pinned=True)}
    st.dataframe(table, hide_index=True, key="lens-training", column_config=pinned)
    final = readable(shown.steps[row])
    leads = np.array([one.lens.leads[-1, row] for one in found])
    first = int(since(leads))
    earlier = plain("map.and").join(table.columns[1 + i] for i in np.flatnonzero(leads[:first]))
    if first == len(found):
        only = t("map.leads_only", word=final, rows=earlier)
        st.caption(only if earlier else t("map.never_leads_in_training", word=final))
        return
    update = found[first].update
    at_the_end = t("map.leads_at_the_end", word=final)
    st.caption(at_the_end if update is None else t("map.leads_from_update", word=final, update=update))
    if earlier:
        st.caption(t("map.led_before", rows=earlier))


def moments(name: str, checkpoint: Checkpoint, run: Translation) -> list[Moment]:
    """The lens at every snapshot of a checkpoint's training, the earliest first, on what the checkpoint wrote.

    Raises:
        CheckpointError: the index of the snapshots is damaged, or one of them cannot be read.
    """
    snapshots = store.snapshots(name)
    found = _lenses(tuple(map(store.revision, snapshots)), run.source_ids, read_ids(checkpoint, run), run.target_ids)
    return [Moment(one.update, its) for one, its in zip(snapshots.values(), found, strict=True)]


def layers_table(checkpoint: Checkpoint, found: list[Moment], row: int) -> pd.DataFrame:
    """The likeliest word after each layer and its probability, a column a moment, the last layer on top."""
    _, _, writer = checkpoint.translator()
    count = len(found[0].lens.ids)
    columns = {
        t("map.after"): [plain("map.before_layers" if i == 0 else "map.after_layer", layer=i - 1) for i in range(count)]
    }
    for one in found:
        title = plain("map.finished") if one.update is None else plain("map.update", update=one.update)
        words = writer.labels([int(i) for i in one.lens.ids[:, row, 0]])
        odds = one.lens.probabilities[:, row, 0]
        columns[title] = [f"{readable(word)} {p:.2f}" for word, p in zip(words, odds, strict=True)]
    return pd.DataFrame(columns)[::-1]


@cached(spinner="store.running")
def _lenses(
    revisions: tuple[Revision, ...], source: tuple[int, ...], read: tuple[int, ...], written: tuple[int, ...]
) -> tuple[Lens, ...]:
    ids, target = torch.tensor([source]), torch.tensor([read])
    found = []
    for revision in revisions:
        model = store.load(revision).model
        with forward_slot():
            found.append(lens(model, ids, target, written, top=1))
    return tuple(found)
