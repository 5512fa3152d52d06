"""One map, ready to be drawn, read or saved: an array with what its axes mean."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer.errors import RecordError
from transformer.messages import Message
from transformer.pictures.axes import Axis


@dataclass(frozen=True, eq=False)
class Picture:
    """One map, ready to be drawn, read or saved: exactly these numbers, with what their axes mean."""

    site: str
    head: str
    values: Float[np.ndarray, "query key"]
    visible: Bool[np.ndarray, "query key"]
    queries: Axis
    keys: Axis
    unit: str = Message("unit_weight")
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Site and head in one line."""
        return Message("title_of_map", site=self.site, head=self.head)

    def reduced(self, size: int) -> "Picture":
        """The same picture in at most `size` x `size` blocks: the maximum of their cells, labels of their starts."""
        tall, wide = block_length(len(self.queries), size), block_length(len(self.keys), size)
        if tall == wide == 1:
            return self
        values = reduced_blocks(reduced_blocks(torch.from_numpy(self.values), wide, "max", -1), tall, "max", -2)
        visible = (
            reduced_blocks(reduced_blocks(torch.from_numpy(self.visible).float(), wide, "max", -1), tall, "max", -2) > 0
        )
        return replace(
            self,
            values=values.numpy(),
            visible=visible.numpy(),
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


def reduced_blocks(x: Tensor, length: int, reduce: str, dim: int) -> Tensor:
    """Reduce blocks of `length` along `dim`; the last block may be smaller."""
    if length == 1:
        return x
    whole = x.shape[dim] // length * length
    body = x.narrow(dim, 0, whole).unflatten(dim, (-1, length))
    rest = x.narrow(dim, whole, x.shape[dim] - whole)
    inner = dim if dim < 0 else dim + 1
    parts = [body.amax(inner) if reduce == "max" else body.mean(inner)] if whole else []
    if rest.shape[dim]:
        parts.append(rest.amax(dim, keepdim=True) if reduce == "max" else rest.mean(dim, keepdim=True))
    return torch.cat(parts, dim)
