"""What fused attention computes its softmax from: queries, keys, a mask or a bias."""

from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from transformer.attention.masks_and_biases import Bias, bias_of, mask_of
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.nn import fused
from transformer.nn.common import in_single
from transformer.nn.masks import Mask

SHARED = 3
"""A tensor that is at least this part of its memory keeps it: queries, keys and values of one projection."""


@dataclass(eq=False, slots=True)
class FusedCall:
    """A call of `scaled_dot_product_attention`, safe from what the model writes to later.

    It is put into its form (batch, head, position, d) when somebody asks for it: the run goes on meanwhile.
    """

    q: Tensor
    k: Tensor
    output: Tensor | None
    options: dict[str, Any]
    table: tuple[Mask, Bias | None] | None
    known: Tensor | None = None

    @property
    def inputs(self) -> AttentionInputs:
        """The inputs of its softmax."""
        q, k, scale = in_single(four_axes(self.q)), in_single(four_axes(self.k)), self.options.get("scale")
        n_queries, n_keys = q.shape[2], k.shape[2]
        causal = bool(self.options.get("is_causal"))
        mask, bias = Mask(causal=causal), None
        if causal and n_queries != n_keys:  # torch aligns the corners at the top left
            mask = mask_of(torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool).tril())
        if self.table is not None:
            mask, bias = self.table
        return AttentionInputs(q, k, mask, _scale(q, scale), bias, self.known)

    @property
    def keys(self) -> Tensor:
        """Its keys, with their positions as first axis."""
        return four_axes(self.k).movedim(2, 0)


class FusedInputs:
    """The arguments of `scaled_dot_product_attention` as what a record keeps; layers share the form of their mask."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[ref[Tensor], int, tuple[Mask, Bias | None]]] = {}
        self._last: tuple[Tensor, tuple[Mask, Bias | None]] | None = None

    def of(
        self, q: Tensor, k: Tensor, options: dict[str, Any], output: Tensor | None, known: Tensor | None
    ) -> FusedCall:
        """What is kept of a call, of queries and keys (..., position, d_k); `known` are its rows' log-sums."""
        table = options.get("attn_mask")
        if q.requires_grad or k.requires_grad:
            q, k = q.detach(), k.detach()
        found = None if table is None else self._table(table, q.shape[-2], k.shape[-2])
        return FusedCall(_alone(q), _alone(k), output, options, found, known)

    def _table(self, table: Tensor, n_queries: int, n_keys: int) -> tuple[Mask, Bias | None]:
        known, version = self._tables.get(id(table)), 0 if table.is_inference() else table._version
        if known is not None and known[0]() is table and known[1] == version:
            return known[2]
        found = self._found(table.detach(), n_queries, n_keys)
        self._tables[id(table)] = ref(table), version, found
        return found

    def _found(self, table: Tensor, n_queries: int, n_keys: int) -> tuple[Mask, Bias | None]:
        """The smallest forms of a table that was not given before; layers make their own of the same numbers (T5)."""
        if table.dtype == torch.bool:
            return self._forms(four_axes(table), n_queries, n_keys)
        if self._last is not None and self._last[0].shape == table.shape and torch.equal(self._last[0], table):
            return self._last[1]
        found = self._forms(four_axes(table), n_queries, n_keys)
        self._last = table, found
        return found

    @staticmethod
    def _forms(whole: Tensor, n_queries: int, n_keys: int) -> tuple[Mask, Bias | None]:
        whole = whole.expand(*whole.shape[:2], n_queries, n_keys)
        visible, added = whole, None
        if whole.dtype != torch.bool:
            visible, added = whole > torch.finfo(whole.dtype).min / 2, whole
            if bool(visible.all()):
                return Mask(), bias_of(whole)
        some = visible[:, :1]
        if visible.shape[1] > 1 and not torch.equal(visible, some.expand_as(visible)):  # heads that see different keys
            some = visible.any(1, keepdim=True)
            base = torch.zeros((), device=whole.device) if added is None else added
            added = base.expand(whole.shape).masked_fill(some & ~visible, -torch.inf)
        return mask_of(some), None if added is None else bias_of(added, some)


def with_sums(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    """What fused attention gives, to the bit, and the log-sum-exp of each row; None where that is not to be had."""
    causal, table = bool(options.get("is_causal")), options.get("attn_mask")
    if k.shape[2] < fused.FROM or options.get("dropout_p") or (causal and q.shape[2] != k.shape[2]):
        return None
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = (one.repeat_interleave(shared, dim=1) for one in (k, v))
    added = None if table is None else four_axes(table)
    if added is not None and added.dtype == torch.bool:  # as torch does: some rows at a time could have other bits
        added = q.new_zeros(added.shape).masked_fill(~added, -torch.inf)
    mixed = fused.summed_attention(q, k, v, causal, _scale(q, options.get("scale")), added)
    sums = fused.row_sums()
    return None if mixed is None or sums is None else (mixed, sums)


def _scale(q: Tensor, told: float | None) -> float:
    return float(q.shape[-1] ** -0.5 if told is None else told)


def four_axes(x: Tensor) -> Tensor:
    """A tensor as (batch, head, position, features): missing axes are of length 1, more of them one batch."""
    if x.dim() == 3:
        return x[:, None]
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x.flatten(0, x.dim() - 4)


def _alone(x: Tensor) -> Tensor:
    """A small part of a larger tensor (a cache, which goes on changing) by itself."""
    return x.clone() if x.untyped_storage().nbytes() > SHARED * x.nbytes else x
