"""The blocks that encoders and decoders stack: attention and a feed-forward net, each with residual and norm.

Each sub-layer takes two lines: `h = residual.reads(x)`, then `x = residual(x, sublayer(h))`. With the norm before, that
is x + sublayer(norm(x)); with the norm after, norm(x + sublayer(x)).

Source: Vaswani et al. 2017, section 3.1 (norm after); Xiong et al. 2020 (norm before).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import ConfigError
from ..sites import Site
from .attention import AttentionConfig, DotProductAttention, KeysValues, MultiHeadAttention
from .common import Config
from .fused import Linear
from .masks import Mask
from .positions import PositionConfig

States = Float[Tensor, "batch position d_model"]
TargetStates = Float[Tensor, "batch target d_model"]


class AnnotatedLayerNorm(nn.Module):
    """Layer norm of The Annotated Transformer: the deviation is unbiased (n - 1) and `eps` is added to it.

    `torch.nn.LayerNorm` divides by the square root of (biased variance + eps); with few features the two differ
    visibly. Source: The Annotated Transformer (Rush 2018; Huang et al. 2022), class LayerNorm.
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Centre and scale each position by its own mean and deviation."""
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / (x.std(-1, keepdim=True) + self.eps) + self.bias


def norm_kind(norm: nn.Module) -> Literal["torch", "annotated"]:
    """The form of a model's norm, as configs call it."""
    return "annotated" if isinstance(norm, AnnotatedLayerNorm) else "torch"


