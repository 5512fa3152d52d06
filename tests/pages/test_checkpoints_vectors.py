"""The page Checkpoints on layers without embeddings: what was drawn is said, and vectors of one's own are read."""

import io
import warnings

import numpy as np
import torch
from torch import nn

from tests.pages.opening import head_shown
from tests.pages.test_checkpoints import asked, brought, fine, opened
from transformer import attention_maps, load


def _transformer() -> bytes:
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = nn.Transformer(12, 3, 1, 1, 17, batch_first=True)
    stream = io.BytesIO()
    torch.save(core.state_dict(), stream)
    return stream.getvalue()


def _said(page) -> str:
    return " ".join(part.value for part in (*page.caption, *page.info))


def test_a_bare_transformer_reads_drawn_vectors_then_brought_ones(tmp_path):
    page = brought(opened(), **{"model.pt": _transformer()})
    asked(page, "button_group", "n_heads").set_value(3)
    fine(page.run())
    assert "16 vectors of normal random numbers (seed 0)" in page.warning[0].value.replace("\\", "")
    page.text_input(key="input").set_value("3 1 4")
    page.text_input(key="forced").set_value("2 7")
    next(button for button in page.button if button.label == "Run").click()
    fine(page.run())
    (tmp_path / "model.pt").write_bytes(_transformer())
    found = attention_maps(load(tmp_path / "model.pt", n_heads=3), [3, 1, 4], [2, 7])["decoder.0.cross"][0]
    shown = head_shown(page)[1]
    assert min(abs(shown - head).max() for head in found) < 1e-6
    page.toggle(key="preview-heads").set_value(True)
    fine(page.run())
    arrays = io.BytesIO()
    np.savez(arrays, source=np.ones((5, 12)), target=np.zeros((4, 12)))
    page = brought(page, **{"mine.npz": arrays.getvalue()})
    assert page.selectbox(key="model").value == "upload/model"
    assert "random" not in _said(page)
    assert any("vectors of mine.npz: 5, 4" in text.value for text in page.text)
    assert any("from 0 to 4" in str(field.label) for field in page.text_input)
