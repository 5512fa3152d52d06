"""The page Your model: its panels of tensors, circuits and comparison; looking through a file, and stopping it."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx

from tests.pages.opening import brought, problems, with_heads
from tests.pages.test_checkpoints import ANNOTATED, fine, open_panel, opened
from tests.pages.tiny import save_tiny
from tests.safe.hostile import saved
from transformer.checkpoint.worker import isolated, pool
from transformer.safe.contents import shape_text
from transformer.safe.refusal import refused
from ui.store import user_folder

pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def test_tensors_circuits_and_comparison():
    page = brought(opened(), **{"one.pt": ANNOTATED})
    weights = dict(torch.load(io.BytesIO(ANNOTATED), weights_only=True))
    weights["generator.proj.bias"] = weights["generator.proj.bias"] + 1
    page = fine(with_heads(brought(page, **{"two.pt": saved(weights)}), 3))
    page = open_panel(page, "tensors")
    outline = page.dataframe[0].value
    assert dict(zip(outline["tensor"], outline["shape"], strict=True)) == {
        name: shape_text(tuple(tensor.shape)) for name, tensor in weights.items()
    }
    assert not page.get("plotly_chart")  # nothing is looked through before it is asked for
    page.button(key="look-through").click()
    table = fine(page.run()).dataframe[0].value
    assert set(table["tensor"]) == set(weights)
    assert len(page.get("plotly_chart")) == 1
    row = table[table["tensor"] == "generator.proj.bias"].iloc[0]
    assert row["norm"] == pytest.approx(float(weights["generator.proj.bias"].norm()), rel=1e-5)
    page = open_panel(page, "circuits")
    assert len(page.get("plotly_chart")) == 2
    page.text_input(key="token").set_value("9")
    fine(page.run())
    assert len(page.dataframe[0].value) == 10
    page.text_input(key="token").set_value("nonsense")
    assert "no such token" in problems(fine(page.run()))[0]
    page = open_panel(page, "compare")
    assert page.selectbox(key="against").value == "upload/one"  # of the same names, and not the shipped one
    moved = page.dataframe[0].value
    assert list(moved["tensor"]) == ["generator.proj.bias"]
    assert moved["largest change"].iloc[0] == pytest.approx(1.0, abs=1e-6)


def test_looking_through_starts_when_asked_tells_how_far_it_is_and_why_it_failed(monkeypatch: pytest.MonkeyPatch):
    page = brought(opened(), **{"one.pt": ANNOTATED})
    page = open_panel(page, "tensors")
    asked: list[str] = []

    def refuse(contents: Any, file_bytes: int, on_progress: Any) -> None:
        asked.append(contents.source)
        on_progress(0.5)
        raise refused("worker_time", "one.pt", seconds=30)

    with monkeypatch.context() as patch:
        patch.setattr(isolated, "inspect", refuse)
        assert not problems(fine(page.run()))
        assert not asked
        page.button(key="look-through").click()
        assert "took more than 30 s" in problems(fine(page.run()))[0]
        assert asked == ["one.pt"]
    assert fine(page.run()).button(key="look-through")
    page.button(key="look-through").click()
    page = fine(page.run())
    assert len(page.get("plotly_chart")) == 1
    page = open_panel(open_panel(page, "compare"), "tensors")
    assert len(page.get("plotly_chart")) == 1  # remembered


def test_stop_ends_the_looking_and_its_worker(monkeypatch: pytest.MonkeyPatch):
    page = open_panel(brought(opened(), **{"one.pt": ANNOTATED}), "tensors")
    told: list[float] = []
    looked: list[str] = []
    inspect = isolated.inspect

    def press_stop(done: float) -> None:
        told.append(done)
        if len(told) == 1:  # while the run goes on: what the browser sends
            runner = get_script_run_ctx()
            assert runner is not None
            assert runner.script_requests is not None
            states = [one for one in runner.session_state.get_widget_states() if not one.trigger_value]  # each once
            again = RerunData(runner.query_string, WidgetStates(widgets=states), runner.page_script_hash)
            assert runner.script_requests.request_rerun(again)

    def watched(contents: Any, file_bytes: int, on_progress: Any) -> Any:
        def hear(done: float) -> None:
            press_stop(done)
            on_progress(done)

        try:
            return inspect(contents, file_bytes, hear)
        finally:
            looked.append(contents.source)

    monkeypatch.setattr(isolated, "inspect", watched)
    page.button(key="look-through").click()
    page = fine(page.run())
    assert looked == ["one.pt"]
    assert len(told) == 1  # the run ended when it next told how far it was
    assert page.button(key="look-through")
    assert "stop-looking" not in {button.key for button in page.button}
    assert not page.get("plotly_chart")  # nothing was kept of it
    assert not pool.WORKERS.queue._working
    page.button(key="look-through").click()
    assert len(fine(page.run()).get("plotly_chart")) == 1


def test_a_file_that_fits_nothing_is_not_looked_through_unasked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(isolated, "inspect")
    page = brought(opened(), **{"odd.pt": saved({"x.y": torch.ones(3, 5)})})
    assert list(page.dataframe[-1].value["tensor"]) == ["x.y"]


def test_an_own_folder_is_looked_through_in_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    save_tiny(folder)
    monkeypatch.setattr(user_folder, "own_folder", lambda: folder)
    page = opened()
    page.selectbox(key="model").set_value("mine/tiny")
    page = open_panel(fine(page.run()), "tensors")
    monkeypatch.setattr("ui.store.shipped.read", None)  # what shipped files are read with
    page.button(key="look-through").click()
    assert "source_embedding.weight" in set(fine(page.run()).dataframe[0].value["tensor"])
    assert len(page.get("plotly_chart")) == 1


def test_shipped_checkpoints_are_inspected_too():
    page = open_panel(opened(), "tensors")
    assert "source_embedding.weight" in set(page.dataframe[0].value["tensor"])
    assert len(page.get("plotly_chart")) == 1
    page = open_panel(page, "compare")
    assert "nothing to compare" in page.info[0].value
