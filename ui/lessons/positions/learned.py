"""Whose learned table the lesson "Positions" shows: one that came with it, a new one, or a checkpoint's."""

from dataclasses import dataclass

import numpy as np

from transformer.lessons.positions import Variant, position_table, stored_table, trained_table
from ui.shared import writing
from ui.shared.address import choice
from ui.store import store
from ui.texts import plain, t

TRAINED, UNTRAINED = "trained", "untrained"
"""Stand for a checkpoint's name: the table that training found for a small translator, and one before training."""


@dataclass(frozen=True)
class Shown:
    """A table of positions as it is shown, and Markdown that says what it is."""

    table: np.ndarray
    note: str


def shown_table(variant: Variant, length: int, d_model: int, base: float) -> Shown:
    """A variant's table; of the learned one its own width, and as many rows as it has."""
    if variant != "learned":
        return Shown(position_table(variant, length, d_model, base), t(f"positions.note_{variant}"))
    return learned_table(TRAINED, length, d_model)


def learned_table(whose: str, length: int, d_model: int) -> Shown:
    """The first `length` rows of a learned table, or all that it has; only a new one can have any width."""
    if whose == UNTRAINED:
        return Shown(position_table("learned", length, d_model), t("positions.note_learned"))
    own = None if whose == TRAINED else stored_table(store.checkpoint(whose).model)
    if own is None:
        own, note = trained_table().table, _trained_note(length)
    else:
        note = t("positions.note_own")
    rows, width = own.shape
    return Shown(own[:length], f"{note} {t('positions.own_sizes', rows=rows, last=rows - 1, d_model=width)}")


def _trained_note(length: int) -> str:
    """What the table of the small translator is, and which of its rows were never trained."""
    sentences = trained_table().sentences
    note, reached = t("positions.note_trained", seen=int(sentences[0])), int((sentences > 0).sum())
    return f"{note} {t('positions.never_trained', position=reached)}" if length > reached else note


def learned_choice() -> str:
    """Whose learned table is shown."""
    found = [
        name
        for name in store.checkpoint_names("seq2seq", "encoder", "kmer")
        if stored_table(store.checkpoint(name).model) is not None
    ]
    chosen = choice(
        t("positions.whose"), [TRAINED, UNTRAINED, *found], key="whose", form="list", width=320,
        text=lambda name: plain(f"positions.{name}") if name in {TRAINED, UNTRAINED} else name,
    )  # fmt: skip
    if chosen in found:
        writing.lead_to_map(chosen, store.checkpoint(chosen))
    return chosen
