"""Multi-head attention, written so that each step can be watched.

Source: Vaswani et al. 2017, section 3.2. Axes: `query` positions look, `key` positions are looked at.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.nn.fused import Linear, fused_attention
from transformer.nn.masks import Mask, masked_softmax
from transformer.nn.rotary import Rotary


class DotProductAttention(nn.Module):
    """Mix values by how well their keys match a query. Capture hooks this module: its inputs define the weights."""

    def __init__(self, d_k: int, dropout: float = 0.0, scale: float = 0.0) -> None:
        super().__init__()
        self.scale = scale or d_k**-0.5
        self.dropout = dropout

    def forward(
        self,
        q: Float[Tensor, "batch head query d_k"],
        k: Float[Tensor, "batch head key d_k"],
        v: Float[Tensor, "batch head key d_v"],
        mask: Mask,
    ) -> Float[Tensor, "batch head query d_v"]:
        """A query sees only the keys that `mask` leaves visible; a query that sees none returns zeros."""
        is_causal = mask.causal and mask.keys is None and q.shape[2] == k.shape[2]
        visible = None if is_causal else mask.dense(q.shape[2], k.shape[2], q.device)
        return fused_attention(q, k, v, visible, is_causal, self.dropout if self.training else 0.0, self.scale)

    def weights(
        self, q: Float[Tensor, "batch head query d_k"], k: Float[Tensor, "batch head key d_k"], mask: Mask
    ) -> Float[Tensor, "batch head query key"]:
        """The weights that `forward` mixes values by, as a table; a row that sees nothing is all zeros."""
        return masked_softmax(self.scale * q @ k.mT, mask.dense(q.shape[2], k.shape[2], q.device))


@dataclass
class KeysValues:
    """Keys and values of the positions seen so far, one row a hypothesis; grown by each step of cached decoding."""

    k: Float[Tensor, "batch head key d_k"]
    v: Float[Tensor, "batch head key d_v"]

    def append(self, k: Float[Tensor, "batch head new d_k"], v: Float[Tensor, "batch head new d_v"]) -> None:
        """Add new positions at the end."""
        self.k, self.v = torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2)

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows` of the batch, in that order (a beam that survives may come from any parent)."""
        self.k, self.v = self.k[rows], self.v[rows]


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each over its own projection of queries, keys and values.

    Scores are multiplied by `scale`; 0 stands for the paper's d_k^-0.5. With a `rotary`, queries and keys are turned by
    their places.
    """

    rotary: Rotary | None

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_k: int,
        d_v: int,
        bias: bool = True,
        dropout: float = 0.0,
        scale: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads, self.rotary = n_heads, None
        self.query = Linear(d_model, n_heads * d_k, bias=bias)
        self.key = Linear(d_model, n_heads * d_k, bias=bias)
        self.value = Linear(d_model, n_heads * d_v, bias=bias)
        self.core = DotProductAttention(d_k, dropout, scale)
        self.output = Linear(n_heads * d_v, d_model, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch query d_model"], keys_values: KeysValues, mask: Mask
    ) -> Float[Tensor, "batch query d_model"]:
        """Each position of `x` is a query, and takes from the values whose keys `mask` lets it see."""
        mixed = self.core(self._masked_queries(x, keys_values.k.shape[2], mask), keys_values.k, keys_values.v, mask)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def weights(
        self, x: Float[Tensor, "batch query d_model"], keys_values: KeysValues, mask: Mask
    ) -> Float[Tensor, "batch head query key"]:
        """The attention weights of such a pass; each row sums to 1, or is all zeros where it sees nothing."""
        return self.core.weights(self._masked_queries(x, keys_values.k.shape[2], mask), keys_values.k, mask)

    def queries(self, x: Float[Tensor, "batch query d_model"], start: int = 0) -> Float[Tensor, "batch head query d_k"]:
        """What each position, the first of which is `start`, looks for."""
        return self._placed(self._heads(self.query(x)), start)

    def keys_values(self, x: Float[Tensor, "batch key d_model"], start: int = 0) -> KeysValues:
        """What each position is found by, and what it gives; computed once and cached where decoding is stepwise."""
        return KeysValues(self._placed(self._heads(self.key(x)), start), self._heads(self.value(x)))

    def _masked_queries(self, x: Tensor, n_keys: int, mask: Mask) -> Float[Tensor, "batch head query d_k"]:
        return mask.zero_masked_queries(self.queries(x, n_keys - x.shape[1]), n_keys)

    def _placed(self, x: Float[Tensor, "batch head position d_k"], start: int) -> Tensor:
        turned: Tensor = x if self.rotary is None else self.rotary(x, start)
        return turned

    def _heads(self, x: Float[Tensor, "batch position features"]) -> Float[Tensor, "batch head position d_head"]:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
