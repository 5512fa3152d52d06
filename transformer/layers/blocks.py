"""The blocks that encoders and decoders stack: attention and a feed-forward net, each with residual and norm.

Source: Vaswani et al. 2017, section 3.1 (norm after); Xiong et al. 2020 (norm before).
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.layers.attention import KeysValues, MultiHeadAttention
from transformer.layers.masks import Mask
from transformer.layers.norms import layer_norm


@dataclass(frozen=True)
class BlockConfig:
    """Sizes and dialect of one block; a model's config makes it."""

    d_model: int
    n_heads: int
    d_k: int
    d_v: int
    d_ff: int
    dropout: float
    attention_dropout: float
    norm_first: bool
    norm: str
    norm_eps: float
    attention_bias: bool
    activation: str


class FeedForward(nn.Module):
    """Transform each position by itself: widen to d_ff, bend, narrow again."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.widen = nn.Linear(config.d_model, config.d_ff)
        self.narrow = nn.Linear(config.d_ff, config.d_model)
        self.activation = F.gelu if config.activation == "gelu" else F.relu
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """The same two linear maps at every position."""
        return self.narrow(self.dropout(self.activation(self.widen(x))))


class Residual(nn.Module):
    """Add what a sub-layer finds to what it was given; normalise before the sub-layer or after the sum."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.norm = layer_norm(config.norm, config.d_model, config.norm_eps)
        self.norm_first = config.norm_first
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "batch position d_model"], sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x + sublayer(norm(x)), or norm(x + sublayer(x))."""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


def _attention(config: BlockConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model, config.n_heads, config.d_k, config.d_v, config.attention_bias, config.attention_dropout
    )


class EncoderBlock(nn.Module):
    """Every position looks at every other, then thinks by itself."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Float[Tensor, "batch position d_model"], mask: Mask
    ) -> Float[Tensor, "batch position d_model"]:
        """One layer of the encoder."""
        x = self.self_residual(x, lambda x: self.self_attention(x, x, mask))
        return self.feed_forward_residual(x, self.feed_forward)


@dataclass
class BlockCache:
    """What one decoder block remembers between steps: its own past, and the source's keys and values."""

    past: KeysValues | None
    source: KeysValues


class DecoderBlock(nn.Module):
    """Every target position looks at its past, then at the source, then thinks by itself."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_residual = Residual(config)
        self.cross_attention = _attention(config)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        past_mask: Mask,
        source_mask: Mask,
    ) -> Float[Tensor, "batch target d_model"]:
        """One layer of the decoder over a whole target."""
        source = self.cross_attention.keys_values(memory)
        return self._run(x, self.self_attention.keys_values, source, past_mask, source_mask)

    def step(
        self, x: Float[Tensor, "batch new d_model"], cache: BlockCache, source_mask: Mask
    ) -> Float[Tensor, "batch new d_model"]:
        """The same layer for new positions only; the past comes from `cache`, which grows by them."""

        def past_and_new(x: Tensor) -> KeysValues:
            new = self.self_attention.keys_values(x)
            if cache.past is None:
                cache.past = new
            else:
                cache.past.append(new.k, new.v)
            return cache.past

        return self._run(x, past_and_new, cache.source, Mask(causal=True), source_mask)

    def _run(
        self,
        x: Tensor,
        past: Callable[[Tensor], KeysValues],
        source: KeysValues,
        past_mask: Mask,
        source_mask: Mask,
    ) -> Tensor:
        x = self.self_residual(x, lambda x: self.self_attention.gather(x, past(x), past_mask))
        x = self.cross_residual(x, lambda x: self.cross_attention.gather(x, source, source_mask))
        return self.feed_forward_residual(x, self.feed_forward)
