"""Interventions on attention that a module writes out itself."""

from dataclasses import replace

import torch
from torch import Tensor

from transformer.attention.interventions.edits import (
    OF_WEIGHTS,
    Place,
    changed_outputs,
    changed_weights,
    check_positions,
    selected,
)
from transformer.attention.interventions.value import Donor, Intervention
from transformer.attention.recording.mixing import Layout
from transformer.errors import RecordError


def of_one_head(one: Intervention, head: int) -> Intervention:
    """An intervention on a map of several heads as that on the module that is this head alone."""
    value = one.value
    if isinstance(value, Donor):
        parts = (
            {site: part[:, head : head + 1] if site == one.place else part for site, part in given.items()}
            for given in (value.weights, value.outputs)
        )
        value = Donor(value.name, *parts)
    return replace(one, heads=(0,), value=value)


def acted_on_weights(
    here: tuple[Intervention, ...], first: int | None, used: Tensor, whole: Tensor | None, sink: str
) -> Tensor:
    """The weights under interventions; the very same tensor where none names a head and row of it.

    `whole` are the weights with the column of an attention sink, which is the `first` or `last`.

    Raises:
        InputError: an intervention does not fit.
    """
    n_heads, n_queries, n_keys = used.shape[1:]
    check_positions(here, n_heads, n_queries, n_keys)
    mine = tuple(one for one in here if one.action in OF_WEIGHTS)
    place = Place(tuple(range(n_heads)), first or 0, n_queries if first is None else None)
    rows = [selected(one, place, n_queries, used.device) for one in mine]
    if not rows or not bool(torch.stack(rows).any()):
        return used
    rest = None if whole is None else whole[..., :1] if sink == "first" else whole[..., -1:]
    found = changed_weights(used.log(), used > 0, mine, place, None if rest is None else rest.log())
    return torch.where(torch.stack(rows).any(0), found, used)


def acted_on_output(
    here: tuple[Intervention, ...], first: int | None, result: Tensor, out: Layout | None, used: Tensor
) -> Tensor:
    """What the heads give on under interventions that replace it; `out` is its layout.

    Raises:
        RecordError: the heads are summed over, so that none can be replaced alone.
    """
    if not any(one.action not in OF_WEIGHTS for one in here):
        return result
    if out is None:
        raise RecordError("heads_are_summed", site=here[0].site)
    place = Place(tuple(range(used.shape[1])), first or 0, used.shape[2] if first is None else None)
    arranged = out.arranged(result)
    changed = changed_outputs(arranged, here, place)
    return result if changed is arranged else out.restored(changed, result.shape)
