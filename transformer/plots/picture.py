"""One map, ready to be drawn, read or saved: an array with what its axes mean."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Shaped

from transformer.errors import RecordError
from transformer.messages import Message
from transformer.plots.axes import Axis
from transformer.plots.quantity import Quantity

LONGEST_TITLE = 64
"""Characters of a title that names what was changed; a longer one says how many changes there are."""

UNSURE = ("note_assumed", "left_out")
"""Codes of notes that say on what maps rest that their file does not say, or lacks."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A matrix with its labels, unit and notes, ready to be drawn or saved as it is.

    `head` says which head the map is of, `notes` what a person has to know of it, `changes` what interventions did to
    the run that it is of.
    """

    site: str
    head: str
    values: Float[np.ndarray, "query key"]
    visible: Bool[np.ndarray, "query key"]
    queries: Axis
    keys: Axis
    quantity: Quantity = Quantity.WEIGHT
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def unit(self) -> Message:
        """What the numbers are, with their unit."""
        return self.quantity.unit

    @property
    def title(self) -> Message:
        """Site and head in one line; of a changed run, what was changed as well, or how much."""
        if not self.changes:
            return Message("title_of_map", site=self.site, head=self.head)
        named = Message("title_of_changed_map", site=self.site, head=self.head, changes=self.changes)
        if len(named) <= LONGEST_TITLE:
            return named
        return Message("title_of_map_changed", site=self.site, head=self.head, count=len(self.changes))

    @property
    def below_title(self) -> tuple[str, ...]:
        """What stands below the title: changes that are too many for it, and the notes."""
        is_counted = isinstance(self.title, Message) and self.title.code == "title_of_map_changed"
        return (*(self.changes if is_counted else ()), *self.notes)

    @property
    def is_unsure(self) -> bool:
        """Whether it rests on what a file does not say: its notes say on what."""
        return any(isinstance(note, Message) and note.code in UNSURE for note in self.notes)

    def reduced(self, size: int) -> "Picture":
        """The same picture in at most `size` x `size` blocks: the maximum of their cells, labels of their starts."""
        tall, wide = block_length(len(self.queries), size), block_length(len(self.keys), size)
        if tall == wide == 1:
            return self
        values = _block_maxima(_block_maxima(self.values, wide, -1), tall, -2)
        visible = _block_maxima(_block_maxima(self.visible, wide, -1), tall, -2)
        return replace(
            self,
            values=values,
            visible=visible,
            queries=self.queries.kept(range(0, len(self.queries), tall)),
            keys=self.keys.kept(range(0, len(self.keys), wide)),
            notes=(*self.notes, Message("note_blocks", tall=tall, wide=wide)),
        )


def block_length(n: int, size: int) -> int:
    """Cells along one side of a block when `n` positions are shown in at most `size` blocks.

    Raises:
        RecordError: `size` is not positive.
    """
    if size < 1:
        raise RecordError("overview_too_small", size=size)
    return max(1, -(-n // size))


def _block_maxima(x: Shaped[np.ndarray, "_ _"], length: int, axis: int) -> Shaped[np.ndarray, "_ _"]:
    """The maximum of each block of `length` along `axis`, of truth values whether any is; the last may be smaller."""
    return np.maximum.reduceat(x, np.arange(0, x.shape[axis], length), axis=axis)
