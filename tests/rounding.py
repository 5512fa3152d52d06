"""How far two computations of one number may lie apart: each processor's kernels add in an order of their own."""

import torch


def apart(n: int, sizes: float, dtype: torch.dtype = torch.float32) -> float:
    """The most by which two sums of `n` products differ, whose sizes add up to `sizes`.

    Either order is off by at most n u of that, u being half a unit in the last place of 1. Source: Higham 2002,
    "Accuracy and Stability of Numerical Algorithms", section 3.1.
    """
    return n * torch.finfo(dtype).eps * sizes
