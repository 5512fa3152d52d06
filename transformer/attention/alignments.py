"""Alignments: cross-attention maps in whole words, whose rows are the words of one target, columns those of one source.

Two of them are `compared` word by word; both must have read the same target, since two models write different ones.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..errors import RecordError
from ..messages import Message
from ..plots.picture import Picture, Quantity
from .measures import CROSS, agreement, sites_of
from .record import MEAN, HeadOrMean, Record


@dataclass(frozen=True)
class Head:
    """Which attention stands for an alignment: a layer (from 0), and one of its heads or their mean."""

    layer: int
    head: HeadOrMean


@dataclass(frozen=True, eq=False)
class AlignmentComparison:
    """Two alignments over the same words, and how far they agree.

    `agreement` is 1 - Jensen-Shannon distance of each target word's two rows: 1 for equal rows,
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
    counts = [record[site].n_heads for site in sites_of(record, CROSS)]
    every = [[*range(count), *([MEAN] if count > 1 else [])] for count in counts]
    return tuple(Head(layer, head) for layer, heads in enumerate(every) for head in heads)


def alignment(record: Record, head: Head) -> Picture:
    """The map of one head, or of a layer's mean, in whole words.

    Raises:
        RecordError: the record has no such layer or head.
    """
    sites = sites_of(record, CROSS)
    if not 0 <= head.layer < len(sites):
        raise RecordError("layer_not_in_record", layer=head.layer, last=len(sites) - 1)
    return record[sites[head.layer]].picture(head.head, words=True)


def best_agreeing(record: Record, other: Picture) -> tuple[Head, float]:
    """The single head whose alignment agrees best with `other`, on average over the target's words; and how well.

    Raises:
        RecordError: the two did not read the same target and source.
    """
    single = [head for head in heads_of(record) if head.head != MEAN]
    found = {head: compared(alignment(record, head), other).mean for head in single}
    best = max(single, key=lambda head: np.nan_to_num(found[head], nan=-np.inf))
    return best, found[best]


def on_one_axis(first: Picture, second: Picture) -> tuple[Picture, Picture]:
    """Both maps over the same keys: what one of them has past the other's end is no key there, and so not visible.

    Raises:
        RecordError: the two did not read the same source.
    """
    n = min(len(first.keys), len(second.keys))
    if first.keys.texts[:n] != second.keys.texts[:n]:
        raise RecordError("different_sources")
    longest = max(first, second, key=lambda picture: len(picture.keys)).keys

    def widened(one: Picture) -> Picture:
        past = ((0, 0), (0, len(longest) - len(one.keys)))
        return replace(one, keys=longest, values=np.pad(one.values, past), visible=np.pad(one.visible, past))

    return widened(first), widened(second)


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
        site=CROSS,
        values=first.values - second.values,
        visible=first.visible | second.visible,
        quantity=Quantity.DIFFERENCE,
        head=Message("first_minus_second"),
        notes=(Message("note_merged"),),
    )
    return AlignmentComparison(first, second, agreement(first.values, second.values), difference)
