"""Checkpoints: a Vision Transformer's heads over a picture that we drew, or that was brought."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from tests.checkpoint.originals.vision import vit, zipped
from tests.pages.test_checkpoints import brought, fine, opened
from ui.store.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("shipped")


def folder(place: Path, **sizes: Any) -> bytes:
    """A ViT of 13 classes, some of one name, as the ZIP of its folder."""
    return zipped(vit({i: f"kind {max(i, 3)}" for i in range(13)}, **sizes), place)


def chart(page: AppTest, key: str) -> dict[str, Any]:
    found: Any = next(one for one in page.get("plotly_chart") if one.proto.id.endswith(f"-{key}"))
    spec: dict[str, Any] = json.loads(found.proto.spec)
    return spec


def drawn(page: AppTest) -> np.ndarray:
    packed = chart(page, "over-picture")["data"][0]["z"]
    return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).reshape(3, 3)


def said(page: AppTest) -> str:
    return " ".join(one.value.replace("\\", "") for one in (*page.caption, *page.markdown, *page.warning, *page.error))


def test_a_picture_its_patches_and_its_classes(tmp_path: Path) -> None:
    page = fine(brought(opened(), **{"vit.zip": folder(tmp_path)}))
    assert "12 x 12 pixels" in said(page)
    table = next(one.value for one in page.dataframe if "Class" in one.value.columns)
    assert len(table) == 10
    four = {"kind 3"}
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


def test_a_picture_of_another_session_is_said_to_be(tmp_path: Path) -> None:
    page = fine(brought(opened(), **{"vit.zip": folder(tmp_path, image_size=8)}))
    page.query_params["photo"] = "0123456789abcdef"
    assert "brought in another session" in said(fine(page.run()))
