"""The encoder alone: ids in, one vector for each position out.

Source: Vaswani et al. 2017, left half of figure 1; torch.nn.TransformerEncoder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.errors import ConfigError
from transformer.nn import masks
from transformer.nn.attention import DotProductAttention
from transformer.nn.blocks import EncoderBlock
from transformer.nn.common import at_least, check_ids, one_of
from transformer.nn.masks import Mask
from transformer.nn.norms import layer_norm
from transformer.nn.positions import positions
from transformer.nn.protocols import Abilities, TextStack
from transformer.nn.stacks import StackConfig
from transformer.sites import Site

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh}


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(StackConfig):
    """Everything that tells one encoder from another.

    `position_axis` is `sequence` for what the paper means: the p-th token gets row p of the table. `batch` is a known
    bug of published code: the b-th sequence of the batch gets row b at every position, so the model does not see order.
    `causal` hides the future. `head` lists the widths of linear maps after the layers, with `head_activation` between
    them; they read `each` position's state, the `first` or `last` one, or the `mean` over real positions.
    """

    vocab: int
    n_layers: int = 6
    position_axis: str = "sequence"
    causal: bool = False
    head: Sequence[int] = ()
    head_reads: str = "each"
    head_activation: str = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "head", tuple(self.head))  # JSON brings a list
        at_least(self, 1, "vocab", "n_layers")
        one_of(self, "position_axis", ("sequence", "batch"))
        one_of(self, "head_reads", ("each", "mean", "first", "last"))
        one_of(self, "head_activation", tuple(_ACTIVATIONS))
        if any(width < 1 for width in self.head):
            raise ConfigError("head_widths", head=str(self.head))


class Encoder(nn.Module):
    """Every position reads every other, layer by layer."""

    architecture: ClassVar = "encoder"
    abilities: ClassVar = Abilities(masks=True, hides=True)

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.d_model)
        self.positions = positions(config.positions, config.d_model, config.max_length)
        self.dropout = nn.Dropout(config.dropout)
        blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.n_layers))
        self.encoder = cast(Sequence[EncoderBlock], blocks)
        norm_at_end = config.norm_after_stack
        self.encoder_norm = layer_norm(config.norm, config.d_model, config.norm_eps) if norm_at_end else nn.Identity()
        widths = (config.d_model, *config.head)
        self.head = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(
        self, ids: Int[Tensor, "batch token"], shown: Bool[Tensor, "batch shown"] | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """What each position holds after the last layer. Where `shown` is False, no attention sees that position."""
        x, mask = self.encoder_inputs(ids, shown)
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x)

    def encoder_inputs(
        self, ids: Int[Tensor, "batch token"], shown: Bool[Tensor, "batch shown"] | None = None
    ) -> tuple[Float[Tensor, "batch position d_model"], Mask]:
        """What the first layer reads, and what all of them may see."""
        x = self.embedding(ids)
        if self.config.scale_embedding:
            x = x * self.config.d_model**0.5
        mask = replace(masks.padding(ids, self.config.pad_id, shown), causal=self.config.causal)
        return self.dropout(self._add_positions(x)), mask

    def outputs(self, ids: Int[Tensor, "batch token"]) -> dict[str, Tensor]:
        """`hidden` (batch, position, d_model): the states after the last layer; with a head, its `logits` as well.

        Logits are (batch, position, last width) of a head that reads each position, else (batch, last width).

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than a stored table holds.
        """
        check_ids("inputs", ids, self.config.vocab)
        hidden = self(ids)
        return {"hidden": hidden, "logits": self.logits(hidden, ids)} if self.config.head else {"hidden": hidden}

    def text_stack(self, ids: Int[Tensor, "batch token"]) -> TextStack:
        """All of its layers."""
        return TextStack("encoder", self.encoder, *self.encoder_inputs(ids))

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run."""
        return {Site.of("encoder", i, "self"): block.self_attention.core for i, block in enumerate(self.encoder)}

    def logits(
        self, hidden: Float[Tensor, "batch position d_model"], ids: Int[Tensor, "batch token"]
    ) -> Float[Tensor, "batch *position width"]:
        """What the head makes of the states after the last layer and its norm."""
        real = ids != self.config.pad_id
        x = hidden
        if self.config.head_reads == "mean":
            x = (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        elif self.config.head_reads == "first":
            x = hidden[:, 0]
        elif self.config.head_reads == "last":
            x = hidden[torch.arange(len(ids)), real.sum(1).clamp(min=1) - 1]
        for i, linear in enumerate(self.head):
            x = linear(_ACTIVATIONS[self.config.head_activation](x) if i else x)
        return x

    def _add_positions(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        if self.config.position_axis == "batch":
            return self.positions(x.transpose(0, 1)).transpose(0, 1)
        return self.positions(x)
