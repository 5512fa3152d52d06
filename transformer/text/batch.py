"""Rows of ids as one tensor."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> Int[Tensor, "batch position"]:
    """At least one row; short ones are filled up at the end."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])
