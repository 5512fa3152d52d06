"""Rotary positions: queries and keys are turned by angles that grow with their place, so that scores know distances.

Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class Turns:
    """By how much each pair of numbers is turned at each position.

    `halves`: number i is paired with the one half of the turned numbers on; else with its neighbour. Numbers past those
    that are turned stay as they are.
    """

    angles: Float[Tensor, "position pair"]
    halves: bool

    @classmethod
    def of(cls, rates: Float[Tensor, " pair"], length: int, halves: bool, start: int = 0) -> "Turns":
        """Position p turns pair i by p times its rate; the first of `length` positions is `start`."""
        places = torch.arange(start, start + length, dtype=rates.dtype, device=rates.device)
        return cls(places[:, None] * rates, halves)

    def turned(self, x: Float[Tensor, "batch head position d_head"]) -> Float[Tensor, "batch head position d_head"]:
        """Every position's numbers, turned."""
        size = 2 * self.angles.shape[1]
        part, rest = x[..., :size], x[..., size:]
        a, b = part.chunk(2, dim=-1) if self.halves else (part[..., 0::2], part[..., 1::2])
        cos, sin = self.angles.cos(), self.angles.sin()
        pairs = a * cos - b * sin, b * cos + a * sin
        whole = torch.cat(pairs, dim=-1) if self.halves else torch.stack(pairs, dim=-1).flatten(-2)
        return torch.cat([whole, rest], dim=-1)


class Rotary(nn.Module):
    """What the queries and keys of all layers are turned by; rates fall from 1 to about 1/10,000, as in the paper."""

    def __init__(self, pairs: int, halves: bool) -> None:
        super().__init__()
        self.rates, self.halves = nn.Parameter(torch.empty(pairs), requires_grad=False), halves
        if not self.rates.is_meta:  # whose numbers are as many as a config that nobody has checked yet says
            self.rates.copy_(10_000.0 ** -(torch.arange(pairs, dtype=torch.float64) / pairs))

    def forward(
        self, x: Float[Tensor, "batch head position d_head"], start: int
    ) -> Float[Tensor, "batch head position d_head"]:
        """Turned by their places, the first of which is `start`."""
        return Turns.of(self.rates, x.shape[2], self.halves, start).turned(x)
