"""Every map of a batch of ids in double precision, to hold against an original implementation."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from transformer.attention.capture import recording
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.changed import run_of

TokenIds = Tensor | np.ndarray | Sequence[int] | Sequence[Sequence[int]]
"""Token ids, (batch, position) or those of one sentence, in any of the usual containers."""


def attention_maps(
    checkpoint: Checkpoint,
    inputs: TokenIds,
    targets: TokenIds | None = None,
    dtype: torch.dtype = torch.float64,
) -> dict[str, np.ndarray]:
    """Every attention map and the output for a batch of token ids, to compare with an original implementation.

    `inputs` and `targets` are (batch, position), or the ids of one sentence.

    Returns `{site: array (batch, head, query, key)}` and the output under its own name: `log_probs` of a decoder
    (batch, target, vocab) in nats, `logits` of a classifier, `hidden` of an encoder.

    Raises:
        InputError: a decoder got no `targets`, or an id is not in the vocabulary.
    """
    with run_of(checkpoint), recording() as seen:
        model = copy.deepcopy(checkpoint.model).to(dtype)  # within the slot: many at once would be many copies
        output = model.outputs(*(token_ids(x) for x in (inputs, targets) if x is not None))
    batch = range(len(token_ids(inputs)))
    maps = {site: np.stack([seen.map(site, batch=row).all_weights() for row in batch]) for site in seen.sites}
    return maps | {name: value.numpy() for name, value in output.items()}


def token_ids(ids: TokenIds) -> Tensor:
    """Token ids as (batch, position)."""
    tensor = torch.as_tensor(ids)
    return tensor[None] if tensor.dim() == 1 else tensor
