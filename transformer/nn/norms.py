"""Layer normalisation in the forms that published checkpoints use."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn


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
    """The form of a model's norm, as `layer_norm` calls it."""
    return "annotated" if isinstance(norm, AnnotatedLayerNorm) else "torch"


def deviation(norm: nn.Module, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch 1"]:
    """What `norm` divides each position of `x` by, once it is centred: its deviation, as that norm defines it."""
    eps: float = norm.eps  # type: ignore[assignment]  # torch's module declares it without saying so to types
    if norm_kind(norm) == "annotated":
        return x.std(-1, keepdim=True) + eps
    return (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()


def layer_norm(kind: str, d_model: int, eps: float) -> nn.Module:
    """The norm called `kind`: `torch` (nn.LayerNorm) or `annotated`."""
    return AnnotatedLayerNorm(d_model, eps) if kind == "annotated" else nn.LayerNorm(d_model, eps=eps)
