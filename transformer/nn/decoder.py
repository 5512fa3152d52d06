"""A decoder alone: it reads a text and scores, at each position, the token that comes next.

Source: Radford et al. 2019 (GPT-2); Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section
4.2.3 (a decoder without an encoder).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer.errors import ConfigError
from transformer.nn import masks
from transformer.nn.attention import DotProductAttention
from transformer.nn.blocks import EncoderBlock, PastCache
from transformer.nn.common import at_least, check_ids, log_probs
from transformer.nn.masks import Mask
from transformer.nn.norms import layer_norm
from transformer.nn.positions import positions
from transformer.nn.protocols import Abilities, TextStack, TokenInterface
from transformer.nn.rotary import Rotary
from transformer.nn.run_context import changed_context
from transformer.nn.stacks import StackConfig
from transformer.sites import Site


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(StackConfig):
    """Everything that tells one decoder alone from another.

    `tie_projection` scores the vocabulary by the embedding itself. `rotary` pairs of each head's numbers in queries and
    keys are turned by their positions (0: none), neighbours or `rotary_halves` (Su et al. 2021); `positions` are those
    that are added to the embedding beside.
    """

    vocab: int
    n_layers: int = 6
    norm_first: bool = True
    norm_after_embedding: bool = False
    norm_after_stack: bool = True
    activation: str = "gelu"
    positions: str = "learned"
    rotary: int = 0
    rotary_halves: bool = False
    tie_projection: bool = False
    projection_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "vocab", "n_layers")
        at_least(self, 0, "rotary")
        d_k, d_v = self.head_sizes
        if 2 * self.rotary > d_k:
            raise ConfigError("rotary_past_head", rotary=self.rotary, d_k=d_k, d_v=d_v)


@dataclass
class DecoderText:
    """What has been read of a text that goes on: its ids, and the keys and values of every layer."""

    blocks: list[PastCache] = field(default_factory=list)
    ids: Int[Tensor, "batch position"] | None = None

    @property
    def length(self) -> int:
        """How many tokens have been read."""
        return 0 if self.ids is None else self.ids.shape[1]

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order."""
        if self.ids is not None:
            self.ids = self.ids[rows]
        for block in self.blocks:
            if block.past is not None:
                block.past.reorder(rows)


class Decoder(nn.Module):
    """Every position reads itself and those before it, layer by layer, and scores the next token."""

    architecture: ClassVar = "decoder"
    abilities: ClassVar = Abilities(masks=True, hides=True)
    continues: ClassVar = True

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.d_model)
        self.positions = positions(config.positions, config.d_model, config.max_length)
        self.embedding_norm = self._norm() if config.norm_after_embedding else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.rotary = Rotary(config.rotary, config.rotary_halves) if config.rotary else None
        blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.n_layers))
        self.decoder = cast(Sequence[EncoderBlock], blocks)
        for block in self.decoder:
            block.self_attention.rotary = self.rotary
        self.decoder_norm = self._norm() if config.norm_after_stack else nn.Identity()
        self.projection = nn.Linear(config.d_model, config.vocab, bias=config.projection_bias)
        if config.tie_projection:
            self.projection.weight = self.embedding.weight

    def forward(
        self, ids: Int[Tensor, "batch token"], shown: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch token vocab"]:
        """Logits of the token after each position. Where `shown` is False, no attention sees that position."""
        return self.logits(self.hidden(ids, shown))

    def hidden(
        self, ids: Int[Tensor, "batch token"], shown: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch token d_model"]:
        """What the projection to the vocabulary reads at each position."""
        x, mask = self.decoder_inputs(ids, shown)
        for block in self.decoder:
            x = block(x, mask)
        normed: Tensor = self.decoder_norm(x)
        return normed

    def decoder_inputs(
        self, ids: Int[Tensor, "batch token"], shown: Bool[Tensor, "batch token"] | None = None, start: int = 0
    ) -> tuple[Float[Tensor, "batch new d_model"], Mask]:
        """What the first layer reads of the tokens from `start` on, and what all layers may see of all of them."""
        x = self.embedding(ids[:, start:])
        if self.config.scale_embedding:
            x = x * self.config.d_model**0.5
        x = self.dropout(self.embedding_norm(self.positions(x, start=start)))
        return x, masks.causal(ids, self.config.pad_id, shown)

    def logits(self, hidden: Float[Tensor, "*batch position d_model"]) -> Float[Tensor, "*batch position vocab"]:
        """Scores of the vocabulary from states after the last norm."""
        found: Tensor = self.projection(hidden)
        return found

    def outputs(self, ids: Int[Tensor, "batch token"]) -> dict[str, Tensor]:
        """`log_probs` (batch, token, vocab) of the token after each position, in nats.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than a stored table holds.
        """
        check_ids("inputs", ids, self.config.vocab)
        return {"log_probs": log_probs(self(ids))}

    def begin(self) -> DecoderText:
        """Stand before the first token of a text."""
        return DecoderText([PastCache(None) for _ in self.decoder])

    def read_on(self, new: Int[Tensor, "batch new"], cache: DecoderText) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than a stored table holds.
        """
        check_ids("inputs", new, self.config.vocab)
        start = cache.length
        ids = new if cache.ids is None else torch.cat([cache.ids, new], dim=1)
        x, mask = self.decoder_inputs(ids, start=start)
        with changed_context(position_offset=start):
            for block, cached in zip(self.decoder, cache.blocks, strict=True):
                x = block(x, mask, cached)
        cache.ids = ids
        return self.logits(self.decoder_norm(x[:, -1:]))[:, 0]

    def text_stack(self, ids: Int[Tensor, "batch token"]) -> TextStack:
        """All of its layers."""
        return TextStack("decoder", self.decoder, *self.decoder_inputs(ids))

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site (`decoder.0.self`), in the order they run."""
        return {Site.of("decoder", i, "self"): block.self_attention.core for i, block in enumerate(self.decoder)}

    def token_interface(self) -> TokenInterface:
        """The modules where tokens are embedded and scored."""
        return TokenInterface((self.embedding,), self.projection)

    def _norm(self) -> nn.Module:
        return layer_norm(self.config.norm, self.config.d_model, self.config.norm_eps)
