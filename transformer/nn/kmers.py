"""k-mers: short windows of a sequence, gathered by convolutions of several widths.

Windows of all widths stand one after the other along the length: widths 3 and 4 over 10 letters give 8 + 7 = 15.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.errors import InputError
from transformer.nn.attention import DotProductAttention
from transformer.nn.fused import Linear
from transformer.nn.masks import Mask


class Window(NamedTuple):
    """The letters `start` to `start + width - 1` (0-based) that one position of the encoder stands for."""

    start: int
    width: int


def windows(length: int, widths: Sequence[int]) -> list[Window]:
    """The windows over `length` letters, in the order of the encoder's positions: by width, then by start.

    Raises:
        InputError: the sequence is shorter than the widest window.
    """
    if length < max(widths):
        raise InputError("letters_few", found=length, needed=max(widths))
    return [Window(start, width) for width in widths for start in range(length - width + 1)]


class KmerConvolutions(nn.Module):
    """One convolution a width over the embedded letters, the results side by side, then a norm."""

    def __init__(self, d_model: int, widths: Sequence[int], norm_eps: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(d_model, d_model, width) for width in widths)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)

    def forward(self, x: Float[Tensor, "batch letter d_model"]) -> Float[Tensor, "batch window d_model"]:
        """One vector for each window."""
        letters = x.transpose(1, 2)
        return self.norm(torch.cat([convolve(letters) for convolve in self.convolutions], dim=2).transpose(1, 2))

    def along(
        self, x: Float[Tensor, "1 letter d_model"], added: Float[Tensor, "1 place d_model"], starts: Int[Tensor, " row"]
    ) -> Float[Tensor, "row window d_model"]:
        """`forward` of the letters from each of `starts` on, plus what is `added` to each place of such a stretch."""
        parts = []
        for convolve in self.convolutions:
            places = convolve(added.transpose(1, 2))[0].T
            rows = starts[:, None] + torch.arange(len(places), device=starts.device)
            kernel = cast("Tensor", convolve.weight)
            parts.append(F.embedding(rows, F.conv1d(x.transpose(1, 2), kernel)[0].T) + places)  # faster than an index
        return self.norm(torch.cat(parts, dim=1))


def whole_windows(real: Bool[Tensor, "batch letter"], widths: Sequence[int]) -> Bool[Tensor, "batch window"]:
    """True for windows that hold no padding."""
    return torch.cat([real.unfold(1, width, 1).all(-1) for width in widths], dim=1)


class MeanPooling(nn.Module):
    """The average over real windows; each counts the same."""

    def forward(self, x: Float[Tensor, "batch window d_model"], mask: Mask) -> Float[Tensor, "batch d_model"]:
        """One vector a sequence."""
        if mask.keys is None:
            return x.mean(1)
        share = mask.keys.to(x.dtype) / mask.keys.sum(1, keepdim=True).clamp(min=1)
        return (x * share[:, :, None]).sum(1)


class AttentionPooling(nn.Module):
    """Weighted averages over windows: each head attends to them with learned queries (the weights of each sum to 1)."""

    def __init__(self, d_model: int, n_heads: int, n_questions: int = 1) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.question = nn.Parameter(torch.empty(n_heads, n_questions, d_model // n_heads))
        nn.init.normal_(self.question)
        self.key = Linear(d_model, d_model)
        self.core = DotProductAttention(d_model // n_heads)

    def forward(self, x: Float[Tensor, "batch window d_model"], mask: Mask) -> Float[Tensor, "batch pooled"]:
        """One vector a sequence: each head's share of the features, averaged by each of that head's queries."""
        keys, values = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in (self.key(x), x))
        return self.core(self.question.expand(len(x), -1, -1, -1), keys, values, mask).flatten(1)
