"""Convolutions one after the other along a text: which tokens each of what they make stands for."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Stride(NamedTuple):
    """One convolution along a text, of `pool` windows of which the largest numbers go on.

    It reads every `dilation`-th vector, `width` of them.
    """

    reads: int
    makes: int
    width: int
    stride: int = 1
    padding: int = 0
    pool: int = 1
    dilation: int = 1

    @property
    def reach(self) -> int:
        """From the first vector that one window reads to the last."""
        return (self.width - 1) * self.dilation

    @property
    def keeps_length(self) -> bool:
        """Whether it makes one vector for each that it reads."""
        return self.stride == self.pool == 1 and self.reach == 2 * self.padding

    def made(self, length: int) -> int:
        """How many vectors it makes of so many."""
        return max(0, (length + 2 * self.padding - self.reach - 1) // self.stride + 1) // self.pool


def spans(strides: Sequence[Stride], length: int) -> list[tuple[int, int]]:
    """The first token and the one after the last of each vector that the last convolution makes of `length` tokens."""
    count, start, step, reach = length, 0, 1, 1
    for one in strides:
        count = one.made(count)
        start -= one.padding * step
        reach += one.reach * step
        step *= one.stride
        reach += (one.pool - 1) * step
        step *= one.pool
    return [(max(0, start + i * step), min(length, start + i * step + reach)) for i in range(count)]


def least_length(strides: Sequence[Stride]) -> int:
    """The fewest tokens of which something is made."""
    needed = 1
    for one in reversed(strides):
        needed = max(1, (needed * one.pool - 1) * one.stride + one.reach + 1 - 2 * one.padding)
    return needed


class FixedBatchNorm(nn.Module):
    """Batch normalisation as it is once training is over: with the means and variances that were kept.

    Source: Ioffe and Szegedy 2015, algorithm 2.
    """

    def __init__(self, features: int, eps: float) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.mean, self.variance = nn.Parameter(torch.zeros(features)), nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x: Float[Tensor, "batch features position"]) -> Float[Tensor, "batch features position"]:
        """Each feature less its mean, over its deviation."""
        scale = self.weight / (self.variance + self.eps).sqrt()
        return (x - self.mean[:, None]) * scale[:, None] + self.bias[:, None]