def deviation(norm: nn.Module, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch 1"]:
    """What `norm` divides each position of `x` by, once it is centred: its deviation, as that norm defines it."""
    eps: float = norm.eps  # type: ignore[assignment]  # torch's module declares it without saying so to types
    if norm_kind(norm) == "annotated":
        return x.std(-1, keepdim=True) + eps
    return (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}
"""What stands between the two maps of a feed-forward net; `gelu_tanh` is the approximation that GPT-2 computes."""


@dataclass(frozen=True, kw_only=True)
class BlockConfig(Config):
    """Sizes and dialect of a block: `norm` is `torch` or `annotated`, `activation` one of `ACTIVATIONS`.

    Raises:
        ConfigError: sizes that do not fit together, or an option that is not known.
    """

    d_model: int = 512
    attention: AttentionConfig = AttentionConfig()
    d_ff: int = 2048
    activation: str = "relu"
    dropout: float = 0.1
    norm: str = "torch"
    norm_eps: float = 1e-5
    norm_first: bool = False

    def __post_init__(self) -> None:
        self.at_least(1, "d_model", "d_ff")
        self.one_of("norm", ("torch", "annotated"))
        self.one_of("activation", tuple(ACTIVATIONS))
        self.probability("dropout")
        heads = self.attention
        if not (heads.d_k and heads.d_v) and self.d_model % heads.n_heads:
            raise ConfigError("heads_need_sizes", d_model=self.d_model, n_heads=heads.n_heads)

    def new_norm(self) -> nn.Module:
        """A norm of this dialect."""
        if self.norm == "annotated":
            return AnnotatedLayerNorm(self.d_model, self.norm_eps)
        return nn.LayerNorm(self.d_model, eps=self.norm_eps)


@dataclass(frozen=True, kw_only=True)
class StackConfig(Config):
    """The blocks of a model and what stands around them, which the configs of models inherit.

    `scale_embedding` multiplies embeddings by sqrt(d_model). `pad_id` of -1 says that no id is padding.
    """

    block: BlockConfig = BlockConfig()
    positions: PositionConfig = PositionConfig()
    scale_embedding: bool = False
    norm_after_stack: bool = False
    pad_id: int = -1

    @property
    def max_length(self) -> int:
        """Most positions of what is read, as every config of a model says."""
        return self.positions.max_length

    def scaled(self, embedded: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Embeddings as this dialect multiplies them; positions are not added yet."""
        return embedded * self.block.d_model**0.5 if self.scale_embedding else embedded


class FeedForward(nn.Module):
    """The same two linear maps at every position, up to d_ff and down again, with an activation between them."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.widen = Linear(config.d_model, config.d_ff)
        self.narrow = Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: States) -> States:
        """Position by position: none sees another."""
        return self.narrow(self.dropout(self.hidden(x)))

    def hidden(self, x: Float[Tensor, "*batch position d_model"]) -> Float[Tensor, "*batch position d_ff"]:
        """Its hidden units after their activation."""
        return self.widen.relu(x) if self.activation is F.relu else self.activation(self.widen(x))


class Residual(nn.Module):
    """The residual connection around one sub-layer, with its norm before the sub-layer or after the sum."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.norm = config.new_norm()
        self.norm_first = config.norm_first
        self.dropout = nn.Dropout(config.dropout)

    def reads(self, x: States) -> States:
        """What the sub-layer reads: norm(x) with the norm before, else x itself."""
        return self.norm(x) if self.norm_first else x

    def forward(self, x: States, found: States) -> States:
        """x plus what the sub-layer found, and its norm where that comes after."""
        x = x + self.dropout(found)
        return x if self.norm_first else self.norm(x)


@dataclass
class BlockCache:
    """What one block keeps between steps: keys and values of its past, None before the first step, and of a source."""

    past: KeysValues | None = None
    source: KeysValues | None = None

    def extended(self, new: KeysValues) -> KeysValues:
        """Keys and values of the past and of new positions, which belong to the past from now on."""
        if self.past is not None:
            new = KeysValues(torch.cat([self.past.k, new.k], dim=2), torch.cat([self.past.v, new.v], dim=2))
        self.past = new
        return new

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows` of the past, in that order."""
        if self.past is not None:
            self.past.reorder(rows)


class Block(nn.Module):
    """Self-attention, and a feed-forward net at each position, each with its residual."""

    self_attention: MultiHeadAttention
    self_residual: Residual
    feed_forward: FeedForward
    feed_forward_residual: Residual

    def attend(self, x: States, mask: Mask, cache: BlockCache | None = None) -> States:
        """Every position looks at all that `mask` shows; new positions may go on from `cache`, which grows by them."""
        h = self.self_residual.reads(x)
        past = self.self_attention.keys_values(h)
        if cache is not None:
            past = cache.extended(past)
        return self.self_residual(x, self.self_attention(h, past, mask))

    def feed(self, x: States) -> States:
        """The feed-forward net at each position."""
        return self.feed_forward_residual(x, self.feed_forward(self.feed_forward_residual.reads(x)))


class EncoderBlock(Block):
    """One layer of an encoder, or of a decoder alone."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.attention)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: States, mask: Mask, cache: BlockCache | None = None) -> States:
        """Attend, then feed."""
        return self.feed(self.attend(x, mask, cache))


class DecoderBlock(Block):
    """One layer of the decoder of an encoder-decoder: between the two, every position looks at the source."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.attention)
        self.self_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(config.d_model, config.attention)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: TargetStates, source: KeysValues, past_mask: Mask, source_mask: Mask, cache: BlockCache | None = None
    ) -> TargetStates:
        """One layer of the decoder over a target, or over new positions that go on from `cache`, which grows by them.

        `source` is what this block's cross-attention makes of the encoder's output.
        """
        return self.feed(self.cross(self.attend(x, past_mask, cache), source, source_mask))

    def cross(self, x: TargetStates, source: KeysValues, mask: Mask) -> TargetStates:
        """Every position looks at the source."""
        return self.cross_residual(x, self.cross_attention(self.cross_residual.reads(x), source, mask))


class TextStack(NamedTuple):
    """The blocks that read a text: the `name` of their sites, what the first one reads, and what all may see."""

    name: str
    blocks: Sequence[EncoderBlock]
    x: States
    mask: Mask


def stacked(kind: Callable[[BlockConfig], Block], config: BlockConfig, n_layers: int) -> Any:
    """A sequence of so many blocks of a kind, one on the other."""
    return nn.ModuleList(kind(config) for _ in range(n_layers))


class Stacks(nn.Module):
    """A model of blocks: its text (of an encoder-decoder: its source) is read by an `encoder`, else by a `decoder`."""

    def text_stack(self, ids: Int[Tensor, "batch token"]) -> TextStack:
        """The stack that reads the text, and what it is about to read."""
        name = "encoder" if hasattr(self, "encoder") else "decoder"
        return TextStack(name, getattr(self, name), *getattr(self, f"{name}_inputs")(ids))

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site (`encoder.0.self`, `decoder.2.cross`), in the order they run."""
        sites = {}
        for stack in ("encoder", "decoder"):
            for i, block in enumerate(getattr(self, stack, ())):
                sites[Site.of(stack, i, "self")] = block.self_attention.core
                if isinstance(block, DecoderBlock):
                    sites[Site.of(stack, i, "cross")] = block.cross_attention.core
        return sites
