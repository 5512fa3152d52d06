"""Rows whose keys are all hidden: as the original leaves them, which depends on the number that it hides with."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.checkpoint.originals import annotated
from tests.checkpoint.originals.common import scramble
from transformer import attention_maps, load, recording
from transformer.runs.check import check

SOURCE, TARGET, HEADS, D, D_FF = 31, 29, 3, 12, 17
sources = torch.tensor([[7, 5, 9, 3, 4], [0, 0, 0, 0, 0]])
targets = torch.tensor([[0, 0, 6, 0, 8, 2, 3], [5, 6, 7, 0, 0, 0, 0]])


def _attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
    """As it is published: hidden scores are -1e9."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    weights = (scores if visible is None else scores.masked_fill(~visible, -1e9)).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2), weights


@pytest.fixture
def path(monkeypatch, tmp_path):
    torch.manual_seed(3)
    monkeypatch.setattr(annotated, "attend", _attend)
    original = scramble(annotated.EncoderDecoder(SOURCE, TARGET, 2, D, HEADS, D_FF))
    torch.save(original.state_dict(), tmp_path / "model.pt")
    with torch.no_grad():
        expected = original.double()(sources, targets)
    return tmp_path / "model.pt", {name: values.numpy() for name, values in expected.items()}


def test_a_model_that_hides_with_a_large_number_looks_everywhere_from_a_row_that_sees_nothing(path):
    file, expected = path
    found = attention_maps(load(file, n_heads=HEADS), sources, targets)
    for name, values in expected.items():
        assert abs(found[name] - values).max() < 1e-9, name
    assert np.allclose(expected["decoder.0.self"][0, :, :2], 1 / 7)  # two rows that see padding alone
    assert np.allclose(expected["decoder.1.cross"][1], 1 / 5)  # a source of padding alone


def test_the_record_shows_them_and_says_so(path):
    file, expected = path
    checkpoint = load(file, n_heads=HEADS)
    checkpoint.model.double()
    with torch.no_grad(), recording() as seen:
        checkpoint.model(sources, targets)
    attention = seen.map("decoder.0.self")
    assert abs(attention.all_weights() - expected["decoder.0.self"][0]).max() < 1e-9
    assert abs(attention.tile(1, slice(0, 3), slice(4, 7)) - expected["decoder.0.self"][0, 1, :3, 4:7]).max() < 1e-9
    assert attention.mask()[:2].all()
    assert not attention.mask()[2, :2].any()
    assert "looks at all of them alike" in " ".join(map(str, attention.picture(0).notes))
    assert check(checkpoint, sources, expected, targets).agrees
    assert all(one.unseen == 0 for one in check(checkpoint, sources, expected, targets).differences)
