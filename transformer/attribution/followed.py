"""The attention sub-layers of what was read and written, whoever made the model: what norms and contributions walk.

Models of ours are run layer by layer; of another library's model one pass is traced. Models without Transformer layers,
and those whose layers do something else than they add up, are refused by name.
"""

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from transformer.attribution.layers import Own, decoder_layers, encoder_layers
from transformer.attribution.passage import Passage, Reading
from transformer.attribution.sums import SubLayer
from transformer.attribution.traced import traced
from transformer.errors import NotDefinedError
from transformer.models.protocols import Attending
from transformer.models.seq2seq import Seq2Seq
from transformer.sites import Site


def in_reading(reading: Reading) -> Iterator[SubLayer]:
    """The self-attention of a model that reads one text, layer after layer.

    Raises:
        AttributionError: its sub-layers cannot be followed.
    """
    model = reading.model
    if isinstance(model, Own):
        yield from (layer.self_attention for layer in encoder_layers(model, reading.ids))
    elif isinstance(model, Attending):
        yield from traced(reading.name, model, torch.tensor([reading.ids])).values()
    else:
        raise NotDefinedError("attribution_needs_layers", name=reading.name)


def in_source(passage: Passage) -> Iterator[SubLayer]:
    """The self-attention of the encoder of an encoder-decoder.

    Raises:
        AttributionError: its sub-layers cannot be followed.
    """
    model = passage.model
    if isinstance(model, Seq2Seq):
        yield from (layer.self_attention for layer in encoder_layers(model, passage.source_ids))
    else:
        yield from (each for site, each in _traced(passage).items() if site.group == "encoder.self")


def in_decoder(passage: Passage) -> Iterator[tuple[SubLayer, SubLayer]]:
    """Self-attention and cross-attention of each layer of the decoder of an encoder-decoder.

    Raises:
        AttributionError: its sub-layers cannot be followed.
    """
    model = passage.model
    if isinstance(model, Seq2Seq):
        yield from ((layer.self_attention, layer.cross_attention) for layer in decoder_layers(model, passage))
        return
    found = _traced(passage)
    own, cross = (
        [each for site, each in found.items() if site.group == f"decoder.{kind}"] for kind in ("self", "cross")
    )
    yield from zip(own, cross, strict=True)


_FOUND: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def is_followed(asked: Passage | Reading) -> bool:
    """Whether a model's sub-layers can be followed; of another library's model it is tried once."""
    model: Any = asked.model
    if not isinstance(model, Attending):
        return isinstance(model, Seq2Seq if isinstance(asked, Passage) else Own)
    known = _FOUND.get(asked.model)
    if known is None:
        try:
            known = bool(_traced(asked) if isinstance(asked, Passage) else list(in_reading(asked)))
        except NotDefinedError:
            known = False
        _FOUND[asked.model] = known
    return known


def _traced(passage: Passage) -> dict[Site, SubLayer]:
    if not isinstance(passage.model, Attending):
        raise NotDefinedError("attribution_needs_layers", name=passage.name)
    return dict(
        traced(passage.name, passage.model, *(torch.tensor([ids]) for ids in (passage.source_ids, passage.read_ids)))
    )
