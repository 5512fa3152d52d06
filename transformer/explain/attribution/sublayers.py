"""The attention sub-layers of a Transformer of this library, as sums: one part a key, one for the residual, constants.

What a key gives is F_h(x_j) = (x_j W_V[h] + b_V[h]) W_O[h], weighted and summed over heads; a norm after the sum is
linear once its deviation is known. Layers are run one by one, and one is held at a time. Source: Kobayashi et al. 2020,
equation 3; Kobayashi et al. 2021, equations 5 to 8.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer.errors import NotDefinedError
from transformer.explain.attribution.scored_sequence import Asked, Reading, ScoredSequence
from transformer.nn.attention import KeysValues, MultiHeadAttention
from transformer.nn.blocks import DecoderBlock, Residual
from transformer.nn.masks import Mask
from transformer.nn.norms import deviation
from transformer.nn.protocols import HasPairStacks, HasTextStack
from transformer.sites import Site

CELLS_AT_ONCE = 4_000_000
"""Numbers of the parts (row x part x d_model) that are held at one time."""


@dataclass(frozen=True, eq=False)
class Sublayer:
    """One attention sub-layer of one sentence.

    `x` is what its residual carries, `memory` what its keys are made of, `after` the other steps of its block.
    """

    site: Site
    x: Float[Tensor, "query d_model"]
    mask: Mask
    attention: MultiHeadAttention
    residual: Residual
    memory: Float[Tensor, "1 key d_model"]
    after: Callable[[Tensor], Tensor]

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""
        return len(self.x), self.memory.shape[1]

    @property
    def output(self) -> Float[Tensor, "query d_model"]:
        """What the model itself computes."""
        return self._attended(self._keys_values)[0]

    def weights(self) -> Float[Tensor, "head query key"]:
        """Attention weights; each row of each head sums to 1, unless it sees nothing."""
        return self.attention.weights(self.residual.reads(self.x[None]), self._keys_values, self.mask)[0]

    def given(self) -> Float[Tensor, "head key d_model"]:
        """F_h(x_j) as doubles: what each key would give through each head with a weight of 1, without the bias."""
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

    def visible(self) -> Bool[np.ndarray, "query key"]:
        """Which keys a row sees."""
        table = self.mask.dense(*self.shape, self.x.device)
        if table is None:
            return np.ones(self.shape, dtype=bool)
        return table[0, 0].expand(self.shape).cpu().numpy()

    def parts(self) -> Iterator[tuple[Float[Tensor, "row part d_model"], Float[Tensor, "row d_model"]]]:
        """Groups of rows: their parts, and the constant (biases) that completes their sum to the output.

        In self-attention part j is what key j gives, with the residual in part t of row t. In cross-attention the
        residual is one more part, the last. With the norm after the sum, parts have passed it.
        """
        weights, given, bias = self.weights().double(), self.given(), self.attention.output.bias
        carried, norm = self.x.double(), self.residual.norm
        n_queries, n_keys = self.shape
        size = max(1, CELLS_AT_ONCE // (n_keys * carried.shape[1]))
        for start in range(0, n_queries, size):
            here = torch.arange(start, min(start + size, n_queries))
            constants = torch.zeros_like(carried[here]) if bias is None else bias.double().expand(len(here), -1)
            parts = torch.einsum("htj,hjd->tjd", weights[:, here], given)
            if self.site.kind == "self":
                parts[torch.arange(len(here)), here] += carried[here]
            else:
                parts = torch.cat([parts, carried[here, None]], dim=1)
            if not self.residual.norm_first:
                by = deviation(norm, parts.sum(1) + constants)
                shift = getattr(norm, "bias", None)
                parts, constants = linear_part(norm, parts, by[:, None]), linear_part(norm, constants, by)
                constants = constants if shift is None else constants + shift.double()
            yield parts, constants

    @property
    def _keys_values(self) -> KeysValues:
        return self.attention.keys_values(self.memory)

    def _attended(self, keys_values: KeysValues) -> Float[Tensor, "batch query d_model"]:
        x = self.x.expand(len(keys_values.v), -1, -1)
        made: Tensor = self.residual(x, self.attention(self.residual.reads(x), keys_values, self.mask))
        return made


def linear_part(norm: nn.Module, x: Float[Tensor, "*batch d_model"], by: Tensor) -> Float[Tensor, "*batch d_model"]:
    """What `norm` makes of a part of a sum whose deviation is `by`; all parts sum to its answer, less its bias."""
    return cast(Tensor, norm.weight).double() * (x - x.mean(-1, keepdim=True)) / by


def has_sublayers(asked: Asked) -> bool:
    """Whether a model's sub-layers can be followed: it is a Transformer of this library."""
    return isinstance(asked.model, HasTextStack if isinstance(asked, Reading) else HasPairStacks)


def asked_sublayers(asked: Asked) -> Iterable[Sublayer]:
    """The attention that looks at what is asked about: cross-attention to a source, or a text's self-attention.

    Raises:
        AttributionError: the model's sub-layers cannot be followed.
    """
    if isinstance(asked, ScoredSequence):
        return (cross for _, cross in decoder_sublayers(asked))
    return _text_sublayers(asked, asked.ids)


def source_sublayers(sequence: ScoredSequence) -> Iterator[Sublayer]:
    """The self-attention of the encoder of an encoder-decoder.

    Raises:
        AttributionError: its sub-layers cannot be followed.
    """
    return _text_sublayers(sequence, sequence.source_ids)


def _text_sublayers(asked: Asked, ids: Sequence[int]) -> Iterator[Sublayer]:
    model: Any = _followed(asked)
    stack, blocks, x, mask = model.text_stack(torch.tensor([list(ids)]))
    for number, block in enumerate(blocks):
        residual = block.self_residual
        site = Site.of(stack, number, "self")
        yield Sublayer(site, x[0], mask, block.self_attention, residual, residual.reads(x), block.feed)
        x = block(x, mask)


def decoder_sublayers(sequence: ScoredSequence) -> Iterator[tuple[Sublayer, Sublayer]]:
    """Self-attention and cross-attention of each layer of the decoder of an encoder-decoder.

    Raises:
        AttributionError: its sub-layers cannot be followed.
    """
    model: Any = _followed(sequence)
    memory, source_mask = model.encode(torch.tensor([list(sequence.source_ids)]))
    x, mask = model.decoder_inputs(torch.tensor([list(sequence.read_ids)]))
    for number, block in enumerate(model.decoder):
        source, residual = block.cross_attention.keys_values(memory), block.self_residual

        def rest(x: Tensor, block: DecoderBlock = block, source: KeysValues = source) -> Tensor:
            return block.feed(block.cross(x, _repeated(source, len(x)), source_mask))

        site = Site.of("decoder", number, "self")
        own = Sublayer(site, x[0], mask, block.self_attention, residual, residual.reads(x), rest)
        site, read = Site.of("decoder", number, "cross"), own.output
        yield own, Sublayer(site, read, source_mask, block.cross_attention, block.cross_residual, memory, block.feed)
        x = block.feed(block.cross(read[None], source, source_mask))


def _followed(asked: Asked) -> Any:
    if not has_sublayers(asked):
        raise NotDefinedError("attribution_needs_layers", name=asked.name)
    return asked.model


def _repeated(one: KeysValues, count: int, values: Tensor | None = None) -> KeysValues:
    return KeysValues(one.k.expand(count, -1, -1, -1), one.v.expand(count, -1, -1, -1) if values is None else values)
