"""The arithmetic: what interventions make of scores, of weights and of head outputs. Pure functions of tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from transformer.attention.interventions.value import OF_CELLS, OF_OUTPUTS, OF_ROWS, Donor, Intervention
from transformer.errors import InputError
from transformer.nn.masks import masked_softmax
from transformer.nn.run_context import run_context
from transformer.sites import Site

OF_WEIGHTS = OF_CELLS | OF_ROWS | {"temperature"}


@dataclass(frozen=True)
class Place:
    """Which part of a whole map a tensor (batch, head, query, key) holds: its heads, its first row, its sentences.

    `sentence` is the only one of the batch that it holds, None if it holds all. `n_rows` counts the rows of the whole;
    None where it is not known yet, since they are written one by one.
    """

    heads: tuple[int, ...]
    first_row: int = 0
    n_rows: int | None = None
    sentence: int | None = None


Selected = Bool[Tensor, "1 head query 1"]


def selected(one: Intervention, place: Place, n_queries: int, device: torch.device) -> Selected:
    """True at the heads and rows of the place that an intervention names."""
    heads = torch.tensor([one.touches_head(head) for head in place.heads], device=device)
    rows = torch.ones(n_queries, dtype=torch.bool, device=device)
    if one.queries is not None:
        wanted = set(one.queries)
        rows = torch.tensor([place.first_row + i in wanted for i in range(n_queries)], device=device)
    return (heads[:, None] & rows)[None, :, :, None]


def changed_scores(
    scores: Float[Tensor, "batch head query key"], interventions: Sequence[Intervention], place: Place
) -> Float[Tensor, "batch head query key"]:
    """Scores under temperatures; knock-outs are a matter of the mask, and leave them as they are."""
    for one in interventions:
        if one.action == "temperature":
            softer = scores / cast(float, one.value)
            scores = torch.where(selected(one, place, scores.shape[2], scores.device), softer, scores)
    return scores


def changed_weights(
    scores: Float[Tensor, "batch head query key"],
    visible: Bool[Tensor, "#batch #head #query key"] | None,
    interventions: Sequence[Intervention],
    place: Place,
    sink: Float[Tensor, "#batch #head query 1"] | None = None,
) -> Float[Tensor, "batch head query key"]:
    """The weights of a softmax over `scores` under the interventions; a row that sees nothing is all zeros.

    `sink` is one more score of each row, which takes its part of the softmax, under temperatures too, and is no key.

    Raises:
        InputError: a forced row looks at what it may not see, or a donor is of another size.
    """
    n_queries, n_keys = scores.shape[2:]
    device = scores.device
    sees = torch.ones(1, 1, 1, n_keys, dtype=torch.bool, device=device) if visible is None else visible.to(device)
    left = sees.expand(scores.shape)
    scores = changed_scores(scores, interventions, place)
    for one in interventions:
        if one.action == "knock_out":
            left = left & ~(selected(one, place, n_queries, device) & _keys(one, n_keys, device))
    sink = None if sink is None else changed_scores(sink, interventions, place)
    weights = masked_softmax(scores, left, sink)
    for one in interventions:
        if one.action in OF_ROWS:
            rows = selected(one, place, n_queries, device)
            if bool(rows.any()):
                weights = torch.where(rows, _replaced(one, rows, scores, sees, left, place), weights)
    for one in interventions:
        if one.action == "cut":
            cells = selected(one, place, n_queries, device) & _keys(one, n_keys, device)
            weights = weights.masked_fill(cells, 0.0)
    return weights


def changed_outputs(
    outputs: Float[Tensor, "batch head query d_v"],
    interventions: Sequence[Intervention],
    place: Place,
    means: Float[Tensor, "head d_v"] | None = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Head outputs under the interventions that replace them; `means` are those of all heads of the site, if known.

    Raises:
        InputError: there is no mean of this head, or it or a donor is of another size.
    """
    for one in interventions:
        if one.action in OF_OUTPUTS:
            rows = selected(one, place, outputs.shape[2], outputs.device)
            if bool(rows.any()):
                outputs = torch.where(rows, _replacement(one, outputs, rows, place, means), outputs)
    return outputs


