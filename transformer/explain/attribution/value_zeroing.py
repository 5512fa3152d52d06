"""Value zeroing: how much a layer's answer turns when one position's value is zero in all of its heads.

For each key j of one layer: its values are set to zero, the whole block is run again from the same input (residual,
norms and feed-forward net included), and the change is 1 - cos of what each row ends with. Rows are then shares. Layers
are joined by the plain product of their tables; no identity is added. Source: Mohebbi et al. 2023, "Quantifying Context
Mixing in Transformers", section 3; for an encoder-decoder each of its three kinds of attention is measured by itself.
"""

import numpy as np
import torch
from jaxtyping import Float

from transformer.explain.attribution.result import Attribution, answer, one_or_mean
from transformer.explain.attribution.scored_sequence import POSITIONS_AT_ONCE, Asked, Reading
from transformer.explain.attribution.shares import compose_layers, normalise_rows
from transformer.explain.attribution.sublayers import Sublayer, asked_sublayers
from transformer.messages import Message
from transformer.plots.quantity import Quantity


@torch.no_grad()
def value_zeroing(asked: Asked, layer: int | None = None) -> Attribution:
    """Shares of the positions that were read in what each row ends a layer with.

    Of a source (cross-attention alone): of a `layer`, or their mean. Of a text: after a `layer`, or after all, which is
    the product of their tables.

    Raises:
        AttributionError: the model's layers cannot be followed, or there is no such layer.
    """
    tables = [zeroed(each) for each in asked_sublayers(asked)]
    setting = None if layer is None else Message("setting_layer", layer=layer)
    notes = list[Message]()
    if isinstance(asked, Reading) and layer is None:
        values, notes = compose_layers(tables, len(asked.axis)), [Message("note_value_zeroing")]
    else:
        values = one_or_mean(tables, layer)
    if not isinstance(asked, Reading):
        setting, notes = setting or Message("setting_all_layers"), [Message("note_value_zeroing_cross")]
    return answer(asked, "value_zeroing", values, Quantity.SHARE, notes, setting)


@torch.no_grad()
def zeroed(layer: Sublayer) -> Float[np.ndarray, "query key"]:
    """Each row's change for each key whose values are zero, as shares; of a key that it does not see, exactly 0."""
    n_keys, clean = layer.shape[1], layer.clean().double()
    size, columns = max(1, POSITIONS_AT_ONCE // max(n_keys, len(clean))), []
    for start in range(0, n_keys, size):
        changed = layer.changed(range(start, min(start + size, n_keys))).double()
        columns.append(1 - torch.cosine_similarity(changed, clean[None], dim=-1))
    visible = layer.visible()
    changes = torch.cat(columns).T.clamp(min=0).numpy()
    return normalise_rows(np.where(visible, changes, 0.0), visible)
