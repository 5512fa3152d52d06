"""The attention sub-layers of a model of this library, layer by layer: one layer is held at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.explain.attribution.decomposed_sublayer import DecomposedSublayer
from transformer.nn.attention import KeysValues, MultiHeadAttention
from transformer.nn.blocks import DecoderBlock, Residual
from transformer.nn.protocols import HasPairStacks, HasTextStack
from transformer.sites import Site


@dataclass(frozen=True, eq=False)
class OwnSublayer(DecomposedSublayer):
    """One attention sub-layer of a block: `memory` is what its keys are made of, `after` is the block's other steps."""

    attention: MultiHeadAttention
    residual: Residual
    memory: Float[Tensor, "1 key d_model"]
    after: Callable[[Tensor], Tensor]

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""
        return len(self.x), self.memory.shape[1]

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
        return self._attended(self._keys_values)[0]

    def weights(self) -> Float[Tensor, "head query key"]:
        """Attention weights; each row of each head sums to 1, unless it sees nothing."""
        return self.attention.weights(self.residual.reads(self.x[None]), self._keys_values, self.mask)[0]

    def given(self) -> Float[Tensor, "head key d_model"]:
        """What each key would give through each head with a weight of 1, without the output's bias."""
        to_output = self.attention.output.weight.double().unflatten(1, (self.attention.n_heads, -1))  # (d, head, d_v)
        return torch.einsum("hjv,dhv->hjd", self._keys_values.v[0].double(), to_output)

    def clean(self) -> Float[Tensor, "query d_model"]:
        """What the whole block ends with."""
        return self.after(self.output[None])[0]

    def changed(self, keys: Sequence[int]) -> Float[Tensor, "key query d_model"]:
        """The same where the values of one of `keys` are zero in every head, for each of them."""
        values = self._keys_values.v.repeat(len(keys), 1, 1, 1)
        values[torch.arange(len(keys)), :, list(keys)] = 0.0
        return self.after(self._attended(_repeated(self._keys_values, len(keys), values)))

    @property
    def _keys_values(self) -> KeysValues:
        return self.attention.keys_values(self.memory)

    def _attended(self, keys_values: KeysValues) -> Float[Tensor, "batch query d_model"]:
        x = self.x.expand(len(keys_values.v), -1, -1)
        made: Tensor = self.residual(x, self.attention(self.residual.reads(x), keys_values, self.mask))
        return made


def _repeated(one: KeysValues, count: int, values: Tensor | None = None) -> KeysValues:
    return KeysValues(one.k.expand(count, -1, -1, -1), one.v.expand(count, -1, -1, -1) if values is None else values)


def text_sublayers(model: HasTextStack, ids: Sequence[int]) -> Iterator[OwnSublayer]:
    """The self-attention of each layer of the stack that reads a text."""
    stack, blocks, x, mask = model.text_stack(torch.tensor([list(ids)]))
    for number, block in enumerate(blocks):
        residual = block.self_residual
        site = Site.of(stack, number, "self")
        yield OwnSublayer(site, x[0], mask, block.self_attention, residual, residual.reads(x), block.feed)
        x = block(x, mask)


def pair_sublayers(
    model: HasPairStacks, source_ids: Sequence[int], read_ids: Sequence[int]
) -> Iterator[tuple[OwnSublayer, OwnSublayer]]:
    """Self-attention and cross-attention of each layer of the decoder of an encoder-decoder."""
    memory, source_mask = model.encode(torch.tensor([list(source_ids)]))
    x, mask = model.decoder_inputs(torch.tensor([list(read_ids)]))
    for number, block in enumerate(model.decoder):
        source, residual = block.cross_attention.keys_values(memory), block.self_residual

        def rest(x: Tensor, block: DecoderBlock = block, source: KeysValues = source) -> Tensor:
            return block.feed(block.cross(x, _repeated(source, len(x)), source_mask))

        site = Site.of("decoder", number, "self")
        own = OwnSublayer(site, x[0], mask, block.self_attention, residual, residual.reads(x), rest)
        site, read = Site.of("decoder", number, "cross"), own.output
        yield own, OwnSublayer(site, read, source_mask, block.cross_attention, block.cross_residual, memory, block.feed)
        x = block.feed(block.cross(read[None], source, source_mask))
