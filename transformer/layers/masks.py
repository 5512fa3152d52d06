"""Masks: who may see whom. The one place where padding, causal and cross masks are made.

A mask is kept in its smallest form (which keys are real, and whether the future is hidden) and becomes a
query x key table only inside the attention call that needs one.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """Which keys each query may see: `keys` marks real keys True, `causal` hides later positions.

    `keys` is None when every key is real, so a sentence without padding costs no mask at all.
    """

    keys: Bool[Tensor, "batch key"] | None = None
    causal: bool = False

    def dense(self, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "#batch 1 #query #key"] | None:
        """True where a query may see a key, in the smallest shape that broadcasts; None when all is visible.

        With fewer queries than keys, the queries are taken to be the last positions (as in cached decoding).
        """
        visible = None if self.keys is None else self.keys[:, None, None, :]
        if self.causal and n_queries > 1:
            past = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)
            visible = past[None, None] if visible is None else visible & past
        return visible

    def rows(self, start: int, stop: int, n_queries: int, n_keys: int, batch: int) -> Bool[Tensor, "#query key"] | None:
        """The part of the mask that queries `start:stop` of one batch element see; memory is rows x keys only."""
        visible = None
        if self.causal:
            offset = n_keys - n_queries
            query = torch.arange(start + offset, stop + offset)[:, None]
            visible = torch.arange(n_keys)[None, :] <= query
        if self.keys is not None:
            real = self.keys[batch].cpu()[None, :]
            visible = real if visible is None else visible & real
        return visible


def padding(ids: Int[Tensor, "batch key"], pad_id: int) -> Mask:
    """Hide padding: for self-attention of an encoder over `ids`, and for cross-attention to them."""
    real = ids != pad_id
    return Mask(keys=None if bool(real.all()) else real)


def causal(ids: Int[Tensor, "batch key"], pad_id: int) -> Mask:
    """Hide padding and the future: for self-attention of a decoder over `ids`."""
    return Mask(keys=padding(ids, pad_id).keys, causal=True)
