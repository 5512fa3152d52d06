"""What the caller has asked for, and the arithmetic: what it makes of scores, of weights and of head outputs.

What is asked belongs to the caller's context (a thread or a task), and nothing stays behind.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from ...errors import InputError
from ...messages import Message
from ...nn.common import changed_context, run_context
from ...nn.masks import masked_softmax
from ...sites import Site
from .value import OF_OUTPUTS, OF_ROWS, Donor, Intervention


@dataclass
class Active:
    """The interventions of one caller, by site; `ran` are the sites that have run meanwhile."""

    interventions: tuple[Intervention, ...]
    ran: set[Site] = field(default_factory=set)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Sites that are changed."""
        return tuple(dict.fromkeys(Site(one.site) for one in self.interventions))

    def at(self, site: Site) -> tuple[Intervention, ...]:
        """What is done at a site, which runs now."""
        self.ran.add(site)
        return tuple(one for one in self.interventions if one.site == site)


@contextmanager
def intervening(interventions: Intervention | Iterable[Intervention]) -> Iterator[None]:
    """Change the attention of every watched model that this thread runs inside the block.

    Models that `load` returns are watched already; a module of your own runs inside `recording(module)` as well. Sites
    that are not named keep the fused attention, and heads and rows that are not named their exact output. An inner
    block takes over, so an empty one runs unchanged; other threads do not notice, and nothing stays behind, also after
    an exception.

    Raises:
        InputError: at the end, where no watched model ran, or one that has no such site. An exception of the block
            goes on instead, with a note where no watched model ran.
    """
    every = (interventions,) if isinstance(interventions, Intervention) else tuple(interventions)
    active = Active(every) if every else None
    with changed_context(interventions=active):
        try:
            yield
        except Exception as error:
            if active is not None and not active.ran:
                error.add_note(Message("nothing_watched_ran"))
            raise
    if active is not None:
        if not active.ran:
            raise InputError("nothing_watched_ran")
        refuse_unknown_sites(active.sites, active.ran)


def refuse_unknown_sites(sites: Iterable[Site], known: Iterable[Site]) -> None:
    """Refuse interventions at sites that a model does not have.

    Raises:
        InputError: names the first of them, and those that there are.
    """
    known = set(known)
    for site in sites:
        if site not in known:
            raise InputError("site_not_in_model", site=site, sites=tuple(sorted(known)))


def active() -> Active | None:
    """What the caller has asked for; None where nothing is changed."""
    found: Active | None = run_context().interventions
    return found


def asked_at(site: Site) -> tuple[Intervention, ...]:
    """What the caller has asked for at a site, which runs now."""
    found = active()
    return () if found is None else found.at(site)


def interventions() -> tuple[Intervention, ...]:
    """The interventions of the caller, in order."""
    found = active()
    return () if found is None else found.interventions


@dataclass(frozen=True)
class Region:
    """Which part of a whole map a tensor (batch, head, query, key) holds: its heads, its first row, its sentences.

    `sentence` is the only one of the batch that it holds, None if it holds all. `n_rows` counts the rows of the whole;
    None where it is not known yet, since they are written one by one.
    """

    heads: tuple[int, ...]
    first_row: int = 0
    n_rows: int | None = None
    sentence: int | None = None

    @classmethod
    def of_run(cls, heads: Iterable[int], n_queries: int, first: int | None) -> "Region":
        """All rows of a run, which are all of the map, or those from `first` on of one that is written step by step."""
        return cls(tuple(heads), first or 0, n_queries if first is None else None)


Selected = Bool[Tensor, "1 head query 1"]


def selected(one: Intervention, region: Region, n_queries: int, device: torch.device) -> Selected:
    """True at the heads and rows of the region that an intervention names."""
    heads = torch.tensor([one.touches_head(head) for head in region.heads], device=device)
    rows = torch.ones(n_queries, dtype=torch.bool, device=device)
    if one.queries is not None:
        wanted = set(one.queries)
        rows = torch.tensor([region.first_row + i in wanted for i in range(n_queries)], device=device)
    return (heads[:, None] & rows)[None, :, :, None]


def selected_by_any(
    interventions: Sequence[Intervention], region: Region, n_queries: int, device: torch.device
) -> Selected:
    """True at the heads and rows of the region that at least one intervention names."""
    none = torch.zeros(1, len(region.heads), n_queries, 1, dtype=torch.bool, device=device)
    return torch.stack([none, *(selected(one, region, n_queries, device) for one in interventions)]).any(0)


def changed_scores(
    scores: Float[Tensor, "batch head query key"], interventions: Sequence[Intervention], region: Region
) -> Float[Tensor, "batch head query key"]:
    """Scores under temperatures; knock-outs are a matter of the mask, and leave them as they are."""
    for one in interventions:
        if one.action == "temperature":
            softer = scores / cast(float, one.value)
            scores = torch.where(selected(one, region, scores.shape[2], scores.device), softer, scores)
    return scores


