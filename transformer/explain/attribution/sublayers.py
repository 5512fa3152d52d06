"""The attention sub-layers of what was read and written, whoever made the model: what norms and contributions walk.

Models of ours are run layer by layer; of another library's model one pass is traced. Models without Transformer layers,
and those whose layers do something else than they add up, are refused by name.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from transformer.errors import NotDefinedError
from transformer.explain.attribution.decomposed_sublayer import DecomposedSublayer
from transformer.explain.attribution.own_sublayers import pair_sublayers, text_sublayers
from transformer.explain.attribution.scored_sequence import Asked, Reading, ScoredSequence
from transformer.explain.attribution.traced_sublayers import traced
from transformer.nn.protocols import Attending, HasPairStacks, HasTextStack
from transformer.sites import Site


def asked_sublayers(asked: Asked) -> Iterable[DecomposedSublayer]:
    """The attention that looks at what is asked about: cross-attention to a source, or a text's self-attention.

    Raises:
        AttributionError: the model's sub-layers cannot be followed.
    """
    if isinstance(asked, ScoredSequence):
        return (cross for _, cross in decoder_sublayers(asked))
    if isinstance(asked.model, HasTextStack):
        return text_sublayers(asked.model, asked.ids)
    return _traced(asked).values()


def source_sublayers(sequence: ScoredSequence) -> Iterable[DecomposedSublayer]:
    """The self-attention of the encoder of an encoder-decoder.

    Raises:
        AttributionError: its sub-layers cannot be followed.
    """
    if isinstance(sequence.model, HasTextStack):
        return text_sublayers(sequence.model, sequence.source_ids)
    return (each for site, each in _traced(sequence).items() if site.group == "encoder.self")


def decoder_sublayers(sequence: ScoredSequence) -> Iterator[tuple[DecomposedSublayer, DecomposedSublayer]]:
    """Self-attention and cross-attention of each layer of the decoder of an encoder-decoder.

    Raises:
        AttributionError: its sub-layers cannot be followed.
    """
    model = sequence.model
    if isinstance(model, HasPairStacks):
        yield from pair_sublayers(model, sequence.source_ids, sequence.read_ids)
        return
    found = _traced(sequence)
    own, cross = (
        [each for site, each in found.items() if site.group == f"decoder.{kind}"] for kind in ("self", "cross")
    )
    yield from zip(own, cross, strict=True)


_FOUND: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def has_sublayers(asked: Asked) -> bool:
    """Whether a model's sub-layers can be followed; of another library's model it is tried once."""
    model: Any = asked.model
    if not isinstance(model, Attending):
        return isinstance(model, HasTextStack if isinstance(asked, Reading) else HasPairStacks)
    known = _FOUND.get(asked.model)
    if known is None:
        try:
            known = bool(_traced(asked))
        except NotDefinedError:
            known = False
        _FOUND[asked.model] = known
    return known


def _traced(asked: Asked) -> dict[Site, DecomposedSublayer]:
    if not isinstance(asked.model, Attending):
        raise NotDefinedError("attribution_needs_layers", name=asked.name)
    ids = (asked.source_ids, asked.read_ids) if isinstance(asked, ScoredSequence) else (asked.ids,)
    return dict(traced(asked.name, asked.model, *(torch.tensor([part]) for part in ids)))
