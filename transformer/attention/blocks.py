"""Blocks of a long map: each reduced to its largest number, so that the whole is never looked at cell by cell."""

import torch
from torch import Tensor


def block_maxima(x: Tensor, length: int, dim: int) -> Tensor:
    """The largest number of each block of `length` along `dim`; the last block may be smaller."""
    if length == 1:
        return x
    whole = x.shape[dim] // length * length
    rest = x.narrow(dim, whole, x.shape[dim] - whole)
    parts = [x.narrow(dim, 0, whole).unflatten(dim, (-1, length)).amax(dim if dim < 0 else dim + 1)] if whole else []
    if rest.shape[dim]:
        parts.append(rest.amax(dim, keepdim=True))
    return torch.cat(parts, dim)
