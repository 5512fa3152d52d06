"""Positions: how a model that sees a set is told the order.

Source: Vaswani et al. 2017, section 3.5 (sinusoidal); Gehring et al. 2017 (learned).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import InputError
from .common import Config, option


def sinusoidal_table(length: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "position d_model"]:
    """Row p holds sin(p / base^(2i/d)) in dimension 2i and the cosine in 2i + 1; float64, so it can be cast down."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    pair = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position / base ** (pair / d_model)
    table = torch.zeros(length, d_model, dtype=torch.float64)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : d_model // 2]
    return table


def doubled_table(length: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "position d_model"]:
    """A known bug of published code: dimension j turns with p / base^(2j/d), though j is the doubled index already.

    So sine and cosine of a pair no longer share an angle, and half of the dimensions hardly move. Checkpoints that
    were trained with it need it.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    dimension = torch.arange(d_model, dtype=torch.float64)
    angle = position / base ** (2 * dimension / d_model)
    return torch.where(dimension % 2 == 0, angle.sin(), angle.cos())


def halved_table(length: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "position d_model"]:
    """The paper's numbers in another order: all sines, then all cosines, as Marian and Pegasus have them."""
    table = sinusoidal_table(length, d_model, base)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


def tensor2tensor_table(length: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "position d_model"]:
    """As the paper's authors programmed it (Tensor2Tensor): all sines, then all cosines.

    Dimension j of half = d/2 turns with p / base^(j / (half - 1)).
    """
    half = d_model // 2
    slowing = torch.arange(half, dtype=torch.float64) / max(1, half - 1)
    angle = torch.arange(length, dtype=torch.float64)[:, None] / base**slowing
    table = torch.zeros(length, d_model, dtype=torch.float64)
    table[:, :half], table[:, half : 2 * half] = angle.sin(), angle.cos()
    return table


def fairseq_table(length: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "position d_model"]:
    """Tensor2Tensor's table from its row 2 on: fairseq counts positions from the id after padding, which is 1."""
    return tensor2tensor_table(length + 2, d_model, base)[2:]


def no_table(length: int, d_model: int) -> Float[Tensor, "position d_model"]:
    """No positions at all: the model sees a set."""
    return torch.zeros(length, d_model, dtype=torch.float64)


Formula = Callable[[int, int], Tensor]
FORMULAS: dict[str, Formula] = {
    "sinusoidal": sinusoidal_table,
    "doubled": doubled_table,
    "halved": halved_table,
    "tensor2tensor": tensor2tensor_table,
    "fairseq": fairseq_table,
    "none": no_table,
}
"""Fixed tables by name, the paper's first: each is computed from a length and a width."""

POSITION_KINDS = (*FORMULAS, "learned", "stored")
"""Every way to give positions: formulas, and tables of numbers."""


@dataclass(frozen=True, kw_only=True)
class PositionConfig(Config):
    """Positions: the paper's `sinusoidal` table or another of `FORMULAS`, a `learned` or a `stored` one.

    `max_length` rows are kept ready; a table of numbers has no more.
    """

    kind: str = option("positions", "sinusoidal")
    max_length: int = 512

    def __post_init__(self) -> None:
        self.at_least(1, "max_length")
        self.one_of("kind", POSITION_KINDS)


class Positions(nn.Module):
    """Add a row of a table to each position.

    A formula's table has no end and is no parameter; others are `learned`, or `stored` in a checkpoint.
    """

    table: Tensor

    def __init__(self, config: PositionConfig, d_model: int, length: int = 0) -> None:
        """`length` rows are ready (0: as many as the config says)."""
        super().__init__()
        length = length or config.max_length
        self.formula = FORMULAS.get(config.kind)
        if self.formula:
            self.register_buffer("table", self.formula(length, d_model), persistent=False)
            return
        table = torch.empty(length, d_model)
        nn.init.normal_(table, std=d_model**-0.5)
        self.table = nn.Parameter(table, requires_grad=config.kind == "learned")

    def forward(
        self, x: Float[Tensor, "batch position d_model"], start: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """Add rows `start`, `start + 1`, ...; past the ready ones, a formula computes more on the spot.

        Raises:
            InputError: a position lies past the end of a table of numbers.
        """
        table, stop = self.table, start + x.shape[1]
        if stop > len(table):
            if self.formula is None:
                raise InputError("past_the_position_table", asked=stop, rows=len(table))
            table = self.formula(stop, x.shape[2]).to(x.device)
        return x + table[start:stop].to(x.dtype)
