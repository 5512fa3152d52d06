"""Value zeroing: how much a layer's answer turns when one position's value is zero in all of its heads.

For each key j of one layer: its values are set to zero, the whole block is run again from the same input (residual,
norms and feed-forward net included), and the change is 1 - cos of what each row ends with. Rows are then shares. Layers
are joined by the plain product of their tables; no identity is added. Source: Mohebbi et al. 2023, "Quantifying Context
Mixing in Transformers", section 3; for an encoder-decoder each of its three kinds of attention is measured by itself.
"""

import numpy as np
import torch
from jaxtyping import Float

from transformer.attribution.followed import in_decoder, in_reading
from transformer.attribution.passage import POSITIONS_AT_ONCE, Passage, Reading
from transformer.attribution.result import Attribution, of_passage, of_reading
from transformer.attribution.shares import shared, through
from transformer.attribution.sums import SubLayer
from transformer.attribution.weights import one_or_mean
from transformer.messages import Message
from transformer.pictures.quantity import Quantity


@torch.no_grad()
def value_zeroing(passage: Passage, layer: int | None = None) -> Attribution:
    """Shares of the encoder's positions in what each step ends a decoder layer with: of a `layer`, or their mean.

    It speaks of cross-attention, and so of the source alone.

    Raises:
        AttributionError: the model's layers cannot be followed, or there is no such layer.
    """
    tables = [zeroed(cross) for _, cross in in_decoder(passage)]
    return of_passage(
        passage,
        "value_zeroing",
        one_or_mean(tables, layer),
        Quantity.SHARE,
        [Message("note_value_zeroing_cross")],
        Message("setting_all_layers") if layer is None else Message("setting_layer", layer=layer),
    )


@torch.no_grad()
def encoder_value_zeroing(reading: Reading, layer: int | None = None) -> Attribution:
    """Shares of each position in each position after a `layer`, or after all: the product of their tables.

    Raises:
        AttributionError: the model's layers cannot be followed, or there is no such layer.
    """
    tables = [zeroed(each) for each in in_reading(reading)]
    if layer is not None:
        setting = Message("setting_layer", layer=layer)
        return of_reading(reading, "value_zeroing", one_or_mean(tables, layer), Quantity.SHARE, setting=setting)
    values = through(tables, len(reading.axis))
    return of_reading(reading, "value_zeroing", values, Quantity.SHARE, [Message("note_value_zeroing")])


@torch.no_grad()
def zeroed(layer: SubLayer) -> Float[np.ndarray, "query key"]:
    """Each row's change for each key whose values are zero, as shares; of a key that it does not see, exactly 0."""
    n_keys, clean = layer.shape[1], layer.clean().double()
    size, columns = max(1, POSITIONS_AT_ONCE // max(n_keys, len(clean))), []
    for start in range(0, n_keys, size):
        changed = layer.changed(range(start, min(start + size, n_keys))).double()
        columns.append(1 - torch.cosine_similarity(changed, clean[None], dim=-1))
    visible = layer.visible()
    changes = torch.cat(columns).T.clamp(min=0).numpy()
    return shared(np.where(visible, changes, 0.0), visible)
