"""An encoder alone: ids in, one vector for each position out. A decoder alone: it scores the token that comes next.

Source: Vaswani et al. 2017, left half of figure 1; torch.nn.TransformerEncoder. Radford et al. 2019 (GPT-2); Liu et al.
2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3 (a decoder without an encoder).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import ConfigError
from . import masks
from .blocks import BlockCache, BlockConfig, EncoderBlock, StackConfig, Stacks, stacked
from .common import changed_context, check_ids, log_probs
from .masks import Mask
from .positions import PositionConfig, Positions
from .protocols import Abilities, TokenInterface

Ids = Int[Tensor, "batch token"]
Shown = Bool[Tensor, "batch token"] | None
Scores = Float[Tensor, "batch token vocab"]
States = Float[Tensor, "batch position d_model"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(StackConfig):
    """Everything that tells one encoder from another.

    `position_axis` is `sequence` for what the paper means: the p-th token gets row p of the table. `batch` is a known
    bug of published code: the b-th sequence of the batch gets row b at every position, so the model does not see order.
    `causal` hides the future. `head` lists the widths of linear maps with ReLU between, which make logits of the state
    of each position after the layers.
    """

    vocab: int
    n_layers: int = 6
    position_axis: str = "sequence"
    causal: bool = False
    head: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", tuple(self.head))  # JSON brings a list
        self.at_least(1, "vocab", "n_layers")
        self.one_of("position_axis", ("sequence", "batch"))
        if any(width < 1 for width in self.head):
            raise ConfigError("head_widths", head=str(self.head))


class Encoder(Stacks):
    """Every position reads every other, layer by layer."""

    architecture: ClassVar = "encoder"
    abilities: ClassVar = Abilities(masks=True, hides=True, blocks=True)

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        block, d_model = config.block, config.block.d_model
        self.embedding = nn.Embedding(config.vocab, d_model)
        self.positions = Positions(config.positions, d_model)
        self.dropout = nn.Dropout(block.dropout)
        self.encoder: Sequence[EncoderBlock] = stacked(EncoderBlock, block, config.n_layers)
        self.encoder_norm = block.new_norm() if config.norm_after_stack else nn.Identity()
        widths = (d_model, *config.head)
        self.head = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, ids: Ids, shown: Shown = None) -> States:
        """What each position holds after the last layer. Where `shown` is False, no attention sees that position."""
        x, mask = self.encoder_inputs(ids, shown)
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x)

    def encoder_inputs(self, ids: Ids, shown: Shown = None) -> tuple[States, Mask]:
        """What the first layer reads, and what all of them may see."""
        x = self.config.scaled(self.embedding(ids))
        mask = replace(masks.padding(ids, self.config.pad_id, shown), causal=self.config.causal)
        along_batch = self.config.position_axis == "batch"
        placed = self.positions(x.transpose(0, 1)).transpose(0, 1) if along_batch else self.positions(x)
        return self.dropout(placed), mask

    def outputs(self, ids: Ids) -> dict[str, Tensor]:
        """`hidden` (batch, position, d_model): the states after the last layer; with a head, its `logits` as well.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than a stored table holds.
        """
        check_ids("inputs", ids, self.config.vocab)
        hidden = self(ids)
        return {"hidden": hidden, "logits": self.logits(hidden)} if self.config.head else {"hidden": hidden}

    def logits(self, hidden: States) -> Float[Tensor, "batch position width"]:
        """What the head makes of the states after the last layer and its norm."""
        x = hidden
        for i, linear in enumerate(self.head):
            x = linear(x.relu() if i else x)
        return x

    def early_scores(self, state: States, source: Ids) -> Float[Tensor, "batch position width"]:
        """Logits, if this were the state after the last layer."""
        return self.logits(self.encoder_norm(state))


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(StackConfig):
    """Everything that tells one decoder alone from another.

    `tie_projection` scores the vocabulary by the embedding itself.
    """

    vocab: int
    n_layers: int = 6
    block: BlockConfig = BlockConfig(norm_first=True, activation="gelu")
    positions: PositionConfig = PositionConfig(kind="learned")
    norm_after_stack: bool = True
    tie_projection: bool = False
    projection_bias: bool = False

    def __post_init__(self) -> None:
        self.at_least(1, "vocab", "n_layers")


@dataclass
class DecoderText:
    """What has been read of a text that goes on: its ids, and the keys and values of every layer."""

    blocks: list[BlockCache] = field(default_factory=list)
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
            block.reorder(rows)


class Decoder(Stacks):
    """Every position reads itself and those before it, layer by layer, and scores the next token."""

    architecture: ClassVar = "decoder"
    abilities: ClassVar = Abilities(masks=True, hides=True, blocks=True, continues=True)

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        block, d_model = config.block, config.block.d_model
        self.embedding = nn.Embedding(config.vocab, d_model)
        self.positions = Positions(config.positions, d_model)
        self.dropout = nn.Dropout(block.dropout)
        self.decoder: Sequence[EncoderBlock] = stacked(EncoderBlock, block, config.n_layers)
        self.decoder_norm = block.new_norm() if config.norm_after_stack else nn.Identity()
        self.projection = nn.Linear(d_model, config.vocab, bias=config.projection_bias)
        if config.tie_projection:
            self.projection.weight = self.embedding.weight

    def forward(self, ids: Ids, shown: Shown = None) -> Scores:
        """Logits of the token after each position. Where `shown` is False, no attention sees that position."""
        return self.logits(self.hidden(ids, shown))

    def hidden(self, ids: Ids, shown: Shown = None) -> Float[Tensor, "batch token d_model"]:
        """What the projection to the vocabulary reads at each position."""
        x, mask = self.decoder_inputs(ids, shown)
        for block in self.decoder:
            x = block(x, mask)
        normed: Tensor = self.decoder_norm(x)
        return normed

    def decoder_inputs(
        self, ids: Ids, shown: Shown = None, start: int = 0
    ) -> tuple[Float[Tensor, "batch new d_model"], Mask]:
        """What the first layer reads of the tokens from `start` on, and what all layers may see of all of them."""
        x = self.config.scaled(self.embedding(ids[:, start:]))
        x = self.dropout(self.positions(x, start=start))
        return x, masks.causal(ids, self.config.pad_id, shown)

    def logits(self, hidden: Float[Tensor, "*batch position d_model"]) -> Float[Tensor, "*batch position vocab"]:
        """Scores of the vocabulary from states after the last norm."""
        found: Tensor = self.projection(hidden)
        return found

    def early_scores(self, state: Float[Tensor, "batch token d_model"], source: Ids) -> Scores:
        """Logits, if this were the state after the last layer."""
        return self.logits(self.decoder_norm(state))

    def outputs(self, ids: Ids) -> dict[str, Tensor]:
        """`log_probs` (batch, token, vocab) of the token after each position, in nats.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than a stored table holds.
        """
        check_ids("inputs", ids, self.config.vocab)
        return {"log_probs": log_probs(self(ids))}

    def begin(self) -> DecoderText:
        """Stand before the first token of a text."""
        return DecoderText([BlockCache() for _ in self.decoder])

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

    def token_interface(self) -> TokenInterface:
        """The modules where tokens are embedded and scored."""
        return TokenInterface((self.embedding,), self.projection)
