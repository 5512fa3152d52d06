"""What is kept of one softmax: enough to compute any part of its weights exactly, when they are asked for.

Source: Vaswani et al. 2017, equation 1. A row's weights are exp(score - log-sum-exp of the row). Long runs leave it
(`layers.fused`); else the first look at a row computes all of it and remembers its log-sum-exp, so that later a part
of the row costs that part only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer.attention.masks_and_biases import Bias
from transformer.messages import Message
from transformer.nn.masks import Mask
from transformer.plots.quantity import Quantity

ROWS_AT_ONCE = 256
"""Queries whose weights are held at one time while a long map is reduced."""


def row_groups(rows: slice, size: int = ROWS_AT_ONCE) -> list[slice]:
    """`rows` in groups of at most `size`, in order."""
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]


def block_maxima(x: Tensor, length: int, dim: int) -> Tensor:
    """The largest number of each block of `length` along `dim`; the last block may be smaller."""
    if length == 1:
        return x
    whole = x.shape[dim] // length * length
    rest = x.narrow(dim, whole, x.shape[dim] - whole)
    parts = [x.narrow(dim, 0, whole).unflatten(dim, (-1, length)).amax(dim if dim < 0 else dim + 1)] if whole else []
    if rest.shape[dim]:
        parts.append(rest.amax(dim, keepdim=True))
    return torch.cat(parts, dim)


@dataclass(frozen=True, eq=False)
class AttentionInputs:
    """The inputs of one softmax, for a whole batch. With fewer key heads than heads, neighbours share one.

    `bias` is added to the scaled dot products. `known` are the rows' log-sum-exps, where the run gave them.
    """

    q: Float[Tensor, "batch head query d_k"]
    k: Float[Tensor, "batch key_head key d_k"]
    mask: Mask
    scale: float
    bias: Bias | None = None
    known: Float[Tensor, "batch head query"] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of rows that see nothing, if there are any."""
        if self.mask.fully_masked(self.n_queries, self.n_keys) is None:
            return ()
        return (Message("note_blind_rows_spread" if self.mask.uniform_if_masked else "note_blind_rows_zero"),)

    @property
    def score_quantity(self) -> Quantity:
        """What its scores are."""
        return Quantity.SCORE if self.bias is None else Quantity.BIASED_SCORE

    @property
    def n_sentences(self) -> int:
        """Batch elements."""
        return len(self.q)

    @property
    def n_heads(self) -> int:
        """Attention heads."""
        return self.q.shape[1]

    @property
    def n_queries(self) -> int:
        """Query positions."""
        return self.q.shape[2]

    @property
    def n_keys(self) -> int:
        """Key positions."""
        return self.k.shape[2]

    @property
    def kept_bytes(self) -> int:
        """Memory that the record holds on to."""
        known = 0 if self.known is None else self.known.nbytes
        bias = 0 if self.bias is None else self.bias.n_bytes
        return self.q.nbytes + self.k.nbytes + known + self.mask.n_bytes + bias

    def detached(self) -> "AttentionInputs":
        """The same, out of the graph of slopes, and without what shares the memory of queries and keys."""
        known = None if self.known is None else self.known.detach()
        return replace(self, q=_alone(self.q), k=_alone(self.k), known=known)

    @cached_property
    def _log_sums(self) -> Float[Tensor, "batch head query"]:
        """Each row's log-sum-exp, as far as it is known; NaN where it is not. Every later look may write to it."""
        with torch.inference_mode(False):
            if self.known is not None:
                return self.known.clone()
            return torch.full(self.q.shape[:3], torch.nan, dtype=self.q.dtype, device=self.q.device)

    def visible(self, batch: int, rows: slice) -> Bool[Tensor, "#query key"] | None:
        """Who of `rows` may see whom; None when every key is visible."""
        return self.mask.part(rows, slice(0, self.n_keys), self.n_queries, self.n_keys, batch)

    def scores(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """What the softmax sees of these cells, before the mask."""
        shared = self.n_heads // self.k.shape[1]  # grouped queries: Ainslie et al. 2023
        q, k = self.q[batch, head, rows] * self.scale, self.k[batch, head // shared, keys]
        scores = q @ k.T
        return scores if self.bias is None else scores + self.bias.part(batch, head, rows, keys)

    def weights(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """Softmax of the masked scores; a row that sees nothing is all zeros (or even, see `Mask`), as it ran."""
        known = self._log_sums[batch, head, rows, None]
        if keys.stop - keys.start < self.n_keys and not bool(known.isnan().any()):
            weights = self.scores(batch, head, rows, keys).sub_(known).exp_()
            return self._hide(weights, 0.0, batch, rows, keys)
        parts = [self._whole_rows(batch, head, part)[:, keys].contiguous() for part in row_groups(rows)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def block_maxima(self, batch: int, head: int, rows: slice, keys: slice, width: int) -> Float[Tensor, "query block"]:
        """The largest weight of each `width` of `keys`; with the rows' sums known, only those are exponentiated."""
        if self.known is None:
            return block_maxima(self.weights(batch, head, rows, keys), width, -1)
        scores = self._hide(self.scores(batch, head, rows, keys), -torch.inf, batch, rows, keys)
        highest = block_maxima(scores, width, -1)
        return highest.sub_(self.known[batch, head, rows, None]).exp_()

    def _whole_rows(self, batch: int, head: int, rows: slice) -> Float[Tensor, "query key"]:
        """All weights of `rows`; keys that none of them sees are not computed, and their log-sum-exp is noted."""
        reach = slice(0, max(1, self.mask.visible_range(rows, self.n_queries, self.n_keys).stop))
        scores = self._hide(self.scores(batch, head, rows, reach), -torch.inf, batch, rows, reach)
        highest = scores.amax(-1)
        weights = self._hide(torch.softmax(scores, -1, out=scores), 0.0, batch, rows, reach)
        self._log_sums[batch, head, rows] = highest - weights.amax(-1).log_().nan_to_num_(neginf=0.0)
        return F.pad(weights, (0, self.n_keys - reach.stop)) if reach.stop < self.n_keys else weights

    def _hide(self, x: Tensor, value: float, batch: int, rows: slice, keys: slice) -> Tensor:
        """Write `value` where the mask hides; only the cells between what all of `rows` see and what none sees."""
        edge = self.mask.visible_range(rows, self.n_queries, self.n_keys)
        unsure = slice(max(keys.start, edge.start), keys.stop)
        if unsure.start < unsure.stop:
            visible = self.mask.part(rows, unsure, self.n_queries, self.n_keys, batch)
            if visible is not None:
                x[:, unsure.start - keys.start :].masked_fill_(~visible.to(x.device), value)
        return x


def _alone(x: Tensor) -> Tensor:
    """`x` without what shares its memory: a slice of a joint projection would keep the values alive as well."""
    x = x.detach()
    return x.clone() if x.untyped_storage().nbytes() > x.nbytes else x


@dataclass(frozen=True, eq=False)
class Weights:
    """Attention weights that are kept as they are: small (a recurrent decoder's), or all that a model gives away.

    `mask` says who could see whom, where that is known; `notes` what one has to know of them.
    """

    values: Float[Tensor, "batch head query key"]
    mask: Mask | None = None
    notes: tuple[str, ...] = ()
    score_quantity: ClassVar[Quantity] = Quantity.LOG_WEIGHT

    @classmethod
    def of_steps(cls, steps: Sequence["Weights"]) -> "Weights":
        """The steps of a recurrent decoder, one after the other."""
        return cls(torch.cat([step.values for step in steps], dim=2))

    def folded(self, n_keys: Int[Tensor, " batch"]) -> "Weights":
        """The first `n_keys` keys of each sentence, and after its last one the sum of all further ones."""
        device, longest = self.values.device, int(n_keys.max())
        n_keys = n_keys.to(device)[:, None, None, None]
        inside = torch.arange(self.n_keys, device=device) < n_keys
        beyond = self.values.masked_fill(inside, 0.0).sum(-1, keepdim=True)
        kept = F.pad(self.values.masked_fill(~inside, 0.0)[..., : longest + 1], (0, max(0, longest + 1 - self.n_keys)))
        return Weights(kept.scatter(-1, n_keys.expand(*kept.shape[:3], 1), beyond))

    @property
    def n_sentences(self) -> int:
        """Batch elements."""
        return len(self.values)

    @property
    def n_heads(self) -> int:
        """Attention heads."""
        return self.values.shape[1]

    @property
    def n_queries(self) -> int:
        """Query positions."""
        return self.values.shape[2]

    @property
    def n_keys(self) -> int:
        """Key positions."""
        return self.values.shape[3]

    @property
    def kept_bytes(self) -> int:
        """Memory that the record holds on to."""
        return self.values.nbytes

    def block_maxima(self, batch: int, head: int, rows: slice, keys: slice, width: int) -> Float[Tensor, "query block"]:
        """The largest weight of each `width` of `keys`."""
        return block_maxima(self.values[batch, head, rows, keys], width, -1)

    def visible(self, batch: int, rows: slice) -> Bool[Tensor, "#query key"] | None:
        """Who of `rows` may see whom, where a mask is known; else nothing is hidden, so that weights would show."""
        if self.mask is None:
            return None
        return self.mask.part(rows, slice(0, self.n_keys), self.n_queries, self.n_keys, batch)

    def scores(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """Natural logarithms of the weights: the scores up to a constant a row, which the softmax does not see."""
        return self.weights(batch, head, rows, keys).log()

    def weights(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """The kept weights."""
        return self.values[batch, head, rows, keys]


def every_weight(source: AttentionInputs | Weights) -> Float[Tensor, "batch head query key"]:
    """All weights of all heads and batch elements, each computed as `weights` does. O(batch x head x query x key)."""
    rows, keys = slice(0, source.n_queries), slice(0, source.n_keys)
    heads = range(source.n_heads)
    parts = [torch.stack([source.weights(i, head, rows, keys) for head in heads]) for i in range(source.n_sentences)]
    return torch.stack(parts)
