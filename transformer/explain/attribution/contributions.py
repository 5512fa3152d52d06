"""Layer contributions and their roll-out (ALTI+): how near each part brings a sub-layer's output, layer after layer.

The contribution of part j to row t is max(0, |y_t| - |y_t - P_tj|) in the 1-norm, as a share of the row's. Exact:
parts and biases sum to the sub-layer's real output, for a norm before or after it. Feed-forward nets and the norms at
the ends of the stacks mix no positions and count as passing on what they hold. Source: Ferrando et al. 2022, "Towards
Opening the Black Box of Neural Machine Translation", sections 3.1 to 3.3.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float

from transformer.explain.attribution.result import Attribution, answer, one_or_mean
from transformer.explain.attribution.scored_sequence import Asked, Reading
from transformer.explain.attribution.shares import (
    compose_decoder_layers,
    compose_layers,
    normalise_rows,
    residual_at_last_read,
)
from transformer.explain.attribution.sublayers import Sublayer, asked_sublayers, decoder_sublayers, source_sublayers
from transformer.messages import Message
from transformer.plots.quantity import Quantity


@torch.no_grad()
def contributions(asked: Asked, layer: int | None = None) -> Attribution:
    """Shares of source and prefix in what the decoder ends with at each step, or of a text's positions; rows sum to 1.

    Of one `layer`: shares in what its cross-attention (of a text: self-attention) sub-layer gives, of the positions
    that it read and of what the decoder carried, which stands at the token that was read last; nothing is followed
    through other layers.

    Raises:
        AttributionError: the model's sub-layers cannot be followed, or there is no such layer.
    """
    if layer is not None:
        values = one_or_mean([sublayer_contributions(each) for each in asked_sublayers(asked)], layer)
        values = values if isinstance(asked, Reading) else residual_at_last_read(values)
        notes, setting = [Message("note_contributions_layer")], Message("setting_layer", layer=layer)
        return answer(asked, "contributions", values, Quantity.SHARE, notes, setting)
    if isinstance(asked, Reading):
        values = compose_layers(map(sublayer_contributions, asked_sublayers(asked)), len(asked.axis))
    else:
        encoder = compose_layers(map(sublayer_contributions, source_sublayers(asked)), len(asked.source))
        layers = ((sublayer_contributions(a), sublayer_contributions(b)) for a, b in decoder_sublayers(asked))
        values = compose_decoder_layers(layers, encoder, len(asked.read))
    return answer(asked, "contributions", values, Quantity.SHARE, [Message("note_contributions")])


@torch.no_grad()
def sublayer_contributions(layer: Sublayer) -> Float[np.ndarray, "query part"]:
    """Shares of each part in each row of one sub-layer: its keys, and in cross-attention the residual last.

    Rows sum to 1; a key that is masked has exactly 0. A row that no part brings nearer to its output is NaN.
    """
    nearer = []
    for parts, constant in layer.parts():
        output = parts.sum(1) + constant
        distance = (output[:, None] - parts).abs().sum(-1)
        nearer.append((output.abs().sum(-1, keepdim=True) - distance).clamp(min=0))
    found = torch.cat(nearer)
    return normalise_rows(found.numpy(), _visible_parts(layer, found.shape[1]))


def _visible_parts(layer: Sublayer, n_parts: int) -> Bool[np.ndarray, "query part"]:
    """Which parts a row has: the keys that it sees, and the residual, which in self-attention is its own position's."""
    visible = np.ones((layer.shape[0], n_parts), dtype=bool)
    visible[:, : layer.shape[1]] = layer.visible()
    if layer.site.kind == "self":
        visible |= np.eye(len(visible), dtype=bool)
    return visible