def _keys(one: Intervention, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 1 key"]:
    """True at the keys that an intervention names; those that are not there yet are left out."""
    if one.keys is None:
        return torch.ones(1, 1, 1, n_keys, dtype=torch.bool, device=device)
    wanted = set(one.keys)
    return torch.tensor([i in wanted for i in range(n_keys)], device=device)[None, None, None]


def _replaced(
    one: Intervention, rows: Selected, scores: Tensor, sees: Tensor, left: Tensor, place: Place
) -> Float[Tensor, "#batch #head #query key"]:
    """The rows that one intervention puts in the place of others, of any shape that broadcasts."""
    n_keys = scores.shape[3]
    allowed = left & _keys(one, n_keys, scores.device)
    if one.action == "uniform":
        return allowed / allowed.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
    if one.action == "sharpest":
        best = scores.masked_fill(~allowed, -torch.inf).argmax(-1, keepdim=True)
        return torch.zeros_like(scores).scatter_(-1, best, 1.0).masked_fill(~allowed, 0.0)
    if one.action == "force":
        return _forced(one, rows, sees, n_keys, scores.dtype)
    donor = cast(Donor, one.value)
    given = _donated(one, donor.weights, rows, place, scores.shape[0])
    found = given.shape[3]
    if found != n_keys and one.place.group != "decoder.self":  # whose row t sees no key past t, however many there are
        raise InputError("donor_has_other_keys", site=one.site, donor=donor.name, found=found, needed=n_keys)
    return F.pad(given[..., :n_keys], (0, max(0, n_keys - found))).to(scores)


def _forced(one: Intervention, rows: Selected, sees: Tensor, n_keys: int, dtype: torch.dtype) -> Tensor:
    given = cast(tuple[float, ...], one.value)
    keys = range(len(given)) if one.keys is None else one.keys
    row = torch.zeros(n_keys, dtype=dtype, device=sees.device)
    for key, weight in zip(keys, given, strict=True):
        if weight and (key >= n_keys or bool((rows & ~sees[..., key : key + 1]).any())):
            raise InputError("forced_on_hidden", site=one.site, key=key)
        if weight:
            row[key] = weight
    return row[None, None, None]


def _replacement(one: Intervention, outputs: Tensor, rows: Selected, place: Place, means: Tensor | None) -> Tensor:
    """What one intervention puts in the place of head outputs, of any shape that broadcasts."""
    if one.action == "zero":
        return torch.zeros_like(outputs)
    if one.action == "mean":
        return _mean(one, outputs, place, means)
    return _donated(one, cast(Donor, one.value).outputs, rows, place, outputs.shape[0]).to(outputs)


def _mean(one: Intervention, outputs: Tensor, place: Place, means: Tensor | None) -> Float[Tensor, "1 #head 1 d_v"]:
    if one.value is None:
        if means is None:
            raise InputError("no_mean_outputs", site=one.site)
        most = max(head for head in place.heads)
        found = (int(means.shape[0]), int(means.shape[1]))
        if most >= found[0] or found[1] != outputs.shape[3]:
            raise InputError("mean_of_another_model", site=one.site, heads=found[0], found=found[1])
        vectors = means[list(place.heads)]
    else:
        given = cast(tuple[float, ...], one.value)
        if len(given) != outputs.shape[3]:
            raise InputError("mean_of_other_size", site=one.site, found=len(given), needed=outputs.shape[3])
        vectors = torch.tensor([given], dtype=torch.float64)
    return vectors.to(outputs)[None, :, None, :]


def _donated(
    one: Intervention, given: Mapping[Site, Tensor], rows: Selected, place: Place, n_batch: int
) -> Float[Tensor, "#batch head query _"]:
    """What a donor has for this place; zeros at rows that it lacks and nobody asks for.

    Raises:
        InputError: it lacks the site, heads or sentences that are asked for, or its rows do not stand for these.
    """
    donor = cast(Donor, one.value).name
    if one.place not in given:
        raise InputError("donor_without_site", site=one.site, donor=donor)
    tensor = given[one.place]
    if place.sentence is not None and tensor.shape[0] > 1:
        tensor = tensor[place.sentence : place.sentence + 1]
    if tensor.shape[0] not in (1, n_batch):
        raise InputError("donor_has_other_sentences", donor=donor, found=tensor.shape[0], needed=n_batch)
    if max(place.heads) >= tensor.shape[1]:
        raise InputError("donor_has_other_heads", site=one.site, donor=donor, found=tensor.shape[1])
    found, n_queries = tensor.shape[2], rows.shape[2]
    asked = rows.any(1).flatten().nonzero().flatten()
    needed = place.first_row + int(asked.max()) + 1 if len(asked) else 0
    if one.queries is None and place.n_rows is not None:
        needed = place.n_rows
        if needed != found:
            raise InputError("donor_has_other_rows", site=one.site, donor=donor, found=found, needed=needed)
    if needed > found:
        raise InputError("donor_has_other_rows", site=one.site, donor=donor, found=found, needed=needed)
    here = tensor[:, list(place.heads), place.first_row : place.first_row + n_queries]
    return F.pad(here, (0, 0, 0, n_queries - here.shape[2]))


def check_positions(interventions: Sequence[Intervention], n_heads: int, n_queries: int, n_keys: int) -> None:
    """Refuse heads and positions that a whole map does not have.

    A decoder's rows, and the keys of its self-attention, are there only once they are written: those are not refused.
    Nor are those of a text that goes on.

    Raises:
        InputError: names the site, the position and the last one that there is.
    """
    for one in interventions:
        is_streaming = run_context().is_streaming
        written = one.place.stack == "decoder" or is_streaming
        bounds = [("heads", one.heads, n_heads)]
        bounds += [] if written else [("queries", one.queries, n_queries)]
        bounds += [] if written and (one.place.kind == "self" or is_streaming) else [("keys", one.keys, n_keys)]
        for name, positions, count in bounds:
            if positions is not None and positions[-1] >= count:
                raise InputError("past_the_site", name=name, site=one.site, position=positions[-1], last=count - 1)
