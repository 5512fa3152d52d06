"""The page Your model: its panel of tensors, and a button that ends the looking."""

import io
from typing import Any

import pytest
import streamlit as st
import torch

from tests.pages.opening import brought, with_heads
from tests.pages.test_checkpoints import ANNOTATED, fine, open_panel, opened
from tests.safe.hostile import saved
from transformer.safe.contents import shape_text
from ui.checkpoints import contents
from ui.store import progress

pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def test_every_tensor_has_its_numbers():
    page = brought(opened(), **{"one.pt": ANNOTATED})
    weights = dict(torch.load(io.BytesIO(ANNOTATED), weights_only=True))
    weights["generator.proj.bias"] = weights["generator.proj.bias"] + 1
    page = fine(with_heads(brought(page, **{"two.pt": saved(weights)}), 3))
    page = open_panel(page, "tensors")
    table = page.dataframe[0].value
    assert dict(zip(table["tensor"], table["shape"], strict=True)) == {
        name: shape_text(tuple(tensor.shape)) for name, tensor in weights.items()
    }
    assert len(page.get("plotly_chart")) == 1
    row = table[table["tensor"] == "generator.proj.bias"].iloc[0]
    assert row["norm"] == pytest.approx(float(weights["generator.proj.bias"].norm()), rel=1e-5)


def test_stop_ends_the_looking_and_nothing_is_kept_of_it(monkeypatch: pytest.MonkeyPatch):
    """Someone presses Stop while the numbers are looked through."""
    page = fine(with_heads(brought(opened(), **{"one.pt": ANNOTATED}), 3))
    monkeypatch.setattr(contents, "QUICK", 0)
    monkeypatch.setattr(progress, "name_of", lambda kind, key: kind)
    left: list[int] = []

    def stopped(_: Any, __: int, between: Any) -> None:
        left.append(between())
        st.session_state[progress.STOPPED].add("inspection")
        st.rerun()

    with monkeypatch.context() as impatient:
        impatient.setattr(contents, "inspect_contents", stopped)
        page = fine(open_panel(page, "tensors"))
    assert len(left) == 1
    assert not page.get("plotly_chart")
    page = fine(page.button(key="go-on-inspection").click().run())
    assert len(page.get("plotly_chart")) == 1
    page = open_panel(open_panel(page, "attention"), "tensors")
    monkeypatch.setattr(contents, "inspect_contents", None)
    assert len(fine(page.run()).get("plotly_chart")) == 1  # remembered


def test_shipped_checkpoints_are_inspected_too():
    page = open_panel(opened(), "tensors")
    assert "source_embedding.weight" in set(page.dataframe[0].value["tensor"])
    assert len(page.get("plotly_chart")) == 1
