"""What weights alone say of a model: what each head can compare and move, and which tokens its embedding puts close.

Source of the circuits: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits": a head's attention
depends on W_Q W_K^T alone, and what it writes on W_V W_O alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.errors import InputError
from transformer.nn.attention import MultiHeadAttention
from transformer.sites import Site


@dataclass(frozen=True, eq=False)
class HeadCircuits:
    """Singular values of each head's two products, the largest first. Few large ones: the head has one thing to say."""

    site: Site
    compares: Float[np.ndarray, "head d_k"]
    writes: Float[np.ndarray, "head d_v"]


@dataclass(frozen=True)
class Neighbour:
    """A token whose embedding points the same way: the cosine of the angle, 1 for the same direction."""

    token: int
    cosine: float


def head_circuits(model: Any) -> tuple[HeadCircuits, ...]:
    """The singular values of W_Q W_K^T and W_V W_O for every multi-head attention of a model.

    None of another library's model. The products are d_model x d_model, but only of rank d_k and d_v: their singular
    values are those of a small matrix, so nothing of size d_model x d_model is made.
    """
    cores = {core: site for site, core in model.attention_sites().items()}
    found = []
    for module in model.modules():
        if isinstance(module, MultiHeadAttention) and module.core in cores:
            n = module.n_heads
            query, key, value = (
                m.weight.double().unflatten(0, (n, -1)) for m in (module.query, module.key, module.value)
            )
            output = module.output.weight.double().T.unflatten(0, (n, -1))  # (head, d_v, d_model)
            found.append(
                HeadCircuits(cores[module.core], _singular_values(query, key), _singular_values(value, output))
            )
    order = list(model.attention_sites())
    return tuple(sorted(found, key=lambda circuits: order.index(circuits.site)))


def neighbours(embedding: Float[Tensor, "token d_model"], token: int, count: int = 10) -> tuple[Neighbour, ...]:
    """The tokens whose embeddings are nearest to that of `token` by cosine, nearest first; `token` itself left out.

    Raises:
        InputError: there is no such token.
    """
    if not 0 <= token < len(embedding):
        raise InputError("token_not_in_vocabulary", token=token, last=len(embedding) - 1)
    directions = nn.functional.normalize(embedding.detach().double(), dim=-1)
    cosines = directions @ directions[token]
    cosines[token] = -torch.inf
    best = cosines.argsort(descending=True, stable=True)[: min(count, len(embedding) - 1)]
    return tuple(Neighbour(int(i), float(cosines[i])) for i in best)


def _singular_values(
    left: Float[Tensor, "head rank d_model"], right: Float[Tensor, "head rank d_model"]
) -> Float[np.ndarray, "head rank"]:
    """Singular values of left^T right, head by head: those of R_l R_r^T, with left^T = Q_l R_l, right^T = Q_r R_r."""
    reduced = [torch.linalg.qr(m.detach().transpose(1, 2), mode="r").R for m in (left, right)]
    values = torch.linalg.svdvals(reduced[0] @ reduced[1].transpose(1, 2))
    missing = left.shape[1] - values.shape[1]
    return nn.functional.pad(values, (0, missing)).numpy()
