"""An encoder, or a decoder alone, of the newer kind: rotary positions, norms without a mean, gated nets, few biases.

Source: Su et al. 2021 (rotary positions); Zhang and Sennrich 2019 (norm by the root of the mean square); Shazeer 2020,
"GLU Variants Improve Transformer".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer.errors import ConfigError
from transformer.layers import masks
from transformer.layers.attention import DotProductAttention
from transformer.layers.blocks import ACTIVATIONS
from transformer.layers.masks import Mask
from transformer.layers.norms import RootMeanSquareNorm
from transformer.layers.positions import POSITION_KINDS, positions
from transformer.layers.rotary import Turns
from transformer.models.common import at_least, check_ids, one_of
from transformer.models.protocols import Abilities
from transformer.sites import Site

NORMS = ("torch", "rms")


@dataclass(frozen=True)
class RotaryConfig:
    """Everything that tells one such model from another.

    `rotary` pairs of each head's numbers are turned (0: none), neighbours or `rotary_halves`; with `rotary_values`, so
    are those of values. `norm` is `torch` (nn.LayerNorm, with `norm_eps`) or `rms`; so are `norm_after_embedding` and
    `norm_after_stack`, or empty where there is none. A `gated` net multiplies its hidden units by the activation of
    others, which also read its input. `positions` are those that are added
    to the embedding beside. Queries, keys and values have biases with an `attention_bias`; an `attention_scale` of 0
    stands for d_k^-0.5. `pad_id` of -1 says that no id is padding.

    Raises:
        ConfigError: sizes that do not fit together, or an option that is not known.
    """

    vocab: int
    d_model: int
    n_heads: int
    d_k: int
    d_v: int
    d_ff: int
    n_layers: int
    writes: int
    rotary: int = 0
    rotary_halves: bool = False
    rotary_values: bool = False
    norm: str = "torch"
    norm_eps: float = 1e-5
    norm_first: bool = True
    norm_after_embedding: str = ""
    norm_after_stack: str = ""
    gated: bool = False
    activation: str = "gelu"
    attention_bias: bool = False
    attention_scale: float = 0.0
    output_bias: bool = False
    positions: str = "none"
    max_length: int = 512
    causal: bool = False
    pad_id: int = -1

    def __post_init__(self) -> None:
        sizes = ("vocab", "d_model", "n_heads", "d_k", "d_v", "d_ff", "n_layers", "writes", "max_length")
        at_least(self, 1, *sizes)
        at_least(self, 0, "rotary")
        one_of(self, "norm", NORMS)
        one_of(self, "norm_after_embedding", ("", *NORMS))
        one_of(self, "norm_after_stack", ("", *NORMS))
        one_of(self, "activation", tuple(ACTIVATIONS))
        one_of(self, "positions", POSITION_KINDS)
        if 2 * self.rotary > (min(self.d_k, self.d_v) if self.rotary_values else self.d_k):
            raise ConfigError("rotary_past_head", rotary=self.rotary, d_k=self.d_k, d_v=self.d_v)


class RotaryBlock(nn.Module):
    """Every position looks at every other, by distance; then a net at each position, gated or not."""

    def __init__(self, config: RotaryConfig) -> None:
        super().__init__()
        self.config = config
        d_model, keys, values = config.d_model, config.n_heads * config.d_k, config.n_heads * config.d_v
        self.query, self.key = (nn.Linear(d_model, keys, config.attention_bias) for _ in range(2))
        self.value = nn.Linear(d_model, values, config.attention_bias)
        self.output = nn.Linear(values, d_model, config.output_bias)
        self.core = DotProductAttention(config.d_k, scale=config.attention_scale)
        self.attention_norm, self.net_norm = (_norm(config.norm, config) for _ in range(2))
        self.widen, self.narrow = nn.Linear(d_model, config.d_ff), nn.Linear(config.d_ff, d_model)
        self.gate = nn.Linear(d_model, config.d_ff) if config.gated else None

    def forward(
        self, x: Float[Tensor, "batch position d_model"], mask: Mask, turns: Turns | None
    ) -> Float[Tensor, "batch position d_model"]:
        """One layer."""
        if self.config.norm_first:
            x = x + self._mixed(self.attention_norm(x), mask, turns)
            return x + self._net(self.net_norm(x))
        x = self.attention_norm(x + self._mixed(x, mask, turns))
        return self.net_norm(x + self._net(x))

    def _mixed(
        self, x: Float[Tensor, "batch position d_model"], mask: Mask, turns: Turns | None
    ) -> Float[Tensor, "batch position d_model"]:
        heads = (part(x).unflatten(-1, (self.config.n_heads, -1)).transpose(1, 2) for part in self._maps)
        q, k, v = heads
        if turns is not None:
            q, k, v = turns.turned(q), turns.turned(k), turns.turned(v) if self.config.rotary_values else v
        found: Tensor = self.output(self.core(q, k, v, mask).transpose(1, 2).flatten(2))
        return found

    @property
    def _maps(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.query, self.key, self.value

    def _net(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        act, wide = ACTIVATIONS[self.config.activation], self.widen(x)
        found: Tensor = self.narrow(act(wide) if self.gate is None else wide * act(self.gate(x)))
        return found


class RotaryModel(nn.Module):
    """Ids in, states and scores of tokens out."""

    architecture: ClassVar = "rotary"
    abilities: ClassVar = Abilities()

    def __init__(self, config: RotaryConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.d_model)
        self.positions = positions(config.positions, config.d_model, config.max_length)
        self.embedding_norm = _norm(config.norm_after_embedding, config)
        self.rates = nn.Parameter(torch.zeros(config.rotary), requires_grad=False) if config.rotary else None
        layers = nn.ModuleList(RotaryBlock(config) for _ in range(config.n_layers))
        self.layers = cast(Sequence[RotaryBlock], layers)
        self.encoder_norm = _norm(config.norm_after_stack, config)
        self.head = nn.Linear(config.d_model, config.writes)

    def forward(self, ids: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position d_model"]:
        """What each position holds after the last layer and its norm."""
        x = self.embedding_norm(self.positions(self.embedding(ids)))
        mask = replace(masks.padding(ids, self.config.pad_id), causal=self.config.causal)
        turns = None if self.rates is None else Turns.of(self.rates, ids.shape[1], self.config.rotary_halves)
        for layer in self.layers:
            x = layer(x, mask, turns)
        found: Tensor = self.encoder_norm(x)
        return found

    def outputs(self, ids: Int[Tensor, "batch position"]) -> dict[str, Tensor]:
        """`hidden` (batch, position, d_model): the states after the last layer; `logits`, scores of tokens from each.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than a stored table holds.
        """
        check_ids("inputs", ids, self.config.vocab)
        hidden = self(ids)
        return {"hidden": hidden, "logits": self.head(hidden)}

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run."""
        return {Site.of("encoder", i, "self"): layer.core for i, layer in enumerate(self.layers)}


def _norm(kind: str, config: RotaryConfig) -> nn.Module:
    """The norm called so; nothing where there is none."""
    if not kind:
        return nn.Identity()
    return RootMeanSquareNorm(config.d_model) if kind == "rms" else nn.LayerNorm(config.d_model, eps=config.norm_eps)
