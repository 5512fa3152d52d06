"""The softmax of attention one step at a time, with the choices that implementations make differently.

Source: Vaswani et al. 2017, equation 1. With the standard recipe the weights are those of
`transformer.nn.attention`; tests hold every step against torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer.attention.measures import entropy
from transformer.errors import ConfigError

Hiding = Literal["library", "infinity", "large"]

FILLS: dict[Hiding, float] = {"library": -np.inf, "infinity": -np.inf, "large": -1e9}
"""What stands for a hidden score. They differ only in a row in which everything is hidden: all zeros (`library`, as
the fused attention returns it), undefined (`infinity`: 0 / 0), or uniform (`large`)."""


COLDEST, HOTTEST = 0.1, 10.0
"""Temperatures that the lesson can set: below, a row has one weight; above, all of them are the same."""


@dataclass(frozen=True)
class Recipe:
    """How attention is computed: the standard way, or with one thing changed.

    `scaled` divides scores by sqrt(d_k), and `temperature` by one more number; `n_heads` of 0 keeps the layer's own
    number (other numbers split the same parameters differently); `hiding` and `scale_first` say how and when scores
    are hidden; `blind` is a query from which every key is hidden; `dropout` is the probability of dropping a weight,
    drawn from `seed`.
    """

    scaled: bool = True
    temperature: float = 1.0
    n_heads: int = 0
    hiding: Hiding = "library"
    scale_first: bool = True
    blind: int | None = None
    dropout: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not COLDEST <= self.temperature <= HOTTEST:
            raise ConfigError(
                "lesson_temperature_out_of_range", temperature=self.temperature, low=COLDEST, high=HOTTEST
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError("lesson_dropout_no_probability", dropout=self.dropout)
        if self.n_heads < 0:
            raise ConfigError("lesson_negative_heads", n_heads=self.n_heads)

    def factor(self, scale: float) -> float:
        """What scores are multiplied by, in a layer whose own factor is `scale`."""
        return (scale if self.scaled else 1.0) / self.temperature

    @property
    def fill(self) -> float:
        """The score that a hidden cell gets."""
        return FILLS[self.hiding]


@dataclass(frozen=True, eq=False)
class Steps:
    """Every step from queries and keys to the weights that are used, for all heads of one sentence."""

    scores: Float[Tensor, "head query key"]
    scaled: Float[Tensor, "head query key"]
    masked: Float[Tensor, "head query key"]
    weights: Float[Tensor, "head query key"]
    kept: Bool[Tensor, "head query key"]
    used: Float[Tensor, "head query key"]


def softmax_steps(
    q: Float[Tensor, "head query d_k"],
    k: Float[Tensor, "head key d_k"],
    visible: Bool[Tensor, "query key"],
    scale: float,
    recipe: Recipe,
) -> Steps:
    """Dot products, scale, mask, softmax, dropout; `scaled` and `masked` come in the order that the recipe asks for.

    Each row of `weights` sums to 1, unless it sees nothing; rows of `used` sum to 1 without dropout only.
    """
    scores = q @ k.transpose(-1, -2)
    factor = recipe.factor(scale)
    if recipe.scale_first:
        scaled = scores * factor
        masked = last = scaled.masked_fill(~visible, recipe.fill)
    else:
        masked = scores.masked_fill(~visible, recipe.fill)
        scaled = last = masked * factor
    weights = last.softmax(-1)
    if recipe.hiding == "library":
        weights = weights.masked_fill(~visible.any(-1, keepdim=True), 0.0)
    kept = _kept(weights, recipe)
    used = torch.where(kept, weights / (1 - recipe.dropout), torch.zeros_like(weights))
    return Steps(scores, scaled, masked, weights, kept, used)


def entropy_curve(
    q: Float[Tensor, "query d_k"],
    k: Float[Tensor, "key d_k"],
    visible: Bool[Tensor, "query key"],
    scale: float,
    recipe: Recipe,
    temperatures: Sequence[float],
) -> Float[np.ndarray, "temperature query"]:
    """Entropy of each row of one head, in nats, at every temperature; nothing else of the recipe changes.

    NaN for a row that sees nothing.
    """
    steps = [softmax_steps(q[None], k[None], visible, scale, replace(recipe, temperature=t)) for t in temperatures]
    return np.stack([entropy(one.weights[0].numpy()) for one in steps])


def _kept(weights: Tensor, recipe: Recipe) -> Tensor:
    if not recipe.dropout:
        return torch.ones_like(weights, dtype=torch.bool)
    draw = torch.rand(weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(recipe.seed))
    return draw >= recipe.dropout
