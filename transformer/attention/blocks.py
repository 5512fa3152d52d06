"""Blocks of a long map: each reduced to one number, so that the whole is never looked at cell by cell."""

import torch
from torch import Tensor


def reduced_blocks(x: Tensor, length: int, reduce: str, dim: int) -> Tensor:
    """Reduce blocks of `length` along `dim` to their `max` or `mean`; the last block may be smaller."""
    if length == 1:
        return x
    whole = x.shape[dim] // length * length
    body = x.narrow(dim, 0, whole).unflatten(dim, (-1, length))
    rest = x.narrow(dim, whole, x.shape[dim] - whole)
    inner = dim if dim < 0 else dim + 1
    parts = [body.amax(inner) if reduce == "max" else body.mean(inner)] if whole else []
    if rest.shape[dim]:
        parts.append(rest.amax(dim, keepdim=True) if reduce == "max" else rest.mean(dim, keepdim=True))
    return torch.cat(parts, dim)
