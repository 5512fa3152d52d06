"""Multi-head attention, written so that each step can be watched.

Source: Vaswani et al. 2017, section 3.2. Axes: `query` positions look, `key` positions are looked at.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ConfigError
from .common import Config, option
from .fused import Keys, Linear, Mixed, Queries, Values, fused_attention
from .masks import Mask, masked_softmax

States = Float[Tensor, "batch query d_model"]
"""What each position reads."""


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(Config):
    """Sizes of one attention: `d_k` and `d_v` of 0 stand for d_model / n_heads, `scale` of 0 for d_k^-0.5."""

    n_heads: int = 8
    d_k: int = 0
    d_v: int = 0
    bias: bool = option("attention_bias", True)
    scale: float = option("attention_scale", 0.0)

    def __post_init__(self) -> None:
        self.at_least(1, "n_heads")
        if self.d_k < 0 or self.d_v < 0:
            raise ConfigError("negative_head_sizes", d_k=self.d_k, d_v=self.d_v)

    def head_sizes(self, d_model: int) -> tuple[int, int]:
        """Numbers of each head's queries and keys, and of its values."""
        return self.d_k or d_model // self.n_heads, self.d_v or d_model // self.n_heads


class DotProductAttention(nn.Module):
    """Mix values by how well their keys match a query. Capture hooks this module: its inputs define the weights."""

    def __init__(self, d_k: int, scale: float = 0.0) -> None:
        super().__init__()
        self.scale = scale or d_k**-0.5

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask) -> Mixed:
        """A query sees only the keys that `mask` leaves visible; a query that sees none returns zeros."""
        is_causal = mask.causal and mask.keys is None and q.shape[2] == k.shape[2]
        visible = None if is_causal else mask.dense(q.shape[2], k.shape[2], q.device)
        return fused_attention(q, k, v, visible, is_causal, self.scale)

    def weights(self, q: Queries, k: Keys, mask: Mask) -> Float[Tensor, "batch head query key"]:
        """The weights that `forward` mixes values by, as a table; a row that sees nothing is all zeros."""
        return masked_softmax(self.scale * q @ k.mT, mask.dense(q.shape[2], k.shape[2], q.device))


@dataclass
class KeysValues:
    """Keys and values of the positions seen so far, one row a hypothesis."""

    k: Keys
    v: Values

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows` of the batch, in that order (a beam that survives may come from any parent)."""
        self.k, self.v = self.k[rows], self.v[rows]


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each over its own projection of queries, keys and values."""

    def __init__(self, d_model: int, config: AttentionConfig) -> None:
        super().__init__()
        n_heads, bias, (d_k, d_v) = config.n_heads, config.bias, config.head_sizes(d_model)
        self.n_heads = n_heads
        self.query = Linear(d_model, n_heads * d_k, bias=bias)
        self.key = Linear(d_model, n_heads * d_k, bias=bias)
        self.value = Linear(d_model, n_heads * d_v, bias=bias)
        self.core = DotProductAttention(d_k, config.scale)
        self.output = Linear(n_heads * d_v, d_model, bias=bias)

    def forward(self, x: States, keys_values: KeysValues, mask: Mask) -> States:
        """Each position of `x` is a query, and takes from the values whose keys `mask` lets it see."""
        q = mask.zero_masked_queries(self.queries(x), keys_values.k.shape[2])
        mixed = self.core(q, keys_values.k, keys_values.v, mask)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def weights(self, x: States, keys_values: KeysValues, mask: Mask) -> Float[Tensor, "batch head query key"]:
        """The attention weights of such a pass; each row sums to 1, or is all zeros where it sees nothing."""
        q = mask.zero_masked_queries(self.queries(x), keys_values.k.shape[2])
        return self.core.weights(q, keys_values.k, mask)

    def queries(self, x: States) -> Queries:
        """What each position looks for."""
        return self._heads(self.query(x))

    def keys_values(self, x: Float[Tensor, "batch key d_model"]) -> KeysValues:
        """What each position is found by, and what it gives; computed once and cached where decoding is stepwise."""
        return KeysValues(self._heads(self.key(x)), self._heads(self.value(x)))

    def _heads(self, x: Float[Tensor, "batch position features"]) -> Float[Tensor, "batch head position d_head"]:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
