"""From windows back to letters: how much of a head's attention each letter received.

The rule: a window of width k stands for k letters and shares what it receives evenly among them. So nothing is lost:
over all widths and letters the shares sum to 1, as the attention that windows receive does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from transformer.nn.kmers import Window


@dataclass(frozen=True, eq=False)
class LetterTrack:
    """What each letter received, by window width.

    `share[i]` belongs to `widths[i]`; all shares together sum to 1. `even` is what the shares would be if every
    window received the same: less at the ends, where fewer windows lie.
    """

    widths: tuple[int, ...]
    share: Float[np.ndarray, "width letter"]
    even: Float[np.ndarray, "width letter"]

    @property
    def total(self) -> Float[np.ndarray, " letter"]:
        """Share of each letter, over all widths; sums to 1."""
        return self.share.sum(axis=0)

    @property
    def relative(self) -> Float[np.ndarray, " letter"]:
        """How many times the even share each letter received: 1 is as much as any other; ends are not favoured."""
        return self.total / self.even.sum(axis=0)


def folded(values: Float[np.ndarray, " window"], spans: Sequence[Window], length: int) -> LetterTrack:
    """Share each window's value among its letters."""
    widths = tuple(dict.fromkeys(span.width for span in spans))
    starts, sizes = np.array([(span.start, span.width) for span in spans]).T
    share, even = np.zeros((len(widths), length)), np.zeros((len(widths), length))
    for row, width in enumerate(widths):
        chosen = sizes == width
        for step in range(width):
            np.add.at(share[row], starts[chosen] + step, values[chosen] / width)
            np.add.at(even[row], starts[chosen] + step, 1 / (width * len(spans)))
    return LetterTrack(widths, share, even)
