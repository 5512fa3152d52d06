"""Layer contributions and their roll-out (ALTI+): how near each part brings a sub-layer's output, layer after layer.

The contribution of part j to row t is max(0, |y_t| - |y_t - P_tj|) in the 1-norm, as a share of the row's. Exact:
parts and biases sum to the sub-layer's real output, for a norm before or after it. Feed-forward nets and the norms at
the ends of the stacks mix no positions and count as passing on what they hold. Source: Ferrando et al. 2022, "Towards
Opening the Black Box of Neural Machine Translation", sections 3.1 to 3.3.
"""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Bool, Float

from transformer.attribution.followed import in_decoder, in_reading, in_source
from transformer.attribution.passage import Passage, Reading
from transformer.attribution.result import Attribution, of_passage, of_reading
from transformer.attribution.shares import shared, through, through_decoder
from transformer.attribution.sums import SubLayer
from transformer.attribution.weights import one_or_mean
from transformer.messages import Message
from transformer.pictures.quantity import Quantity


@torch.no_grad()
def contributions(passage: Passage, layer: int | None = None) -> Attribution:
    """Shares of source and prefix in what the decoder ends with at each step; rows sum to 1.

    Of one `layer`: shares in what its cross-attention sub-layer gives, of the encoder's positions and of what the
    decoder carried, which stands at the token that was read last; nothing is followed through other layers.

    Raises:
        AttributionError: the model's sub-layers cannot be followed, or there is no such layer.
    """
    if layer is not None:
        tables = [sub_layer_contributions(cross) for _, cross in in_decoder(passage)]
        table = one_or_mean(tables, layer)
        values = np.concatenate([table[:, :-1], np.diag(table[:, -1])], axis=1)
        notes, setting = [Message("note_contributions_layer")], Message("setting_layer", layer=layer)
        return of_passage(passage, "contributions", values, Quantity.SHARE, notes, setting)
    encoder = _through(in_source(passage), len(passage.source))
    layers = ((sub_layer_contributions(own), sub_layer_contributions(cross)) for own, cross in in_decoder(passage))
    values = through_decoder(layers, encoder, len(passage.read))
    return of_passage(passage, "contributions", values, Quantity.SHARE, [Message("note_contributions")])


@torch.no_grad()
def encoder_contributions(reading: Reading, layer: int | None = None) -> Attribution:
    """Shares of each position of the input in what each position ends with after an encoder; rows sum to 1.

    Of one `layer`: shares of the positions that its self-attention sub-layer read. The same of a decoder alone.

    Raises:
        AttributionError: the model's sub-layers cannot be followed, or there is no such layer.
    """
    if layer is not None:
        table = one_or_mean([sub_layer_contributions(each) for each in in_reading(reading)], layer)
        notes, setting = [Message("note_contributions_layer")], Message("setting_layer", layer=layer)
        return of_reading(reading, "contributions", table, Quantity.SHARE, notes, setting)
    values = _through(in_reading(reading), len(reading.axis))
    return of_reading(reading, "contributions", values, Quantity.SHARE, [Message("note_contributions")])


@torch.no_grad()
def sub_layer_contributions(layer: SubLayer) -> Float[np.ndarray, "query part"]:
    """Shares of each part in each row of one sub-layer: its keys, and in cross-attention the residual last.

    Rows sum to 1; a key that is masked has exactly 0. A row that no part brings nearer to its output is NaN.
    """
    nearer = []
    for _, parts, constant in layer.parts():
        output = parts.sum(1) + constant
        distance = (output[:, None] - parts).abs().sum(-1)
        nearer.append((output.abs().sum(-1, keepdim=True) - distance).clamp(min=0))
    found = torch.cat(nearer)
    return shared(found.numpy(), visible_parts(layer, found.shape[1]))


def visible_parts(layer: SubLayer, n_parts: int) -> Bool[np.ndarray, "query part"]:
    """Which parts a row has: the keys that it sees, and the residual, which in self-attention is its own position's."""
    visible = np.ones((layer.shape[0], n_parts), dtype=bool)
    visible[:, : layer.shape[1]] = layer.visible()
    if layer.site.kind == "self":
        visible |= np.eye(len(visible), dtype=bool)
    return visible


def _through(layers: Iterable[SubLayer], n: int) -> Float[np.ndarray, "position position"]:
    return through(map(sub_layer_contributions, layers), n)
