"""Running and recording attention that is changed: what its heads give on, and what is kept of it.

The fused attention runs as ever. Only at a site with interventions are weights computed, of the heads that they name,
and only the rows that they name get another output: everything else keeps its bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.attention.interventions.active import asked_at
from transformer.attention.interventions.edits import (
    OF_WEIGHTS,
    Place,
    changed_outputs,
    changed_scores,
    changed_weights,
    check_positions,
    selected,
)
from transformer.attention.interventions.value import Intervention
from transformer.attention.softmax_inputs import AttentionInputs, Weights, block_maxima, row_groups
from transformer.nn.attention import DotProductAttention
from transformer.nn.recurrent_attention import SourceStates
from transformer.nn.run_context import run_context
from transformer.sites import Site


@dataclass(frozen=True, eq=False)
class ChangedAttentionInputs(AttentionInputs):
    """The inputs of one softmax and what was changed of it: weights are computed when asked for, and then changed.

    Its mask is the model's own: what is knocked out is no part of it. `first_row` is the row of the whole map that the
    first query stands for; None where these are all rows.
    """

    interventions: tuple[Intervention, ...] = ()
    first_row: int | None = None

    @classmethod
    def of(
        cls, base: AttentionInputs, interventions: tuple[Intervention, ...], first_row: int | None = None
    ) -> "ChangedAttentionInputs":
        """The inputs of a softmax, under some interventions."""
        return cls(base.q, base.k, base.mask, base.scale, base.bias, base.known, interventions, first_row)

    @cached_property
    def base(self) -> AttentionInputs:
        """What the softmax would be without the interventions."""
        return AttentionInputs(self.q, self.k, self.mask, self.scale, self.bias, self.known)

    @cached_property
    def of_weights(self) -> tuple[Intervention, ...]:
        """The interventions that change weights, and not only what is made of them."""
        return tuple(one for one in self.interventions if one.action in OF_WEIGHTS)

    def scores(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """Scaled dot products and the bias, under temperatures, before the mask and what is knocked out."""
        found = self.base.scores(batch, head, rows, keys)
        return changed_scores(found[None, None], self.interventions, self._place(batch, head, rows))[0, 0]

    def weights(self, batch: int, head: int, rows: slice, keys: slice) -> Float[Tensor, "query key"]:
        """The weights that the run used; those of a head that no intervention names are the model's own."""
        if not any(one.touches_head(head) for one in self.of_weights):
            return self.base.weights(batch, head, rows, keys)
        parts = [self._changed_rows(batch, head, part)[:, keys].contiguous() for part in row_groups(rows)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def block_maxima(self, batch: int, head: int, rows: slice, keys: slice, width: int) -> Float[Tensor, "query block"]:
        """The largest weight of each `width` of `keys`."""
        if not any(one.touches_head(head) for one in self.of_weights):
            return self.base.block_maxima(batch, head, rows, keys, width)
        return block_maxima(self.weights(batch, head, rows, keys), width, -1)

    def _changed_rows(self, batch: int, head: int, rows: slice) -> Float[Tensor, "query key"]:
        every = slice(0, self.n_keys)
        visible = self.visible(batch, rows)
        place = self._place(batch, head, rows)
        scores = self.base.scores(batch, head, rows, every)[None, None]
        seen = None if visible is None else visible.to(scores.device)[None, None]
        found = changed_weights(scores, seen, self.of_weights, place)[0, 0]
        touched = torch.stack([selected(one, place, len(found), found.device)[0, 0] for one in self.of_weights]).any(0)
        return (
            found if bool(touched.all()) else torch.where(touched, found, self.base.weights(batch, head, rows, every))
        )

    def _place(self, batch: int, head: int, rows: slice) -> Place:
        n_rows = self.n_queries if self.first_row is None else None
        return Place((head,), rows.start + (self.first_row or 0), n_rows, batch)


SoftmaxInputs = AttentionInputs | Weights
"""What a record keeps of one attention."""


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
    n_rows = n_queries if first is None else None
    heads = tuple(h for h in range(n_heads) if any(one.touches_head(h) for one in here if one.action in OF_WEIGHTS))
    if heads:
        place = Place(heads, first or 0, n_rows)
        source = ChangedAttentionInputs.of(kept(), here, first)
        mixed = torch.stack([_every_weight(source, head) @ v[:, _shared(head, n_heads, v)] for head in heads], dim=1)
        rows = [selected(one, place, n_queries, output.device) for one in source.of_weights]
        picked = list(heads)
        output = output.clone()
        output[:, picked] = torch.where(torch.stack(rows).any(0), mixed, output[:, picked])
    return changed_outputs(output, here, Place(tuple(range(n_heads)), first or 0, n_rows), means)


def kept_inputs(site: Site, base: AttentionInputs) -> AttentionInputs:
    """What a record keeps of one softmax: its inputs, with the caller's interventions at this site if there are any."""
    here = asked_at(site)
    return ChangedAttentionInputs.of(base, here, _first_row(site)) if here else base


def changed_output(
    site: Site, module: nn.Module, inputs: tuple[Any, ...], output: Any, means: Float[Tensor, "head d_v"] | None
) -> Any:
    """What one of our attention modules gives on under the caller's interventions; `output` itself without any.

    Raises:
        InputError: an intervention does not fit the site.
    """
    here = asked_at(site)
    if not here:
        return output
    if isinstance(module, DotProductAttention):
        q, k, v, mask = inputs
        return with_changes(here, _first_row(site), lambda: AttentionInputs(q, k, mask, module.scale), v, output, means)
    return _changed_step(here, _first_row(site), inputs[2], output, means)


def _changed_step(
    here: tuple[Intervention, ...],
    first: int | None,
    source: SourceStates,
    output: tuple[Tensor, Tensor],
    means: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """One step of a recurrent decoder's attention: one head, one row, weights that are there already."""
    mixed, weights = output
    check_positions(here, 1, 1, weights.shape[3])
    place = Place((0,), first or 0)
    of_weights = tuple(one for one in here if one.action in OF_WEIGHTS)
    rows = [selected(one, place, 1, weights.device) for one in of_weights]
    if rows and bool(torch.stack(rows).any()):
        visible = None if source.real is None else source.real[:, None, None]
        weights = changed_weights(weights.log(), visible, of_weights, place)
        mixed = torch.bmm(weights[:, 0], source.states)[:, 0]
    return changed_outputs(mixed[:, None, None], here, place, means)[:, 0, 0], weights


def _first_row(site: Site) -> int | None:
    """Where the first query stands; only a decoder writes row by row."""
    return run_context().position_offset if site.stack == "decoder" else None


def _every_weight(source: ChangedAttentionInputs, head: int) -> Float[Tensor, "batch query key"]:
    rows, keys = slice(0, source.n_queries), slice(0, source.n_keys)
    return torch.stack([source.weights(batch, head, rows, keys) for batch in range(source.n_sentences)])


def _shared(head: int, n_heads: int, v: Tensor) -> int:
    """Which values a head reads: with fewer of them than heads, neighbours share (Ainslie et al. 2023)."""
    return head // (n_heads // v.shape[1])
