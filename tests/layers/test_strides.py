"""Convolutions along a text: what each vector reaches; and that shapes in signatures are executed by the tests."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn
from torch.nn import functional as F

from transformer.layers.strides import FixedBatchNorm, Stride, least_length, spans

CHAINS = [
    [(3, 1, 1, 1, 1)], [(4, 2, 0, 1, 1)], [(3, 1, 2, 1, 2), (2, 1, 0, 2, 1)], [(5, 2, 1, 3, 1), (3, 1, 0, 1, 3)],
    [(1, 3, 0, 1, 1), (2, 2, 1, 2, 1), (3, 1, 1, 1, 1)],
]  # fmt: skip
"""Width, stride, padding, pooling, dilation of each convolution."""


@pytest.mark.parametrize("chain", CHAINS)
def test_each_vector_reaches_what_ones_of_every_kernel_reach(chain):
    """A convolution of ones over a single one finds where it is heard; pooling keeps what is heard."""
    strides = [Stride(1, 1, *one) for one in chain]
    least = least_length(strides)
    assert not spans(strides, least - 1) if least > 1 else True
    for length in (*range(least, least + 9), least + 40):
        found = spans(strides, length)
        heard = torch.eye(length)[:, None]
        for width, stride, padding, pool, dilation in chain:
            heard = F.conv1d(heard, torch.ones(1, 1, width), stride=stride, padding=padding, dilation=dilation)
            heard = F.max_pool1d(heard, pool)
        assert len(found) == heard.shape[2] > 0
        reached = [heard[:, 0, place].nonzero()[:, 0].tolist() for place in range(len(found))]
        for (first, past), letters in zip(found, reached, strict=True):
            assert set(letters) <= set(range(first, past))
        middle = len(found) // 2  # at the ends, zeros stand for letters that there are not
        if length > least + 9:
            assert found[middle] == (reached[middle][0], reached[middle][-1] + 1)


def test_a_batch_norm_with_kept_statistics_is_torchs():
    torch.manual_seed(1)
    theirs, ours = nn.BatchNorm1d(7, eps=1e-3).double().eval(), FixedBatchNorm(7, 1e-3).double()
    names = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}
    with torch.no_grad():
        for name, of_torch in names.items():
            getattr(theirs, of_torch).uniform_(0.3, 1.9)
            getattr(ours, name).copy_(getattr(theirs, of_torch))
        x = torch.randn(2, 7, 5, dtype=torch.float64)
        assert (ours(x) - theirs(x)).abs().max() < 1e-12


def test_shapes_in_signatures_are_executed():
    with pytest.raises(TypeCheckError):
        FixedBatchNorm(7, 1e-5)(torch.zeros(2, 7))
