"""Norms: how long the vector is that each key really gives, which raw weights do not say.

A large weight on a short value gives little. Per layer the norm of the sum over heads, |sum_h a_tj F_h(x_j)|, per
head that of its own term. `with_residual` takes the residual and the norm after the sum into account. Source:
Kobayashi et al. 2020, "Attention is Not Only a Weight", section 3; Kobayashi et al. 2021, "Incorporating Residual and
Normalization Layers into Analysis of Masked Language Models", section 3.
"""

import numpy as np
import torch
from jaxtyping import Float

from transformer.attribution.followed import in_decoder, in_reading
from transformer.attribution.passage import Passage, Reading
from transformer.attribution.result import Attribution, of_passage, of_reading
from transformer.attribution.shares import shared
from transformer.attribution.sums import SubLayer
from transformer.attribution.weights import one_or_mean, setting_of
from transformer.errors import AttributionError
from transformer.messages import Message
from transformer.pictures.quantity import Quantity


@torch.no_grad()
def norms(
    passage: Passage, layer: int | None = None, head: int | None = None, with_residual: bool = False
) -> Attribution:
    """Norms of what each source position gives each step through cross-attention.

    Of one layer: lengths of vectors. Without a `layer`: the mean over layers of each row's shares, since vectors of
    different layers have no common scale. `with_residual` adds what the decoder itself carried, at the token that was
    read last; parts have passed the norm, where that comes after the sum.

    Raises:
        AttributionError: the model's sub-layers cannot be followed; or there is no such layer or head; or the residual
            was asked for one head.
    """
    tables = []
    for _, cross in in_decoder(passage):
        table = _norms(cross, head, with_residual)
        tables.append(np.concatenate([table[:, :-1], np.diag(table[:, -1])], axis=1) if with_residual else table)
    values = one_or_mean([shared(table) for table in tables] if layer is None else tables, layer)
    return of_passage(passage, _method(with_residual), values, *_said(layer, head, with_residual))


@torch.no_grad()
def encoder_norms(
    reading: Reading, layer: int | None = None, head: int | None = None, with_residual: bool = False
) -> Attribution:
    """Norms of what each position gives each through the self-attention of a model that reads one text, as `norms`.

    Raises:
        AttributionError: as `norms`.
    """
    tables = [_norms(each, head, with_residual) for each in in_reading(reading)]
    values = one_or_mean([shared(table) for table in tables] if layer is None else tables, layer)
    return of_reading(reading, _method(with_residual), values, *_said(layer, head, with_residual))


def _method(with_residual: bool) -> str:
    return "norms_residual" if with_residual else "norms"


def _said(layer: int | None, head: int | None, with_residual: bool) -> tuple[Quantity, list[Message], Message]:
    notes = [Message("note_norms_mean")] if layer is None else []
    notes += [Message("note_norms_residual")] if with_residual else []
    return Quantity.SHARE if layer is None else Quantity.NORM, notes, setting_of(layer, head)


def _norms(layer: SubLayer, head: int | None, with_residual: bool) -> Float[np.ndarray, "query part"]:
    """Norms of the parts of one sub-layer; the residual of cross-attention, if asked for, is the last."""
    if with_residual:
        if head is not None:
            raise AttributionError("attribution_residual_of_a_head")
        return torch.cat([parts.norm(dim=-1) for _, parts, _ in layer.parts()]).numpy()
    weights, given = layer.weights().double(), layer.given()
    if head is not None:
        if not 0 <= head < len(weights):
            raise AttributionError("attribution_no_head", head=head, last=len(weights) - 1)
        weights, given = weights[head : head + 1], given[head : head + 1]
    rows = [torch.einsum("hj,hjd->jd", row, given).norm(dim=-1) for row in weights.unbind(1)]
    return torch.stack(rows).numpy()
