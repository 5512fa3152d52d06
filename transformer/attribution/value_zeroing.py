"""Value zeroing: how much a layer's answer turns when one position's value is zero in all of its heads.

For each key j of one layer: its values are set to zero, the whole block is run again from the same input (residual,
norms and feed-forward net included), and the change is 1 - cos of what each row ends with. Rows are then shares. Layers
are joined by the plain product of their tables; no identity is added. Source: Mohebbi et al. 2023, "Quantifying Context
Mixing in Transformers", section 3; for an encoder-decoder each of its three kinds of attention is measured by itself.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attribution.layers import DecoderLayer, EncoderLayer, decoder_layers, encoder_layers
from transformer.attribution.passage import POSITIONS_AT_ONCE, Passage, Reading
from transformer.attribution.result import Attribution, of_passage, of_reading
from transformer.attribution.shares import shared, through
from transformer.attribution.weights import one_or_mean
from transformer.layers.attention import KeysValues
from transformer.layers.masks import Mask
from transformer.messages import Message
from transformer.pictures.quantity import Quantity

Block = Callable[[KeysValues], Float[Tensor, "key query d_model"]]
"""Runs the rest of a block with other keys and values of one of its attentions."""


@torch.no_grad()
def value_zeroing(passage: Passage, layer: int | None = None) -> Attribution:
    """Shares of the encoder's positions in what each step ends a decoder layer with: of a `layer`, or their mean.

    It speaks of cross-attention, and so of the source alone.

    Raises:
        AttributionError: the model is not an encoder-decoder Transformer of ours, or there is no such layer.
    """
    tables = [cross_zeroed(each) for each in decoder_layers(passage)]
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
        AttributionError: the model has no encoder of Transformer layers of ours, or there is no such layer.
    """
    tables = [encoder_zeroed(each) for each in encoder_layers(reading.name, reading.model, reading.ids)]
    if layer is not None:
        setting = Message("setting_layer", layer=layer)
        return of_reading(reading, "value_zeroing", one_or_mean(tables, layer), Quantity.SHARE, setting=setting)
    values = through(tables, len(reading.axis))
    return of_reading(reading, "value_zeroing", values, Quantity.SHARE, [Message("note_value_zeroing")])


@torch.no_grad()
def encoder_zeroed(layer: EncoderLayer) -> Float[np.ndarray, "query key"]:
    """One encoder layer: shares of its positions; rows sum to 1."""
    block = layer.block

    def rest(keys_values: KeysValues) -> Tensor:
        x = layer.x.expand(len(keys_values.v), -1, -1)
        h = block.self_residual.reads(x)
        x = block.self_residual(x, block.self_attention(h, keys_values, layer.mask))
        return block.feed_forward_residual(x, block.feed_forward(block.feed_forward_residual.reads(x)))

    h = block.self_residual.reads(layer.x)
    return _zeroed(block.self_attention.keys_values(h), rest, layer.mask)


@torch.no_grad()
def decoder_zeroed(layer: DecoderLayer) -> Float[np.ndarray, "query key"]:
    """The self-attention of one decoder layer: shares of the positions read so far."""
    block, source = layer.block, layer.block.cross_attention.keys_values(layer.memory)

    def rest(keys_values: KeysValues) -> Tensor:
        count = len(keys_values.v)
        x = layer.x.expand(count, -1, -1)
        x = block.self_residual(x, block.self_attention(block.self_residual.reads(x), keys_values, layer.mask))
        same = KeysValues(source.k.expand(count, -1, -1, -1), source.v.expand(count, -1, -1, -1))
        x = block.cross_residual(x, block.cross_attention(block.cross_residual.reads(x), same, layer.source_mask))
        return block.feed_forward_residual(x, block.feed_forward(block.feed_forward_residual.reads(x)))

    h = block.self_residual.reads(layer.x)
    return _zeroed(block.self_attention.keys_values(h), rest, layer.mask)


@torch.no_grad()
def cross_zeroed(layer: DecoderLayer) -> Float[np.ndarray, "query key"]:
    """The cross-attention of one decoder layer: shares of the source's positions."""
    block, carried = layer.block, layer.self_attention.output[None]

    def rest(keys_values: KeysValues) -> Tensor:
        x = carried.expand(len(keys_values.v), -1, -1)
        h = block.cross_residual.reads(x)
        x = block.cross_residual(x, block.cross_attention(h, keys_values, layer.source_mask))
        return block.feed_forward_residual(x, block.feed_forward(block.feed_forward_residual.reads(x)))

    return _zeroed(block.cross_attention.keys_values(layer.memory), rest, layer.source_mask)


def _zeroed(given: KeysValues, rest: Block, mask: Mask) -> Float[np.ndarray, "query key"]:
    """Each row's change for each key whose values are zero, as shares; of a key that it does not see, exactly 0."""
    n_keys = given.k.shape[2]
    clean = rest(given)[0].double()
    size, columns = max(1, POSITIONS_AT_ONCE // max(n_keys, len(clean))), []
    for start in range(0, n_keys, size):
        keys = torch.arange(start, min(start + size, n_keys))
        values = given.v.repeat(len(keys), 1, 1, 1)
        values[torch.arange(len(keys)), :, keys] = 0.0
        changed = rest(KeysValues(given.k.expand(len(keys), -1, -1, -1), values)).double()
        columns.append(1 - torch.cosine_similarity(changed, clean[None], dim=-1))
    changes = torch.cat(columns).T.clamp(min=0)
    table = mask.dense(changes.shape[0], changes.shape[1], changes.device)
    visible = torch.ones_like(changes, dtype=torch.bool) if table is None else table[0, 0].expand(changes.shape)
    return shared(changes.masked_fill(~visible, 0.0).numpy(), visible.numpy())
