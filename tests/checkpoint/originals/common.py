"""What the originals share: the softmax of attention written out, masks, the sinusoidal table."""

import math
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from heedmap import Checkpoint, attention_maps

Maps = dict[str, Tensor]


class Original(nn.Module):
    """A module whose parts have any type, so that it may be written as its authors did."""

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)


def split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def attend(
    q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, hidden: float = -torch.inf
) -> tuple[Tensor, Tensor]:
    """Mixed values (batch, query, features) and weights (batch, head, query, key)."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if visible is not None:
        scores = scores.masked_fill(~visible, hidden)
    weights = scores.softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2), weights


def real(ids: Tensor, pad_id: int = 0) -> Tensor:
    return (ids != pad_id)[:, None, None, :]


def past(ids: Tensor, pad_id: int = 0) -> Tensor:
    n = ids.shape[1]
    return real(ids, pad_id) & torch.ones(n, n, dtype=torch.bool).tril()


def table(length: int, d_model: int) -> Tensor:
    position, pair = torch.arange(length)[:, None].double(), torch.arange(0, d_model, 2).double()
    angle = position * torch.exp(pair * -(math.log(10_000.0) / d_model))
    rows = torch.zeros(length, d_model, dtype=torch.float64)
    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()[:, : d_model // 2]
    return rows


def same(checkpoint: Checkpoint, expected: Maps, *inputs: Tensor, within: float = 1e-9) -> dict[str, np.ndarray]:
    """Every map and output that is expected, in float64; gives all that the checkpoint computes."""
    found = attention_maps(checkpoint, *inputs)
    assert expected.keys() <= found.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float64
        assert found[name].shape == tuple(values.shape), name
        assert abs(torch.from_numpy(found[name]) - values).max() < within, name
    return found


M = TypeVar("M", bound=nn.Module)


def scramble(module: M) -> M:
    """Every parameter at random, so that no default hides a mistake; in the precision that files hold."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module.float().eval()
