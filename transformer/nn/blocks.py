"""The blocks that encoders and decoders stack: attention and a feed-forward net, each with residual and norm.

Each sub-layer takes two lines: `h = residual.reads(x)`, then `x = residual(x, sublayer(h))`. With the norm before, that
is x + sublayer(norm(x)); with the norm after, norm(x + sublayer(x)).

Source: Vaswani et al. 2017, section 3.1 (norm after); Xiong et al. 2020 (norm before).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.nn.attention import KeysValues, MultiHeadAttention
from transformer.nn.fused import Linear
from transformer.nn.masks import Mask
from transformer.nn.norms import layer_norm

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
"""What stands between the two maps of a feed-forward net; `gelu_tanh` is the approximation that GPT-2 computes."""


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Sizes and dialect of one block, which the configs of models inherit.

    `d_k` and `d_v` of 0 stand for d_model / n_heads, `attention_scale` of 0 for d_k^-0.5. `norm` is `torch` or
    `annotated`, `activation` one of `ACTIVATIONS`.
    """

    d_model: int = 512
    n_heads: int = 8
    d_k: int = 0
    d_v: int = 0
    d_ff: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: str = "torch"
    norm_eps: float = 1e-5
    norm_first: bool = False
    attention_bias: bool = True
    attention_scale: float = 0.0
    activation: str = "relu"

    @property
    def head_sizes(self) -> tuple[int, int]:
        """Numbers of each head's queries and keys, and of its values."""
        return self.d_k or self.d_model // self.n_heads, self.d_v or self.d_model // self.n_heads


def dropped(dropout: nn.Dropout, x: Tensor) -> Tensor:
    """`dropout(x)`, which is `x` itself where nothing is trained: asking the module takes longer than adding does."""
    return dropout(x) if dropout.training else x


class FeedForward(nn.Module):
    """The same two linear maps at every position, up to d_ff and down again, with an activation between them."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.widen = Linear(config.d_model, config.d_ff)
        self.narrow = Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Position by position: none sees another."""
        return self.narrow(dropped(self.dropout, self.hidden(x)))

    def hidden(self, x: Float[Tensor, "*batch position d_model"]) -> Float[Tensor, "*batch position d_ff"]:
        """Its hidden units after their activation."""
        return self.widen.relu(x) if self.activation is F.relu else self.activation(self.widen(x))


class Residual(nn.Module):
    """The residual connection around one sub-layer, with its norm before the sub-layer or after the sum."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.norm = layer_norm(config.norm, config.d_model, config.norm_eps)
        self.norm_first = config.norm_first
        self.dropout = nn.Dropout(config.dropout)

    def reads(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """What the sub-layer reads: norm(x) with the norm before, else x itself."""
        return self.norm(x) if self.norm_first else x

    def forward(
        self, x: Float[Tensor, "batch position d_model"], found: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position d_model"]:
        """x plus what the sub-layer found, and its norm where that comes after."""
        x = x + dropped(self.dropout, found)
        return x if self.norm_first else self.norm(x)


def _attention(config: BlockConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.n_heads,
        *config.head_sizes,
        config.attention_bias,
        config.attention_dropout,
        config.attention_scale,
    )


@dataclass
class PastCache:
    """What one block keeps of its past between steps: keys and values, None before the first step."""

    past: KeysValues | None = None

    @property
    def length(self) -> int:
        """How many positions have passed."""
        return 0 if self.past is None else self.past.k.shape[2]

    def extended(self, new: KeysValues) -> KeysValues:
        """Keys and values of the past and of new positions, which belong to the past from now on."""
        if self.past is None:
            self.past = new
        else:
            self.past.append(new.k, new.v)
        return self.past


class Block(nn.Module):
    """Self-attention, and a feed-forward net at each position, each with its residual."""

    self_attention: MultiHeadAttention
    self_residual: Residual
    feed_forward: FeedForward
    feed_forward_residual: Residual

    def attend(
        self, x: Float[Tensor, "batch position d_model"], mask: Mask, cache: PastCache | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """Every position looks at all that `mask` shows; new positions may go on from `cache`, which grows by them."""
        h = self.self_residual.reads(x)
        past = self.self_attention.keys_values(h, 0 if cache is None else cache.length)
        if cache is not None:
            past = cache.extended(past)
        return self.self_residual(x, self.self_attention(h, past, mask))

    def feed(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """The feed-forward net at each position."""
        return self.feed_forward_residual(x, self.feed_forward(self.feed_forward_residual.reads(x)))


class EncoderBlock(Block):
    """One layer of an encoder, or of a decoder alone."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Float[Tensor, "batch position d_model"], mask: Mask, cache: PastCache | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """Attend, then feed."""
        return self.feed(self.attend(x, mask, cache))


@dataclass
class BlockCache(PastCache):
    """What one decoder block keeps between steps: its past, and keys and values of the source."""

    source: KeysValues = field(kw_only=True)


class DecoderBlock(Block):
    """One layer of the decoder of an encoder-decoder: between the two, every position looks at the source."""

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
        source: KeysValues,
        past_mask: Mask,
        source_mask: Mask,
        cache: BlockCache | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """One layer of the decoder over a target, or over new positions that go on from `cache`, which grows by them.

        `source` is what this block's cross-attention makes of the encoder's output.
        """
        return self.feed(self.cross(self.attend(x, past_mask, cache), source, source_mask))

    def cross(
        self, x: Float[Tensor, "batch target d_model"], source: KeysValues, mask: Mask
    ) -> Float[Tensor, "batch target d_model"]:
        """Every position looks at the source."""
        return self.cross_residual(x, self.cross_attention(self.cross_residual.reads(x), source, mask))
