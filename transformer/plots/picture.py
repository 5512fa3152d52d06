"""One map, ready to be drawn, read or saved: an array with what its axes and its numbers mean."""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from jaxtyping import Bool, Float

from ..errors import RecordError
from ..messages import Message
from .axes import Axis


class Quantity(Enum):
    """What one cell of a picture holds."""

    WEIGHT = "weight"
    """A probability: 0 to 1, and each row sums to 1 (or to less where keys are left out)."""

    SCORE = "score"
    """A scaled dot product, before the mask."""

    BIASED_SCORE = "biased_score"
    """A scaled dot product and a bias, before the mask."""

    LOG_WEIGHT = "log_weight"
    """The natural logarithm of a weight: the softmax's input up to a constant a row."""

    DIFFERENCE = "difference"
    """A weight of one map minus that of another: -1 to 1."""

    LOG_PROB_LOST = "log_prob_lost"
    """Natural log-probability of a token that goes with a part of the input: positive where the part spoke for it."""

    LOG_PROB_ADDED = "log_prob_added"
    """Natural log-probability of a token that a part of the input adds; negative where the part speaks against it."""

    NORM = "norm"
    """The length of a vector that a part of the input gives."""

    SHARE = "share"
    """A share of all that a row received: 0 to 1, and each row sums to 1."""

    RELEVANCE = "relevance"
    """Attention weights times the slope of the written token's logit."""

    @property
    def is_probability(self) -> bool:
        """Whether the values are attention weights or shares, which lie between 0 and 1."""
        return self in (Quantity.WEIGHT, Quantity.SHARE)

    @property
    def unit(self) -> Message:
        """The quantity and its unit, for a colour bar."""
        return Message(f"quantity_{self.value}_unit")


QUICK = 16
"""Blocks of so many places are reduced place by place."""

LONGEST_TITLE = 64
"""Characters of a title that names what was changed; a longer one says how many changes there are."""

UNSURE = ("note_assumed",)
"""Codes of notes that say on what maps rest that their file does not say, or lacks."""


OF_ELEMENTS = ("note_element", "note_element_of_parts")
"""Notes that say which element of a batch, or which window, a map is of."""


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
        """Site and head in one line, with the element of several; of a changed run, what was changed, or how much."""
        head = self.head
        for note in self.notes:
            if isinstance(note, Message) and note.code in OF_ELEMENTS:
                head = Message("head_of_element", head=head, index=note.fields["index"], count=note.fields["count"])
        if not self.changes:
            return Message("title_of_map", site=self.site, head=head)
        named = Message("title_of_changed_map", site=self.site, head=head, changes=self.changes)
        if len(named) <= LONGEST_TITLE:
            return named
        return Message("title_of_map_changed", site=self.site, head=head, count=len(self.changes))

    def reduced(self, size: int) -> "Picture":
        """The same picture in at most `size` x `size` blocks: the maximum of their cells, labels of their starts."""
        tall, wide = block_length(len(self.queries), size), block_length(len(self.keys), size)
        if tall == wide == 1:
            return self
        values = maxima(maxima(self.values, 1, wide), 0, tall)
        visible = maxima(maxima(self.visible, 1, wide), 0, tall)
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


def maxima(x: np.ndarray, axis: int, length: int) -> np.ndarray:
    """The largest of each block along an axis; of short blocks one place after the other, which is much quicker."""
    if length == 1:
        return x
    found: np.ndarray
    if length > QUICK:
        found = np.maximum.reduceat(x, np.arange(0, x.shape[axis], length), axis=axis)
        return found
    x = np.swapaxes(x, 0, axis)
    found = x[::length].copy()
    for place in range(1, length):
        other = x[place::length]
        np.maximum(found[: len(other)], other, out=found[: len(other)])
    return np.swapaxes(found, 0, axis)
