"""A run of a model of ours layer by layer: what each attention sub-layer carried, who it looked at, what keys gave.

One layer is held at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.attribution.passage import Passage
from transformer.attribution.sums import SubLayer
from transformer.layers.attention import KeysValues, MultiHeadAttention
from transformer.layers.blocks import DecoderBlock, EncoderBlock, Residual
from transformer.layers.masks import Mask
from transformer.models.decoder import Decoder
from transformer.models.encoder import Encoder
from transformer.models.kmer import KmerClassifier
from transformer.models.seq2seq import Seq2Seq
from transformer.sites import Site

Rest = Callable[[KeysValues], Tensor]
"""Runs a whole block from what it read, with other keys and values of one of its attentions: once a batch element."""


@dataclass(frozen=True, eq=False)
class OwnSubLayer(SubLayer):
    """One attention sub-layer of a model of ours: `memory` is what its keys are made of, `rest` the block around it."""

    attention: MultiHeadAttention
    residual: Residual
    memory: Float[Tensor, "key d_model"]
    rest: Rest

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""
        return len(self.x), len(self.memory)

    @property
    def constant(self) -> Float[Tensor, " d_model"]:
        """The bias of the output projection."""
        bias = self.attention.output.bias
        return torch.zeros_like(self.x[0]).double() if bias is None else bias.double()

    @property
    def norm(self) -> nn.Module | None:
        """The norm after the sum, where it comes there."""
        return None if self.residual.norm_first else self.residual.norm

    @property
    def output(self) -> Float[Tensor, "query d_model"]:
        """What the model itself computes."""
        x, memory = self.x[None], self.memory[None]
        found = self.attention(self.residual.reads(x), self.attention.keys_values(memory), self.mask)
        made: Tensor = self.residual(x, found)[0]
        return made

    def weights(self) -> Float[Tensor, "head query key"]:
        """Attention weights; each row of each head sums to 1, unless it sees nothing."""
        q = self.attention.queries(self.residual.reads(self.x[None]))
        return softmax(q, self.attention.keys_values(self.memory[None]).k, self.attention.core.scale, self.mask)[0]

    def given(self) -> Float[Tensor, "head key d_model"]:
        """What each key would give through each head with a weight of 1, without the output's bias."""
        values = self.attention.keys_values(self.memory[None]).v[0].double()
        to_output = self.attention.output.weight.double().unflatten(1, (self.attention.n_heads, -1))  # (d, head, d_v)
        return torch.einsum("hjv,dhv->hjd", values, to_output)

    def clean(self) -> Float[Tensor, "query d_model"]:
        """What the whole block ends with."""
        return self.rest(self.attention.keys_values(self.memory[None]))[0]

    def changed(self, keys: Sequence[int]) -> Float[Tensor, "key query d_model"]:
        """The same where the values of one of `keys` are zero in every head, for each of them."""
        given = self.attention.keys_values(self.memory[None])
        values = given.v.repeat(len(keys), 1, 1, 1)
        values[torch.arange(len(keys)), :, list(keys)] = 0.0
        return self.rest(KeysValues(given.k.expand(len(keys), -1, -1, -1), values))


@dataclass(frozen=True, eq=False)
class EncoderLayer:
    """One layer of an encoder, or of a decoder alone, and what it read."""

    site: Site
    block: EncoderBlock
    x: Float[Tensor, "1 position d_model"]
    mask: Mask

    @property
    def self_attention(self) -> OwnSubLayer:
        """Its attention sub-layer."""
        block, h = self.block, self.block.self_residual.reads(self.x)
        return OwnSubLayer(self.site, self.x[0], self.mask, block.self_attention, block.self_residual, h[0], self._rest)

    def _rest(self, given: KeysValues) -> Tensor:
        block, x = self.block, self.x.expand(len(given.v), -1, -1)
        x = block.self_residual(x, block.self_attention(block.self_residual.reads(x), given, self.mask))
        return _fed_forward(block, x)


