"""Tables of who sees whom, and of what is added to scores, in the smallest form that says the same.

Other people's models hand their attention such tables: a mask is kept by its rows, a relative bias by its diagonals.
"""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..nn.masks import Mask


@dataclass(frozen=True, eq=False)
class MaskTable(Mask):
    """Who sees whom, cell by cell: what a sliding window needs, or a mask that is wrong on purpose.

    One table serves all layers that share it; padding is part of the table.
    """

    visible: Bool[Tensor, "#batch 1 query key"] = field(kw_only=True)

    @property
    def n_bytes(self) -> int:
        """Memory of the table."""
        return self.visible.nbytes

    def dense(self, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "#batch 1 query key"]:
        """The table itself."""
        return self.visible.to(device)

    def part(
        self, rows: slice, keys: slice, n_queries: int, n_keys: int, batch: int
    ) -> Bool[Tensor, "query key"] | None:
        """What `rows` may see of `keys` in one batch element."""
        return self.visible[min(batch, len(self.visible) - 1), 0, rows, keys].cpu()

    def visible_range(self, rows: slice, n_queries: int, n_keys: int) -> slice:
        """Nothing is known without a look at the table: any key may be visible or not."""
        return slice(0, n_keys)


@dataclass(frozen=True, eq=False)
class WindowMask(Mask):
    """The past through a sliding window: a query sees itself and the `width` - 1 keys before it (Beltagy et al. 2020).

    No key is padding.
    """

    width: int = field(kw_only=True)

    def dense(self, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 query key"]:
        """True where a query may see a key."""
        past = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)
        return past.triu(n_keys - n_queries - self.width + 1)[None, None]

    def part(self, rows: slice, keys: slice, n_queries: int, n_keys: int, batch: int) -> Bool[Tensor, "query key"]:
        """What `rows` may see of `keys`."""
        offset = n_keys - n_queries
        behind = _distances(slice(rows.start + offset, rows.stop + offset), keys, torch.device("cpu"))
        return (behind <= 0) & (behind > -self.width)

    def visible_range(self, rows: slice, n_queries: int, n_keys: int) -> slice:
        """Keys after it are visible to none of `rows`; before it any may be hidden."""
        return slice(0, max(0, min(rows.stop + n_keys - n_queries, n_keys)))


@dataclass(frozen=True, eq=False)
class RelativeBias:
    """A bias that depends on how far the key is from the query alone (Raffel et al. 2020, section 2.1).

    `diagonals[head, d]` is added where key - query = d - (n_queries - 1); one row may stand for all heads.
    """

    diagonals: Float[Tensor, "#head distance"]
    n_queries: int

    @property
    def n_bytes(self) -> int:
        """Memory of the diagonals."""
        return self.diagonals.nbytes

    @cached_property
    def hides(self) -> bool:
        """Whether it hides keys (-inf) from some of the heads."""
        return bool((self.diagonals == -torch.inf).any())

    def part(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """What is added to the scores of `rows` and `keys`."""
        distances = _distances(rows, keys, self.diagonals.device)
        return self.diagonals[min(head, len(self.diagonals) - 1), distances + self.n_queries - 1]


@dataclass(frozen=True, eq=False)
class BiasTable:
    """A bias of any form, cell by cell; or, with one row, one that is the same for each query (ALiBi's)."""

    values: Float[Tensor, "#batch #head #query key"]

    @property
    def n_bytes(self) -> int:
        """Memory of the table."""
        return self.values.nbytes

    @cached_property
    def hides(self) -> bool:
        """Whether it hides keys (-inf) from some of the heads."""
        return bool((self.values == -torch.inf).any())

    def part(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """What is added to the scores of `rows` and `keys`."""
        batches, heads, queries = self.values.shape[:3]
        return self.values[min(batch, batches - 1), min(head, heads - 1), rows if queries > 1 else slice(0, 1), keys]


Bias = RelativeBias | BiasTable
"""What is added to scores before the softmax."""


def diagonals_of(table: Tensor) -> Tensor:
    """The last two axes (query, key) of a table of distances as one (distance): its first column, and its first row."""
    return torch.cat([table[..., 1:, 0].flip(-1), table[..., 0, :]], dim=-1)


def mask_of(table: Bool[Tensor, "#batch 1 query key"]) -> Mask:
    """The smallest mask that says the same as `table`."""
    keys = table.any(dim=2)[:, 0]
    for causal in (False, True):
        mask = Mask(None if bool(keys.all()) else keys, causal)
        dense = mask.dense(table.shape[2], table.shape[3], table.device)
        if bool(((dense == table) if dense is not None else table).all()):
            return mask
    window = WindowMask(width=int(table[0, 0, -1].sum()))
    if bool((window.dense(table.shape[2], table.shape[3], table.device) == table).all()):
        return window
    return MaskTable(visible=table.clone())


def bias_of(
    table: Float[Tensor, "#batch #head #query key"], visible: Bool[Tensor, "#batch 1 query key"] | None = None
) -> Bias | None:
    """The smallest bias that says the same as `table`, where it is `visible`; None where it adds nothing."""
    if not bool((table != 0).any() if visible is None else ((table != 0) & visible).any()):
        return None
    shown = table if visible is None else table.masked_fill(~visible, -torch.inf)
    if table.shape[2] > 1:
        same = shown[..., 1:, 1:] == shown[..., :-1, :-1]
        if visible is not None:
            same |= ~visible[..., 1:, 1:]
        if bool(same.all()) and (len(table) == 1 or _is_one(shown, visible)):
            diagonals = diagonals_of(shown.amax(0) if len(table) > 1 else shown[0])
            if visible is not None and not bool(((table == -torch.inf) & visible).any()):  # no head sees less
                diagonals = diagonals.masked_fill(diagonals == -torch.inf, 0.0)
            return RelativeBias(diagonals, table.shape[2])
    return BiasTable(table.detach() if visible is None else table.masked_fill(~visible, 0.0))


def _is_one(tables: Tensor, visible: Tensor | None) -> bool:
    """Whether all tables of a batch agree, but for cells that are hidden in some."""
    agree = tables == tables.amax(0, keepdim=True)
    return bool((agree if visible is None else agree | ~visible).all())


def _distances(rows: slice, keys: slice, device: torch.device) -> Int[Tensor, "query key"]:
    """How far each key lies behind each query."""
    query = torch.arange(rows.start, rows.stop, device=device)[:, None]
    return torch.arange(keys.start, keys.stop, device=device)[None, :] - query