def changed_weights(
    scores: Float[Tensor, "batch head query key"],
    visible: Bool[Tensor, "#batch #head #query key"] | None,
    interventions: Sequence[Intervention],
    region: Region,
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
    left = sees = sees & (scores != -torch.inf)  # a bias may hide keys from some of the heads
    scores = changed_scores(scores, interventions, region)
    for one in interventions:
        if one.action == "knock_out":
            left = left & ~(selected(one, region, n_queries, device) & _keys(one, n_keys, device))
    weights = masked_softmax(scores, left, None if sink is None else changed_scores(sink, interventions, region))
    for one in interventions:
        if one.action in OF_ROWS and bool((rows := selected(one, region, n_queries, device)).any()):
            weights = torch.where(rows, _replaced(one, rows, scores, sees, left, region), weights)
    for one in interventions:
        if one.action == "cut":
            cells = selected(one, region, n_queries, device) & _keys(one, n_keys, device)
            weights = weights.masked_fill(cells, 0.0)
    return weights


def changed_outputs(
    outputs: Float[Tensor, "batch head query d_v"],
    interventions: Sequence[Intervention],
    region: Region,
    means: Float[Tensor, "head d_v"] | None = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Head outputs under the interventions that replace them; `means` are those of all heads of the site, if known.

    Raises:
        InputError: there is no mean of this head, or it or a donor is of another size.
    """
    n_queries = outputs.shape[2]
    for one in interventions:
        if one.action in OF_OUTPUTS and bool((rows := selected(one, region, n_queries, outputs.device)).any()):
            outputs = torch.where(rows, _replacement(one, outputs, rows, region, means), outputs)
    return outputs


def _keys(one: Intervention, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 1 key"]:
    """True at the keys that an intervention names; those that are not there yet are left out."""
    if one.keys is None:
        return torch.ones(1, 1, 1, n_keys, dtype=torch.bool, device=device)
    wanted = set(one.keys)
    return torch.tensor([i in wanted for i in range(n_keys)], device=device)[None, None, None]


def _replaced(
    one: Intervention, rows: Selected, scores: Tensor, sees: Tensor, left: Tensor, region: Region
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
    given = _donated(one, donor.weights, rows, region, scores.shape[0])
    found = given.shape[3]
    if found != n_keys and Site(one.site).group != "decoder.self":  # whose row t sees no key past t in any run
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


def _replacement(one: Intervention, outputs: Tensor, rows: Selected, region: Region, means: Tensor | None) -> Tensor:
    """What one intervention puts in the place of head outputs, of any shape that broadcasts."""
    if one.action == "zero":
        return torch.zeros_like(outputs)
    if one.action == "patch_output":
        return _donated(one, cast(Donor, one.value).outputs, rows, region, outputs.shape[0]).to(outputs)
    needed = outputs.shape[3]
    if one.value is not None:
        given = cast(tuple[float, ...], one.value)
        if len(given) != needed:
            raise InputError("mean_of_other_size", site=one.site, found=len(given), needed=needed)
        return torch.tensor(given, dtype=torch.float64).to(outputs)[None, None, None]
    if means is None:
        raise InputError("no_mean_outputs", site=one.site)
    n_heads, size = means.shape
    if max(region.heads) >= n_heads or size != needed:
        raise InputError("mean_of_another_model", site=one.site, heads=n_heads, found=size)
    return means[list(region.heads)].to(outputs)[None, :, None]


def _donated(
    one: Intervention, given: Mapping[Site, Tensor], rows: Selected, region: Region, n_batch: int
) -> Float[Tensor, "#batch head query _"]:
    """What a donor has for this region, of which `rows` are asked for; zeros at rows that it lacks.

    Raises:
        InputError: it lacks the site, heads or sentences that are asked for, or its rows do not stand for these.
    """
    donor = cast(Donor, one.value).name
    tensor = given.get(Site(one.site))
    if tensor is None:
        raise InputError("donor_without_site", site=one.site, donor=donor)
    if region.sentence is not None and tensor.shape[0] > 1:
        tensor = tensor[region.sentence : region.sentence + 1]
    if tensor.shape[0] not in (1, n_batch):
        raise InputError("donor_has_other_sentences", donor=donor, found=tensor.shape[0], needed=n_batch)
    if max(region.heads) >= tensor.shape[1]:
        raise InputError("donor_has_other_heads", site=one.site, donor=donor, found=tensor.shape[1])
    found, n_queries = tensor.shape[2], rows.shape[2]
    all_rows = region.n_rows if one.queries is None else None
    needed = all_rows or region.first_row + int(rows.any(1).flatten().nonzero().max()) + 1
    if needed > found or (all_rows is not None and needed < found):
        raise InputError("donor_has_other_rows", site=one.site, donor=donor, found=found, needed=needed)
    here = tensor[:, list(region.heads), region.first_row : region.first_row + n_queries]
    return F.pad(here, (0, 0, 0, n_queries - here.shape[2]))


def check_positions(interventions: Sequence[Intervention], n_heads: int, n_queries: int, n_keys: int) -> None:
    """Refuse heads and positions that a whole map does not have.

    A decoder's rows, and the keys of its self-attention, are there only once they are written: those are not refused.
    Nor are those of a text that goes on.

    Raises:
        InputError: names the site, the position and the last one that there is.
    """
    is_streaming = run_context().is_streaming
    for one in interventions:
        site = Site(one.site)
        written = site.stack == "decoder" or is_streaming
        bounds = [("heads", one.heads, n_heads)]
        bounds += [] if written else [("queries", one.queries, n_queries)]
        bounds += [] if written and (site.kind == "self" or is_streaming) else [("keys", one.keys, n_keys)]
        for name, positions, count in bounds:
            if positions is not None and positions[-1] >= count:
                raise InputError("past_the_site", name=name, site=one.site, position=positions[-1], last=count - 1)
