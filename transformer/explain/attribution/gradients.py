"""Gradient x attention: which attention weights the written token's logit rests on, passed on through the layers.

For one logit y_t: A' = mean over heads of max(0, A * dy_t/dA). Relevance starts as the identity and grows with each
layer: encoder R_ee += A' R_ee; decoder self R_dd += A' R_dd and R_de += A' R_de; cross R_de += A' N(R_ee), where N
makes the rows of R - I sum to 1 and puts I back. Row t is read. Source: Chefer et al. 2021, "Generic Attention-model
Explainability", rules 5 to 11. Their rule 10 also multiplies by the transposed N(R_dd) from the left, which in a
causal decoder would let row t receive from later rows.

A decoder alone has R_dd only. A recurrent decoder has one cross-attention and none among its own positions, so R_ee and
R_dd stay the identity and the rule is A' itself, of step t's look: what earlier looks left in the state passes through
no attention, and is not followed.

Each step is one element of a batch, and of the products of tables only row t is computed.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ...attention.capture import Recording, recording, watch
from ...errors import NotDefinedError
from ...messages import Message
from ...nn.protocols import Watchable
from ...plots.picture import Quantity
from ...sites import Site
from .deletion import Progress, untold
from .layers import CROSS, DECODER, ENCODER
from .result import Attribution, ScoredSequence, answer

CELLS_AT_ONCE = 2_000_000
"""Slopes of weights, of all layers together, and scores of tokens that are held at one time."""

Kept = dict[str, list[Float[Tensor, "step query key"]]]
"""A' of each group of sites, layer after layer (of a recurrent decoder step after step), for some steps."""


@torch.inference_mode(mode=False)
def gradients(sequence: ScoredSequence, progress: Progress = untold) -> Attribution:
    """Relevance of each source token and each token of the prefix for each written token's logit.

    Not negative; of no fixed sum. Of a recurrent decoder it speaks of the source alone. Costs a forward and a backward
    pass a step, in batches; memory is that of `CELLS_AT_ONCE` numbers (of one step's, where these are more) and of the
    runs that they belong to.

    Raises:
        AttributionError: the model's attention is given away without the values that it mixes.
    """
    n_target, size, done, found = len(sequence.read_ids), 1, 0, list[Tensor]()
    while done < n_target:
        steps = torch.arange(done, min(done + size, n_target))
        kept, cells = _kept(sequence, steps)
        recurrent = not kept[DECODER]
        if recurrent:  # of each step its own look at the source
            found.append(torch.stack([kept[CROSS][step][i, 0] for i, step in enumerate(steps.tolist())]))
        else:
            found.append(_relevance(kept, steps))
        size = max(1, CELLS_AT_ONCE * len(steps) // cells)
        done += len(steps)
        progress(done / n_target)
    notes = [Message("note_gradients")] + [Message("note_gradients_recurrent")] * recurrent
    values = torch.cat(found)[:, : len(sequence.source) if recurrent else None]  # past its end values are zero
    return answer(sequence, "gradients", values.numpy(), Quantity.RELEVANCE, notes)


def _kept(sequence: ScoredSequence, steps: Tensor) -> tuple[Kept, int]:
    """A' of every attention for some steps, one step's logit a row of the batch; and how many numbers that took.

    The slope of a weight is the slope of what its row mixes, times the value that it weighs, so no table of weights has
    to be in the graph, and fused attention serves.

    Raises:
        AttributionError: attention is given away without the values that it mixes, or none runs.
    """
    inputs = [torch.tensor([ids]).expand(len(steps), -1) for ids in (sequence.source_ids, sequence.read_ids) if ids]
    written = torch.tensor(sequence.written_ids)[steps]
    if isinstance(sequence.model, Watchable):
        watch(sequence.model)
    with recording(mixing=True) as seen, torch.enable_grad():
        logits: Tensor = sequence.model(*inputs)
        asked = logits[torch.arange(len(steps)), steps, written].sum()
    if not seen.sites or not all(seen.mixed(site) for site in seen.sites):
        raise NotDefinedError("attribution_not_followed", name=sequence.name, reason=Message("follow_no_values"))
    outputs = [one.output for site in seen.sites for one in seen.mixed(site)]
    by_output = [torch.zeros_like(output) for output in outputs]
    if asked.requires_grad:  # a forced token is certain, whatever was read
        by_output = list(torch.autograd.grad(asked, outputs, allow_unused=True, materialize_grads=True))
    kept: Kept = {ENCODER: [], DECODER: [], CROSS: []}
    cells = logits.numel()
    for site in seen.sites:
        for number in range(len(seen.mixed(site))):
            table = _weighed(seen, site, number, by_output.pop(0))
            kept[site.group if sequence.source_ids else DECODER].append(table)
            cells += table.numel()
    return kept, cells


def _weighed(
    seen: Recording, site: Site, number: int, slope: Float[Tensor, "row head query d_v"]
) -> Float[Tensor, "row query key"]:
    """A' of one run of a site, from the slopes of what its heads gave on; every row of the batch read the same."""
    values, source = seen.mixed(site)[number].values[0], seen.source(site)
    values = values.repeat_interleave(source.n_heads // len(values), dim=0)
    n_queries = slope.shape[2]
    rows, keys = slice(number * n_queries, (number + 1) * n_queries), slice(0, source.n_keys)
    weights = torch.stack([source.weights(0, head, rows, keys) for head in range(source.n_heads)]).detach()
    return (slope @ values.mT).mul_(weights).clamp_(min=0).mean(1).double()


def _relevance(kept: Kept, steps: Tensor) -> Float[Tensor, "step part"]:
    """Row t of the relevances of step t, for some steps."""
    encoder, own, cross = kept[ENCODER], kept[DECODER], kept[CROSS]
    count, n_target = len(steps), own[0].shape[1]
    start = torch.zeros(count, 1, n_target, dtype=torch.float64)
    start[torch.arange(count), 0, steps] = 1.0
    grown = torch.zeros_like(start)  # start @ ((I + A_L) ... (I + A_1) - I), from the last layer on
    taken = start.new_zeros(count, 1, cross[0].shape[2] if cross else 0)
    for number in reversed(range(len(own))):
        row = start + grown
        if cross:
            taken = taken + row @ cross[number]
        grown = grown + row @ own[number]
    return torch.cat([_normalised(encoder, taken), grown], dim=2)[:, 0]


def _normalised(
    layers: list[Float[Tensor, "step position position"]], row: Float[Tensor, "step 1 position"]
) -> Float[Tensor, "step 1 position"]:
    """row @ N(R): N makes the rows of R - I sum to 1 and puts I back; a row that received nothing is the identity's."""
    ones = torch.ones(1, row.shape[2], 1, dtype=torch.float64)
    sums = torch.zeros_like(ones)  # of the rows of R - I, where R = (I + A_L) ... (I + A_1)
    for table in layers:
        sums = sums + table @ (ones + sums)
    shared = row / sums.masked_fill(sums == 0, 1.0).mT
    grown = torch.zeros_like(row)
    for table in reversed(layers):
        grown = grown + (shared + grown) @ table
    return grown + row
