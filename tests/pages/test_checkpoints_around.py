"""The page Your model on files whose parts nothing places: refused by name, and answered."""

import io

import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch import nn

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_around import Around
from tests.pages.opening import brought, with_heads
from tests.pages.test_checkpoints import asked, fine, opened

pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def _file(norm: str) -> bytes:
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 17, 0.0), 2, enable_nested_tensor=False)
    parts = {"token": nn.Embedding(23, 12), norm: nn.LayerNorm(12), "encoder": layers}
    buffer = io.BytesIO()
    torch.save(scramble(Around(parts, [norm], scaled=True, positions=True)).state_dict(), buffer)
    return buffer.getvalue()


def refused(page: AppTest) -> set[str]:
    """The tensors that have no place, by the page."""
    assert page.error
    return {name for table in page.dataframe for name in table.value.iloc[:, 0]}


def test_a_norm_that_nothing_places_is_refused_until_it_is_answered():
    page = brought(opened(), **{"model.pt": _file("norm")})
    assert not page.success
    assert "norm.weight" in refused(page)
    assert any("nothing tells whether it acts before" in text.value for text in page.text)
    asked(page, "button_group", "others_after").set_value(True)
    assert not fine(page.run()).error
    fine(with_heads(page, 2))
    assert fine(page.button(key="confirm-answers").click().run()).success
