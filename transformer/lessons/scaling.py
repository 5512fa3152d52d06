"""Why scores are divided by the root of d_k, and what a dot product is beside a cosine: measured, with the formulas.

Source: Vaswani et al. 2017, section 3.2.1 and its footnote: components of variance 1 give dot products of variance d_k,
and a softmax of large scores has hardly any gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Sizes of a head at which the curves are computed."""

N_KEYS, N_QUERIES = 8, 400
"""Keys of each query, and how many queries are drawn."""


@dataclass(frozen=True, eq=False)
class Growth:
    """What scores and the gradient of their softmax do as d_k grows, without (0) and with (1) the root.

    `variance` is the formula's (d_k, or 1), `measured_variance` that of the drawn scores. `gradient` is the mean, over
    queries, of the largest entry of the softmax's Jacobian by its formula, a (1 - a); `measured_gradient` by
    differentiation.
    """

    sizes: tuple[int, ...]
    variance: Float[np.ndarray, "2 size"]
    measured_variance: Float[np.ndarray, "2 size"]
    gradient: Float[np.ndarray, "2 size"]
    measured_gradient: Float[np.ndarray, "2 size"]


def growth(sizes: Sequence[int] = SIZES, seed: int = 0) -> Growth:
    """Draw queries and keys with components of variance 1, for each size of a head."""
    generator = torch.Generator().manual_seed(seed)
    found: list[list[list[float]]] = []
    for size in sizes:
        q = torch.randn(N_QUERIES, size, 1, dtype=torch.float64, generator=generator)
        k = torch.randn(N_QUERIES, N_KEYS, size, dtype=torch.float64, generator=generator)
        scores = (k @ q).squeeze(-1)
        found.append([_measured(scores, float(size)), _measured(scores / size**0.5, 1.0)])
    variance, measured_variance, gradient, measured_gradient = np.array(found).transpose(2, 1, 0)
    return Growth(tuple(sizes), variance, measured_variance, gradient, measured_gradient)


def _measured(scores: torch.Tensor, variance: float) -> list[float]:
    weights = scores.softmax(-1)
    by_formula = (weights * (1 - weights)).amax(-1)
    jacobians = torch.func.vmap(torch.func.jacrev(lambda one: one.softmax(-1)))(scores)
    by_differentiation = jacobians.abs().amax((-1, -2))
    return [variance, float(scores.var()), float(by_formula.mean()), float(by_differentiation.mean())]


def cosines(q: Float[np.ndarray, "query d_k"], k: Float[np.ndarray, "key d_k"]) -> Float[np.ndarray, "query key"]:
    """Cosine of the angle between each query and each key: their dot product, divided by both lengths.

    NaN where one of them has no length.
    """
    lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(k, axis=1))
    return np.divide(q @ k.T, lengths, where=lengths > 0, out=np.full(lengths.shape, np.nan))
