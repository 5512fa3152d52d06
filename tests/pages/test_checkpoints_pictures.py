"""Checkpoints: a Vision Transformer's heads over a picture that we drew, or that was brought."""

import base64
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from streamlit.testing.v1 import AppTest

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.vision import Sizes, TimmVision
from tests.pages.opening import with_heads
from tests.pages.test_checkpoints import asked, brought, fine, opened
from transformer.pictures.photo import Frame
from transformer.pictures.photo import drawn as drawn_photo
from ui.store.ledger import LEDGER

SIZES = Sizes(patch=(4, 4), grid=(3, 3), d=12, heads=3, d_ff=17, layers=2, classes=13)

pytestmark = pytest.mark.usefixtures("shipped")


def weights(sizes: Sizes = SIZES) -> bytes:
    torch.manual_seed(3)
    target = io.BytesIO()
    torch.save(scramble(TimmVision(sizes)).state_dict(), target)
    return target.getvalue()


def chart(page: AppTest, key: str) -> dict[str, Any]:
    found: Any = next(one for one in page.get("plotly_chart") if one.proto.id.endswith(f"-{key}"))
    spec: dict[str, Any] = json.loads(found.proto.spec)
    return spec


def drawn(page: AppTest) -> np.ndarray:
    packed = chart(page, "over-picture")["data"][0]["z"]
    return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).reshape(3, 3)


def said(page: AppTest) -> str:
    return " ".join(one.value.replace("\\", "") for one in (*page.caption, *page.markdown, *page.warning, *page.error))


def test_a_picture_its_patches_and_its_classes():
    names = "\n".join(f"kind {max(i, 3)}" for i in range(13)).encode()
    page = brought(opened(), **{"vit.pt": weights(), "names.txt": names})
    page = fine(asked(page, "button_group", "n_heads").set_value(3).run())
    assert "a Vision Transformer of timm" in page.warning[0].value
    assert "normalisation=" in page.warning[0].value
    assert "12 x 12 pixels" in said(page)
    table = next(one.value for one in page.dataframe if "Class" in one.value.columns)
    assert len(table) == 10
    four = {f"kind 3 ({i})" for i in range(4)}
    assert set(table.iloc[:, 0]) <= four | {f"kind {i}" for i in range(4, 13)}
    assert set(table.iloc[:, 0]) & four  # at most three of the 13 are left out
    assert table.iloc[:, 1].is_monotonic_decreasing
    first = drawn(page)
    assert first.shape == (3, 3)
    looking = page.selectbox(key="patch")
    assert looking.value == "[CLS]"
    page = fine(looking.set_value("r2c3").run())
    other = drawn(page)
    assert not np.array_equal(first, other)
    assert page.query_params["patch"] == "r2c3"
    assert [(one["x0"], one["y0"]) for one in chart(page, "over-picture")["layout"]["shapes"]] == [(1.5, 0.5)]
    assert len(chart(page, "each-head")["data"]) == 2 * 3
    for view in ("heatmap", "head_view", "grid", "downloads"):
        page.query_params["map"] = view
        fine(page.run())

    page.toggle(key="preview-heads").set_value(True)
    page = fine(page.run())
    tensors = torch.load(io.BytesIO(weights()), weights_only=True)
    pixels = torch.tensor(drawn_photo(Frame(12, 12, 0.9)).pixels / 255).permute(2, 0, 1)[None].float() * 2 - 1
    for count in (2, 3):
        original = TimmVision(replace(SIZES, heads=count))
        original.load_state_dict(tensors)
        with torch.no_grad():
            expected = original(pixels)["encoder.0.self"][0, :, 0, 1:].reshape(count, 3, 3)
        veils = chart(page, f"preview-{count}")["data"][::2]
        shown = [np.frombuffer(base64.b64decode(one["z"]["bdata"]), one["z"]["dtype"]).reshape(3, 3) for one in veils]
        np.testing.assert_allclose(shown, expected, atol=1e-5)
    page.toggle(key="preview-heads").set_value(False)
    page = fine(page.run())

    # one's own picture
    held = LEDGER.held
    target = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(target, "PNG")
    page.query_params["map"] = "picture"
    page.file_uploader[1].set_value(("cat <b>.png", target.getvalue(), "image/png"))
    page = fine(fine(page.run()).run())
    assert page.selectbox(key="photo").options[0] == "cat <b>.png"
    assert LEDGER.held == held + len(target.getvalue())
    assert not np.array_equal(drawn(page), other)
    page.file_uploader[1].set_value(("bad.png", b"GIF89a", "image/png"))
    page = fine(page.run())
    assert "no readable PNG or JPEG" in said(page)


def test_a_picture_of_another_session_is_said_to_be_and_names_of_other_classes_are_refused():
    page = fine(with_heads(brought(opened(), **{"vit.pt": weights(replace(SIZES, grid=(2, 2)))}), 2))
    page.query_params["photo"] = "0123456789abcdef"
    assert "brought in another session" in said(fine(page.run()))
    page = with_heads(brought(opened(), **{"vit.pt": weights(), "names.txt": b"a\nb\nc\n"}), 2)
    assert "3 names, the checkpoint says 13 classes" in said(page)
