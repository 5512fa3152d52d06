"""What is kept of one softmax: enough to compute any part of its weights exactly, when they are asked for.

Source: Vaswani et al. 2017, equation 1. A row's weights are exp(score - log-sum-exp of the row). Long runs leave it
(`layers.fused`); else the first look at a row computes all of it and remembers its log-sum-exp, so that later a part
of the row costs that part only.

Where interventions change a run, the fused attention runs as ever. Only weights of the heads that they name are
computed, and only the rows that they name get another output: everything else keeps its bits.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from ..messages import Message
from ..nn.common import in_single
from ..nn.masks import Mask, masked_softmax
from ..plots.picture import Quantity
from .interventions.edits import (
    Region,
    changed_outputs,
    changed_scores,
    changed_weights,
    check_positions,
    selected_by_any,
)
from .interventions.value import OF_WEIGHTS, Intervention
from .tables import Bias

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


class _Source:
    """What both kinds of a softmax's source have."""

    mask: Mask | None

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Batch elements, heads, queries, keys."""

    @abstractmethod
    def weights(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """The weights that the run used."""

    @abstractmethod
    def of_heads(self, batch: int, heads: range) -> Float[Tensor, "head query key"]:
        """The same of several heads whole, in one step: for pictures, since a last digit may be another."""

    @property
    def head_cost(self) -> int:
        """What the weights of one head take, in cells whose softmax takes as long, whatever the sizes are."""
        return self.n_queries * self.n_keys

    def visible(self, batch: int, rows: slice, head: int | None = None) -> Bool[Tensor, "#query key"] | None:
        """Who of `rows` may see whom; None when every key is visible, or no mask is known.

        Without a head, what at least one of them sees.
        """
        if self.mask is None:
            return None
        return self.mask.part(rows, slice(0, self.n_keys), self.n_queries, self.n_keys, batch)

    def block_maxima(self, batch: int, head: int, rows: slice, keys: slice, width: int) -> Float[Tensor, "query block"]:
        """The largest weight of each `width` of `keys`."""
        return block_maxima(self.weights(batch, head, rows, keys), width, -1)

    @property
    def n_sentences(self) -> int:
        """Batch elements."""
        return self.sizes[0]

    @property
    def n_heads(self) -> int:
        """Attention heads."""
        return self.sizes[1]

    @property
    def n_queries(self) -> int:
        """Query positions."""
        return self.sizes[2]

    @property
    def n_keys(self) -> int:
        """Key positions."""
        return self.sizes[3]


@dataclass(frozen=True, eq=False)
class AttentionInputs(_Source):
    """The inputs of one softmax, for a whole batch. With fewer key heads than heads, neighbours share one.

    `bias` is added to the scaled dot products. `known` are the rows' log-sum-exps, where the run gave them.
    `interventions` changed it: weights are changed when they are asked for, while the mask stays the model's own.
    `first_row` is the row of the whole map that the first query stands for; None where these are all rows.
    """

    q: Float[Tensor, "batch head query d_k"]
    k: Float[Tensor, "batch key_head key d_k"]
    mask: Mask
    scale: float
    bias: Bias | None = None
    known: Float[Tensor, "batch head query"] | None = None
    interventions: tuple[Intervention, ...] = ()
    first_row: int | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of rows that see nothing, if there are any."""
        if self.bias is not None and self.bias.hides:
            return (Message("note_hidden_from_a_head"),)
        if self.mask.fully_masked(self.n_queries, self.n_keys) is None:
            return ()
        return (Message("note_blind_rows_spread" if self.mask.uniform_if_masked else "note_blind_rows_zero"),)

    def visible(self, batch: int, rows: slice, head: int | None = None) -> Bool[Tensor, "#query key"] | None:
        """Who of `rows` may see whom: of one head, without what a bias of -inf hides from it alone."""
        found = super().visible(batch, rows)
        if head is None or self.bias is None or not self.bias.hides:
            return found
        sees = (self.bias.part(batch, head, rows, slice(0, self.n_keys)) > -torch.inf).cpu()
        return sees if found is None else found & sees

    @property
    def score_quantity(self) -> Quantity:
        """What its scores are."""
        return Quantity.SCORE if self.bias is None else Quantity.BIASED_SCORE

    @property
    def sizes(self) -> tuple[int, ...]:
        """Batch elements, heads, queries, keys."""
        return (*self.q.shape[:3], self.k.shape[2])

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
    def of_weights(self) -> tuple[Intervention, ...]:
        """The interventions that change weights, and not only what is made of them."""
        return tuple(one for one in self.interventions if one.action in OF_WEIGHTS)

    @cached_property
    def _log_sums(self) -> Float[Tensor, "batch head query"]:
        """Each row's log-sum-exp, as far as it is known; NaN where it is not. Every later look may write to it."""
        with torch.inference_mode(False):
            if self.known is not None:
                return self.known.clone()
            return torch.full(self.q.shape[:3], torch.nan, dtype=self.q.dtype, device=self.q.device)

    def scores(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """What the softmax sees of these cells, under temperatures, before the mask and what is knocked out."""
        found = self._scores(batch, head, rows, keys)
        return changed_scores(found[None, None], self.interventions, self._region(batch, head, rows))[0, 0]

    def weights(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """The weights that the run used; a row that sees nothing is all zeros (or even, see `Mask`), as it ran."""
        is_changed = self._is_changed(head)
        if not is_changed and keys.stop - keys.start < self.n_keys:
            known = self._log_sums[batch, head, rows, None]
            if not bool(known.isnan().any()):
                return self._hide(self._scores(batch, head, rows, keys).sub_(known).exp_(), 0.0, batch, rows, keys)
        whole = self._changed_rows if is_changed else self._whole_rows
        parts = [whole(batch, head, part)[:, keys].contiguous() for part in row_groups(rows)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def of_heads(self, batch: int, heads: range) -> Float[Tensor, "head query key"]:
        """The weights of several heads; one after the other where interventions change weights."""
        rows, keys = slice(0, self.n_queries), slice(0, self.n_keys)
        if self.of_weights:
            return torch.stack([self.weights(batch, head, rows, keys) for head in heads])
        shared = self.n_heads // self.k.shape[1]
        q, k = self.q[batch, list(heads)], self.k[batch, [head // shared for head in heads]]
        scores = (in_single(q) * self.scale) @ in_single(k).mT
        if self.bias is not None:
            scores += torch.stack([self.bias.part(batch, head, rows, keys) for head in heads])
        visible = self.visible(batch, rows)
        return masked_softmax(scores, None if visible is None else visible.to(scores.device)[None])

    @property
    def head_cost(self) -> int:
        """As of any source; long vectors and interventions take longer."""
        length = self.q.shape[-1]
        cells = super().head_cost * (1 + length // 128 + len(self.of_weights))
        return cells + (self.n_queries + self.n_keys) * length // 8

    def block_maxima(self, batch: int, head: int, rows: slice, keys: slice, width: int) -> Float[Tensor, "query block"]:
        """The largest weight of each `width` of `keys`; with the rows' sums known, only those are exponentiated."""
        if self.known is None or self._is_changed(head):
            return super().block_maxima(batch, head, rows, keys, width)
        scores = self._hide(self._scores(batch, head, rows, keys), -torch.inf, batch, rows, keys)
        return block_maxima(scores, width, -1).sub_(self.known[batch, head, rows, None]).exp_()

    def _is_changed(self, head: int) -> bool:
        return any(one.touches_head(head) for one in self.of_weights)

    def _scores(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """The model's own scores."""
        shared = self.n_heads // self.k.shape[1]  # grouped queries: Ainslie et al. 2023
        q, k = self.q[batch, head, rows] * self.scale, self.k[batch, head // shared, keys]
        scores = q @ k.T
        return scores if self.bias is None else scores + self.bias.part(batch, head, rows, keys)

    def _whole_rows(self, batch: int, head: int, rows: slice) -> Float[Tensor, "query key"]:
        """The model's own weights; keys that none of the rows sees are not computed, and log-sum-exps are noted."""
        reach = slice(0, max(1, self.mask.visible_range(rows, self.n_queries, self.n_keys).stop))
        scores = self._hide(self._scores(batch, head, rows, reach), -torch.inf, batch, rows, reach)
        highest = scores.amax(-1)
        blind = highest == -torch.inf
        weights = self._hide(torch.softmax(scores, -1, out=scores), 0.0, batch, rows, reach)
        if bool(blind.any()):
            weights.masked_fill_(blind[:, None], 0.0)
        sums = highest - weights.amax(-1).log_()
        sums.masked_fill_(highest < torch.finfo(highest.dtype).min / 2, torch.nan)  # too large to hold a sum
        self._log_sums[batch, head, rows] = sums.masked_fill_(blind, torch.inf)  # whose exponentials are 0
        return F.pad(weights, (0, self.n_keys - reach.stop)) if reach.stop < self.n_keys else weights

    def _changed_rows(self, batch: int, head: int, rows: slice) -> Float[Tensor, "query key"]:
        """All weights of `rows` under the interventions; rows that none names are the model's own."""
        visible, region = self.visible(batch, rows), self._region(batch, head, rows)
        scores = self._scores(batch, head, rows, slice(0, self.n_keys))[None, None]
        seen = None if visible is None else visible.to(scores.device)[None, None]
        found = changed_weights(scores, seen, self.of_weights, region)[0, 0]
        touched = selected_by_any(self.of_weights, region, len(found), found.device)[0, 0]
        return found if bool(touched.all()) else torch.where(touched, found, self._whole_rows(batch, head, rows))

    def _region(self, batch: int, head: int, rows: slice) -> Region:
        n_rows = self.n_queries if self.first_row is None else None
        return Region((head,), rows.start + (self.first_row or 0), n_rows, batch)

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
class Weights(_Source):
    """Attention weights that are kept as they are: small (a recurrent decoder's), or all that a model gives away.

    `mask` says who could see whom, where that is known; `notes` what one has to know of them.
    """

    values: Float[Tensor, "batch head query key"]
    mask: Mask | None = None
    notes: tuple[str, ...] = ()
    score_quantity: ClassVar[Quantity] = Quantity.LOG_WEIGHT
    interventions: ClassVar[tuple[Intervention, ...]] = ()

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
    def sizes(self) -> tuple[int, ...]:
        """Batch elements, heads, queries, keys."""
        return self.values.shape

    @property
    def kept_bytes(self) -> int:
        """Memory that the record holds on to."""
        return self.values.nbytes

    def scores(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """Natural logarithms of the weights: the scores up to a constant a row, which the softmax does not see."""
        return self.weights(batch, head, rows, keys).log()

    def weights(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """The kept weights."""
        return self.values[batch, head, rows, keys]

    def of_heads(self, batch: int, heads: range) -> Float[Tensor, "head query key"]:
        """The kept weights of several heads."""
        return self.values[batch, list(heads)]


SoftmaxInputs = AttentionInputs | Weights
"""What a record keeps of one attention."""


def every_weight(source: SoftmaxInputs, heads: Sequence[int] | None = None) -> Float[Tensor, "batch head query key"]:
    """All weights of all (or some) heads and all batch elements. O(batch x head x query x key)."""
    rows, keys = slice(0, source.n_queries), slice(0, source.n_keys)
    heads = range(source.n_heads) if heads is None else heads
    parts = [torch.stack([source.weights(i, head, rows, keys) for head in heads]) for i in range(source.n_sentences)]
    return torch.stack(parts)


def with_changes(
    here: tuple[Intervention, ...],
    first: int | None,
    kept: Callable[[], AttentionInputs],
    v: Float[Tensor, "batch key_head key d_v"],
    output: Float[Tensor, "batch head query d_v"],
    means: Float[Tensor, "head d_v"] | None = None,
) -> Float[Tensor, "batch head query d_v"]:
    """What heads give on under some interventions of their site; `first` is the first query's row, None if all run.

    `kept` makes the inputs of the softmax; it is asked only where weights change. `means` are the heads' mean outputs.

    Raises:
        InputError: an intervention does not fit the site.
    """
    n_heads, n_queries = output.shape[1:3]
    check_positions(here, n_heads, n_queries, v.shape[2])
    heads = [head for head in range(n_heads) if any(one.touches_head(head) for one in here if one.action in OF_WEIGHTS)]
    if heads:
        source = replace(kept(), interventions=here, first_row=first)
        tables = every_weight(source, heads).unbind(1)
        shared = n_heads // v.shape[1]  # with fewer values than heads, neighbours share (Ainslie et al. 2023)
        mixed = torch.stack([table @ v[:, head // shared] for table, head in zip(tables, heads, strict=True)], dim=1)
        rows = selected_by_any(source.of_weights, Region.of_run(heads, n_queries, first), n_queries, output.device)
        output = output.clone()
        output[:, heads] = torch.where(rows, mixed, output[:, heads])
    return changed_outputs(output, here, Region.of_run(range(n_heads), n_queries, first), means)


def changed_given(
    here: tuple[Intervention, ...],
    first: int | None,
    used: Float[Tensor, "batch head query key"],
    sink: Float[Tensor, "batch head query 1"] | None = None,
) -> Float[Tensor, "batch head query key"]:
    """Weights that are written out, under interventions; the very same tensor where none names a head and row of it.

    `sink` are the weights of an attention sink, which is no key.

    Raises:
        InputError: an intervention does not fit.
    """
    n_heads, n_queries, n_keys = used.shape[1:]
    check_positions(here, n_heads, n_queries, n_keys)
    mine = tuple(one for one in here if one.action in OF_WEIGHTS)
    region = Region.of_run(range(n_heads), n_queries, first)
    rows = selected_by_any(mine, region, n_queries, used.device)
    if not bool(rows.any()):
        return used
    found = changed_weights(used.log(), used > 0, mine, region, None if sink is None else sink.log())
    return torch.where(rows, found, used)
