"""Two alignments of one sentence, side by side: which head stands for a model's alignment, and how far two agree.

An alignment is a cross-attention map in whole words: rows are the words of one target, columns those of one source.
Two of them are compared word by word; both must have read the same target, since two models write different ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from transformer.attention.measures import agreement, sites_of
from transformer.attention.record import Record
from transformer.errors import RecordError
from transformer.messages import Message
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity

KIND = "decoder.cross"


@dataclass(frozen=True)
class Head:
    """Which attention stands for an alignment: a layer (from 0), and one of its heads or their mean."""

    layer: int
    head: int | Literal["mean"]


@dataclass(frozen=True, eq=False)
class AlignmentComparison:
    """Two alignments over the same words, and how far they agree.

    `agreement` is 1 - Jensen-Shannon distance of each target word's two rows (`measures.agreement`): 1 for equal rows,
    0 for rows that share no source word. It is symmetric, it is defined where one row is 0, and it asks for no
    threshold. `difference` is the first map minus the second. `mean` leaves out the end token.
    """

    first: Picture
    second: Picture
    agreement: Float[np.ndarray, " query"]
    difference: Picture

    @property
    def mean(self) -> float:
        """Mean agreement of the target's words; NaN where there is none."""
        words = self.agreement[~np.array(self.first.queries.special, dtype=bool)]
        return float(words.mean()) if len(words) else float("nan")


def heads_of(record: Record) -> tuple[Head, ...]:
    """Every head of every cross-attention, each layer's mean after its heads (where it has more than one)."""
    found: list[Head] = []
    for layer, site in enumerate(sites_of(record, KIND)):
        count = record[site].n_heads
        found += [Head(layer, head) for head in range(count)]
        found += [Head(layer, "mean")] if count > 1 else []
    return tuple(found)


def alignment(record: Record, head: Head) -> Picture:
    """The map of one head, or of a layer's mean, in whole words.

    Raises:
        RecordError: the record has no such layer or head.
    """
    sites = sites_of(record, KIND)
    if not 0 <= head.layer < len(sites):
        raise RecordError("layer_not_in_record", layer=head.layer, last=len(sites) - 1)
    return record[sites[head.layer]].picture(head.head, words=True)


def best_agreeing(record: Record, other: Picture) -> tuple[Head, float]:
    """The single head whose alignment agrees best with `other`, on average over the target's words; and how well.

    Raises:
        RecordError: the two did not read the same target and source.
    """
    single = [head for head in heads_of(record) if head.head != "mean"]
    found = [(compared(alignment(record, head), other).mean, head) for head in single]
    mean, best = max(found, key=lambda pair: -np.inf if np.isnan(pair[0]) else pair[0])
    return best, mean


def on_one_axis(first: Picture, second: Picture) -> tuple[Picture, Picture]:
    """Both maps over the same keys: what one of them has past the other's end is no key there, and so not visible.

    Raises:
        RecordError: the two did not read the same source.
    """
    n = min(len(first.keys), len(second.keys))
    if first.keys.texts[:n] != second.keys.texts[:n]:
        raise RecordError("different_sources")
    longest = max(first, second, key=lambda picture: len(picture.keys)).keys
    one, other = (_widened(picture, len(longest)) for picture in (first, second))
    return replace(one, keys=longest), replace(other, keys=longest)


def compared(first: Picture, second: Picture) -> AlignmentComparison:
    """How far two alignments agree, word by word.

    Raises:
        RecordError: the two did not read the same source and target.
    """
    if first.queries.texts != second.queries.texts:
        raise RecordError("different_targets")
    first, second = on_one_axis(first, second)
    difference = replace(
        first,
        site=KIND,
        values=first.values - second.values,
        visible=first.visible | second.visible,
        quantity=Quantity.DIFFERENCE,
        head=Message("first_minus_second"),
        notes=(Message("note_merged"),),
    )
    return AlignmentComparison(first, second, agreement(first.values, second.values), difference)


def further_apart(comparison: AlignmentComparison) -> Iterator[tuple[int, int]]:
    """Per target word the source words on which the first alignment has more, and less, than the second by most."""
    for row in comparison.difference.values:
        yield int(row.argmax()), int(row.argmin())


def _widened(picture: Picture, n_keys: int) -> Picture:
    more = n_keys - len(picture.keys)
    if not more:
        return picture
    return replace(
        picture,
        values=np.pad(picture.values, ((0, 0), (0, more))),
        visible=np.pad(picture.visible, ((0, 0), (0, more))),
    )