@dataclass(frozen=True, eq=False)
class DecoderLayer:
    """One layer of a decoder, what it read, and the source that it reads."""

    number: int
    block: DecoderBlock
    x: Float[Tensor, "1 target d_model"]
    mask: Mask
    memory: Float[Tensor, "1 source d_model"]
    source_mask: Mask

    @property
    def self_attention(self) -> OwnSubLayer:
        """Its first attention sub-layer."""
        block, h = self.block, self.block.self_residual.reads(self.x)
        site = Site.of("decoder", self.number, "self")
        return OwnSubLayer(site, self.x[0], self.mask, block.self_attention, block.self_residual, h[0], self._rest)

    @property
    def cross_attention(self) -> OwnSubLayer:
        """Its second."""
        block, x = self.block, self.self_attention.output
        site = Site.of("decoder", self.number, "cross")
        attention, residual = block.cross_attention, block.cross_residual
        return OwnSubLayer(
            site, x, self.source_mask, attention, residual, self.memory[0], partial(self._crossed, x[None])
        )

    def _rest(self, given: KeysValues) -> Tensor:
        block, x = self.block, self.x.expand(len(given.v), -1, -1)
        x = block.self_residual(x, block.self_attention(block.self_residual.reads(x), given, self.mask))
        source = block.cross_attention.keys_values(self.memory)
        return self._crossed(x, KeysValues(source.k.expand(len(x), -1, -1, -1), source.v.expand(len(x), -1, -1, -1)))

    def _crossed(self, x: Float[Tensor, "#batch target d_model"], source: KeysValues) -> Tensor:
        block, x = self.block, x.expand(len(source.v), -1, -1)
        x = block.cross_residual(x, block.cross_attention(block.cross_residual.reads(x), source, self.source_mask))
        return _fed_forward(block, x)


def _fed_forward(block: EncoderBlock | DecoderBlock, x: Float[Tensor, "batch position d_model"]) -> Tensor:
    made: Tensor = block.feed_forward_residual(x, block.feed_forward(block.feed_forward_residual.reads(x)))
    return made


Own = Seq2Seq | Encoder | Decoder | KmerClassifier
"""Models of ours with a stack of Transformer layers that reads one text."""


def encoder_layers(model: Own, ids: Sequence[int]) -> Iterator[EncoderLayer]:
    """The layers of an encoder, or of a decoder alone, one after the other."""
    stack = "decoder" if isinstance(model, Decoder) else "encoder"
    batch = torch.tensor([list(ids)])
    x, mask = model.decoder_inputs(batch) if isinstance(model, Decoder) else model.encoder_inputs(batch)
    for number, block in enumerate(getattr(model, stack)):
        yield EncoderLayer(Site.of(stack, number, "self"), block, x, mask)
        x = block(x, mask)


def decoder_layers(model: Seq2Seq, passage: Passage) -> Iterator[DecoderLayer]:
    """The layers of the decoder of an encoder-decoder, one after the other."""
    memory, source_mask = model.encode(torch.tensor([passage.source_ids]))
    x, mask = model.decoder_inputs(torch.tensor([passage.read_ids]))
    for number, block in enumerate(model.decoder):
        yield DecoderLayer(number, block, x, mask, memory, source_mask)
        x = block(x, block.cross_attention.keys_values(memory), mask, source_mask)


def softmax(
    q: Float[Tensor, "batch head query d_k"], k: Float[Tensor, "batch head key d_k"], scale: float, mask: Mask
) -> Float[Tensor, "batch head query key"]:
    """Attention weights as a table; a row that sees nothing is all zeros, as the fused attention leaves it, or even."""
    scores = scale * mask.asking(q, k.shape[2]) @ k.mT
    visible = mask.dense(q.shape[2], k.shape[2], q.device)
    if visible is None:
        return scores.softmax(-1)
    return scores.masked_fill(~visible, -torch.inf).softmax(-1).masked_fill(~visible, 0.0)
