"""How much each attention weight would move a score, in proportion to its size: A' = max(0, A * dy/dA), mean of heads.

The slope of a weight is the slope of what its row mixes, times the value that it weighs, so no table of weights has to
be in the graph, and fused attention serves. Source: Chefer et al. 2021, "Generic Attention-model Explainability",
equation 5.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attention.capture import Recording, recording, watch
from transformer.errors import NotDefinedError
from transformer.messages import Message
from transformer.nn.protocols import Watchable
from transformer.sites import Site

Slopes = dict[Site, list[Float[Tensor, "row query key"]]]
"""A' of each site, once a run of it: one run, or of a recurrent decoder one a step, of one query."""


@torch.inference_mode(mode=False)
def attention_gradients(name: str, model: Any, scored: Callable[[], Float[Tensor, " row"]]) -> Slopes:
    """A' of every attention that runs in `scored`, which gives a score for each row of a batch of one input.

    Raises:
        AttributionError: attention is given away without the values that it mixes, or none runs.
    """
    if isinstance(model, Watchable):
        watch(model)
    with recording(mixing=True) as seen, torch.enable_grad():
        asked = scored().sum()
    if not seen.sites or not all(seen.mixed(site) for site in seen.sites):
        raise NotDefinedError("attribution_not_followed", name=name, reason=Message("follow_no_values"))
    outputs = [one.output for site in seen.sites for one in seen.mixed(site)]
    if asked.requires_grad:
        moved = list(torch.autograd.grad(asked, outputs, allow_unused=True, materialize_grads=True))
    else:  # a forced token is certain, whatever was read
        moved = [torch.zeros_like(output) for output in outputs]
    return {site: [_kept(seen, site, i, moved.pop(0)) for i in range(len(seen.mixed(site)))] for site in seen.sites}


def _kept(
    seen: Recording, site: Site, number: int, slope: Float[Tensor, "row head query d_v"]
) -> Float[Tensor, "row query key"]:
    """A' of one run of a site, from the slopes of what its heads gave on; every row of the batch read the same."""
    values, source = seen.mixed(site)[number].values[0], seen.source(site)
    values = values.repeat_interleave(source.n_heads // len(values), dim=0)
    n_queries = slope.shape[2]
    rows, keys = slice(number * n_queries, (number + 1) * n_queries), slice(0, source.n_keys)
    weights = torch.stack([source.weights(0, head, rows, keys) for head in range(source.n_heads)]).detach()
    return (slope @ values.mT).mul_(weights).clamp_(min=0).mean(1).double()
