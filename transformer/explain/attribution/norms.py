"""Norms: how long the vector is that each key really gives, which raw weights do not say.

A large weight on a short value gives little. Per layer the norm of the sum over heads, |sum_h a_tj F_h(x_j)|, per
head that of its own term. Source: Kobayashi et al. 2020, "Attention is Not Only a Weight", section 3.
"""

import numpy as np
import torch
from jaxtyping import Float

from transformer.errors import AttributionError
from transformer.explain.attribution.result import Attribution, answer, one_or_mean, setting_of
from transformer.explain.attribution.scored_sequence import Asked
from transformer.explain.attribution.shares import normalise_rows
from transformer.explain.attribution.sublayers import Sublayer, asked_sublayers
from transformer.messages import Message
from transformer.plots.quantity import Quantity


@torch.no_grad()
def norms(asked: Asked, layer: int | None = None, head: int | None = None) -> Attribution:
    """Norms of what each source position gives each step through cross-attention, or each position of a text each.

    Of one layer: lengths of vectors. Without a `layer`: the mean over layers of each row's shares, since vectors of
    different layers have no common scale.

    Raises:
        AttributionError: the model's sub-layers cannot be followed; or there is no such layer or head.
    """
    tables = [_norms(each, head) for each in asked_sublayers(asked)]
    values = one_or_mean([normalise_rows(table) for table in tables] if layer is None else tables, layer)
    notes = [Message("note_norms_mean")] if layer is None else []
    quantity = Quantity.SHARE if layer is None else Quantity.NORM
    return answer(asked, "norms", values, quantity, notes, setting_of(layer, head))


def _norms(layer: Sublayer, head: int | None) -> Float[np.ndarray, "query key"]:
    """Norms of what each key gives in one sub-layer."""
    weights, given = layer.weights().double(), layer.given()
    if head is not None:
        if not 0 <= head < len(weights):
            raise AttributionError("attribution_no_head", head=head, last=len(weights) - 1)
        weights, given = weights[head : head + 1], given[head : head + 1]
    rows = [torch.einsum("hj,hjd->jd", row, given).norm(dim=-1) for row in weights.unbind(1)]
    return torch.stack(rows).numpy()
