"""What fused attention computes its softmax from: queries, keys, a mask or a bias."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer.attention.masks_and_biases import Bias, bias_of, mask_of
from transformer.attention.softmax_inputs import QueriesKeys
from transformer.layers.masks import Mask
from transformer.models.common import in_single

SHARED = 3
"""A tensor that is at least this part of its memory keeps it: queries, keys and values of one projection."""


@dataclass(eq=False, slots=True)
class FusedCall:
    """A call of `scaled_dot_product_attention`, safe from what the model writes to later.

    It is put into its form (batch, head, position, d) when somebody asks for it: the run goes on meanwhile.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    output: Tensor | None
    options: dict[str, Any]
    table: tuple[Mask, Bias | None] | None

    @property
    def inputs(self) -> QueriesKeys:
        """The inputs of its softmax."""
        q, k, scale = in_single(four_axes(self.q)), in_single(four_axes(self.k)), self.options.get("scale")
        n_queries, n_keys = q.shape[2], k.shape[2]
        causal = bool(self.options.get("is_causal"))
        mask, bias = Mask(causal=causal), None
        if causal and n_queries != n_keys:  # torch aligns the corners at the top left
            mask = mask_of(torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool).tril(), causal=False)
        if self.table is not None:
            mask, bias = self.table
        return QueriesKeys(q, k, mask, q.shape[-1] ** -0.5 if scale is None else float(scale), bias)

    @property
    def values(self) -> Tensor:
        """What it mixed, with the keys as first axis."""
        return four_axes(self.v).movedim(2, 0)


class FusedInputs:
    """The arguments of `scaled_dot_product_attention` as what a record keeps; layers share the form of their mask."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[Tensor, int, tuple[Mask, Bias | None]]] = {}

    def of(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], output: Tensor | None) -> FusedCall:
        """What is kept of a call, of queries and keys (..., position, d_k)."""
        table = options.get("attn_mask")
        if q.requires_grad or k.requires_grad or v.requires_grad:
            q, k, v = q.detach(), k.detach(), v.detach()
        found = None if table is None else self._table(table, q.shape[-2], k.shape[-2])
        return FusedCall(_alone(q), _alone(k), v, output, options, found)

    def _table(self, table: Tensor, n_queries: int, n_keys: int) -> tuple[Mask, Bias | None]:
        known, version = self._tables.get(id(table)), 0 if table.is_inference() else table._version
        if known is not None and known[0] is table and known[1] == version:
            return known[2]
        whole = four_axes(table.detach())
        whole = whole.expand(*whole.shape[:2], n_queries, n_keys)
        added = torch.zeros(1, 1, 1, 1, device=table.device)
        if whole.dtype != torch.bool:
            added = whole.masked_fill(whole <= torch.finfo(whole.dtype).min / 2, 0.0)
            whole = whole > torch.finfo(whole.dtype).min / 2
        some = whole.any(1, keepdim=True)
        if bool((some & ~whole).any()):  # heads that see different keys
            added = added.expand(whole.shape).masked_fill(some & ~whole, -torch.inf)
        found = mask_of(some, causal=False), bias_of(added) if bool(added.any()) else None
        self._tables[id(table)] = table, version, found
        return found


def four_axes(x: Tensor) -> Tensor:
    """A tensor as (batch, head, position, features): missing axes are of length 1, more of them one batch."""
    if x.dim() == 3:
        return x[:, None]
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x.flatten(0, x.dim() - 4)


def _alone(x: Tensor) -> Tensor:
    """A small part of a larger tensor (a cache, which goes on changing) by itself."""
    return x.clone() if x.untyped_storage().nbytes() > SHARED * x.nbytes else x
