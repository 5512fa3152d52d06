"""A run layer by layer: what each attention sub-layer carried, who it looked at, and what each key gave.

One layer is held at a time. A sub-layer's output is a sum with one part a key (F_h(x_j) = (x_j W_V[h] + b_V[h])
W_O[h], weighted and summed over heads), one for the residual, and constants; a norm after the sum is linear once its
deviation is known. Source: Kobayashi et al. 2020, equation 3; Kobayashi et al. 2021, equations 5 to 8.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.attribution.passage import Passage
from transformer.errors import AttributionError
from transformer.layers.attention import MultiHeadAttention
from transformer.layers.blocks import DecoderBlock, EncoderBlock, Residual
from transformer.layers.masks import Mask
from transformer.layers.norms import deviation
from transformer.models.encoder import Encoder
from transformer.models.kmer import KmerClassifier
from transformer.models.seq2seq import Seq2Seq
from transformer.sites import Site

CELLS_AT_ONCE = 4_000_000
"""Numbers of the parts (row x part x d_model) that are held at one time."""


def linear_part(norm: nn.Module, x: Float[Tensor, "*batch d_model"], by: Tensor) -> Float[Tensor, "*batch d_model"]:
    """What `norm` makes of a part of a sum whose deviation is `by`; all parts sum to its answer, less its bias."""
    return norm.weight.double() * (x - x.mean(-1, keepdim=True)) / by  # type: ignore[operator]


@dataclass(frozen=True, eq=False)
class SubLayer:
    """One attention sub-layer of one sentence: `x` is what its residual carries, `memory` what its keys are made of."""

    site: Site
    attention: MultiHeadAttention
    residual: Residual
    x: Float[Tensor, "query d_model"]
    memory: Float[Tensor, "key d_model"]
    mask: Mask

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""
        return len(self.x), len(self.memory)

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
        """F_h(x_j): what each key would give through each head with a weight of 1, without the output's bias."""
        values = self.attention.keys_values(self.memory[None]).v[0].double()
        to_output = self.attention.output.weight.double().unflatten(1, (self.attention.n_heads, -1))  # (d, head, d_v)
        return torch.einsum("hjv,dhv->hjd", values, to_output)

    def parts(self) -> Iterator[tuple[slice, Float[Tensor, "row part d_model"], Float[Tensor, "row d_model"]]]:
        """Groups of rows: which, their parts, and the constant (biases) that completes their sum to the output.

        In self-attention part j is what key j gives, with the residual in part t of row t. In cross-attention the
        residual is one more part, the last. With the norm after the sum, parts have passed it.
        """
        weights, given = self.weights().double(), self.given()
        bias = self.attention.output.bias
        constant = torch.zeros_like(given[0, :1]) if bias is None else bias.double()[None]
        norm, carried = self.residual.norm, self.x.double()
        n_queries, n_keys = self.shape
        size = max(1, CELLS_AT_ONCE // (n_keys * carried.shape[1]))
        for start in range(0, n_queries, size):
            rows = slice(start, min(start + size, n_queries))
            count, here = rows.stop - rows.start, torch.arange(rows.start, rows.stop)
            constants = constant.expand(count, -1)
            parts = torch.einsum("htj,hjd->tjd", weights[:, rows], given)
            if self.site.kind == "self":
                parts[torch.arange(count), here] += carried[rows]
            else:
                parts = torch.cat([parts, carried[rows, None]], dim=1)
            if self.residual.norm_first:
                yield rows, parts, constants
                continue
            by = deviation(norm, parts.sum(1) + constants)
            shift = cast(Tensor, norm.bias).double()
            yield rows, linear_part(norm, parts, by[:, None]), linear_part(norm, constants, by) + shift


@dataclass(frozen=True, eq=False)
class EncoderLayer:
    """One layer of an encoder, and what it read."""

    number: int
    block: EncoderBlock
    x: Float[Tensor, "1 position d_model"]
    mask: Mask

    @property
    def self_attention(self) -> SubLayer:
        """Its attention sub-layer."""
        block, h = self.block, self.block.self_residual.reads(self.x)
        site = Site.of("encoder", self.number, "self")
        return SubLayer(site, block.self_attention, block.self_residual, self.x[0], h[0], self.mask)


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
    def self_attention(self) -> SubLayer:
        """Its first attention sub-layer."""
        block, h = self.block, self.block.self_residual.reads(self.x)
        site = Site.of("decoder", self.number, "self")
        return SubLayer(site, block.self_attention, block.self_residual, self.x[0], h[0], self.mask)

    @property
    def cross_attention(self) -> SubLayer:
        """Its second."""
        block, x = self.block, self.self_attention.output
        site = Site.of("decoder", self.number, "cross")
        return SubLayer(site, block.cross_attention, block.cross_residual, x, self.memory[0], self.source_mask)


def encoder_layers(name: str, model: nn.Module, ids: Sequence[int]) -> Iterator[EncoderLayer]:
    """The layers of an encoder, one after the other; `name` is the checkpoint's.

    Raises:
        AttributionError: the model is not one of ours with an encoder of Transformer layers.
    """
    if not isinstance(model, (Seq2Seq, Encoder, KmerClassifier)):
        raise AttributionError("attribution_needs_layers", name=name)
    x, mask = model.encoder_inputs(torch.tensor([list(ids)]))
    for number, block in enumerate(model.encoder):
        yield EncoderLayer(number, block, x, mask)
        x = block(x, mask)


def decoder_layers(passage: Passage) -> Iterator[DecoderLayer]:
    """The layers of the decoder of an encoder-decoder, one after the other.

    Raises:
        AttributionError: the model is not an encoder-decoder Transformer of ours.
    """
    model = passage.model
    if not isinstance(model, Seq2Seq):
        raise AttributionError("attribution_needs_layers", name=passage.name)
    memory, source_mask = model.encode(torch.tensor([passage.source_ids]))
    x, mask = model.decoder_inputs(torch.tensor([passage.read_ids]))
    for number, block in enumerate(model.decoder):
        yield DecoderLayer(number, block, x, mask, memory, source_mask)
        x = block(x, block.cross_attention.keys_values(memory), mask, source_mask)


def softmax(
    q: Float[Tensor, "batch head query d_k"], k: Float[Tensor, "batch head key d_k"], scale: float, mask: Mask
) -> Float[Tensor, "batch head query key"]:
    """Attention weights as a table; a row that sees nothing is all zeros, as the fused attention leaves it."""
    scores = scale * q @ k.mT
    visible = mask.dense(q.shape[2], k.shape[2], q.device)
    if visible is None:
        return scores.softmax(-1)
    return scores.masked_fill(~visible, -torch.inf).softmax(-1).masked_fill(~visible, 0.0)
