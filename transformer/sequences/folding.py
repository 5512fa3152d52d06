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
    """What each letter received, by window width, of one map or of any leading axes of maps.

    `share[..., i, :]` belongs to `widths[i]`; all shares of a map together sum to what its windows received. `even` is
    what the shares would be if every window received the same: less at the ends, where fewer windows lie.
    """

    widths: tuple[int, ...]
    share: Float[np.ndarray, "*maps width letter"]
    even: Float[np.ndarray, "width letter"]

    @property
    def total(self) -> Float[np.ndarray, "*maps letter"]:
        """Share of each letter, over all widths; sums to 1 where the windows' shares do."""
        return self.share.sum(axis=-2)

    @property
    def relative(self) -> Float[np.ndarray, "*maps letter"]:
        """How many times the even share each letter received: 1 is as much as any other; ends are not favoured."""
        return self.total / self.even.sum(axis=0)


def folded(values: Float[np.ndarray, "*maps window"], spans: Sequence[Window], length: int) -> LetterTrack:
    """Share each window's value among its letters."""
    widths = tuple(dict.fromkeys(span.width for span in spans))
    starts, sizes = np.array([(span.start, span.width) for span in spans]).T
    given = np.moveaxis(values, -1, 0)
    share, even = np.zeros((len(widths), length, *given.shape[1:])), np.zeros((len(widths), length))
    for row, width in enumerate(widths):
        chosen = sizes == width
        for step in range(width):
            np.add.at(share[row], starts[chosen] + step, given[chosen] / width)
            np.add.at(even[row], starts[chosen] + step, 1 / (width * len(spans)))
    return LetterTrack(widths, np.moveaxis(share, (0, 1), (-2, -1)), even)
