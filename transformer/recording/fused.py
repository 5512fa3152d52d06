"""What fused attention computes its softmax from: queries, keys, a mask or a bias."""

from typing import Any

import torch
from torch import Tensor

from transformer.attention.masks_and_biases import Bias, bias_of, mask_of
from transformer.attention.softmax_inputs import QueriesKeys
from transformer.layers.masks import Mask
from transformer.models.common import in_single

SHARED = 3
"""A tensor that is at least this part of its memory keeps it: queries, keys and values of one projection."""


class FusedInputs:
    """The arguments of `scaled_dot_product_attention` as what a record keeps; layers share the form of their mask."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[Tensor, int, tuple[Mask, Bias | None]]] = {}

    def of(self, q: Tensor, k: Tensor, options: dict[str, Any]) -> QueriesKeys:
        """The inputs of one softmax, of queries and keys (batch, head, position, d_k)."""
        scale, table = options.get("scale"), options.get("attn_mask")
        n_queries, n_keys = q.shape[2], k.shape[2]
        causal = bool(options.get("is_causal"))
        mask, bias = Mask(causal=causal), None
        if causal and n_queries != n_keys:  # torch aligns the corners at the top left
            mask = mask_of(torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool).tril(), causal=False)
        if table is not None:
            mask, bias = self._table(table, n_queries, n_keys)
        return QueriesKeys(_alone(q), _alone(k), mask, q.shape[-1] ** -0.5 if scale is None else float(scale), bias)

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
    return in_single(x.clone() if x.untyped_storage().nbytes() > SHARED * x.nbytes else x)
