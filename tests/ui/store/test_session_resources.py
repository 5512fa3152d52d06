"""A run of an upload ends soon after its reader has left, between two layers; else nothing is changed or kept."""

import copy
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
import torch
from streamlit.runtime.scriptrunner import StopException

from heedmap import Checkpoint, DecodingOptions, load, translate
from heedmap.runs.any_model import run_ids
from tests.checkpoint.huggingface.families import write_folder
from tests.recurrents import ADDITIVE, checkpoints_with_recurrents
from ui.patches import session
from ui.store import session_resources
from ui.store.session_resources import SessionResources, stop_without

IDS = list(range(5, 16))


def stop() -> None:
    """As in a run of a page."""
    raise StopException


class Served:
    """A server, its clock, of which each look takes `a_layer` seconds, and who is there."""

    def __init__(self) -> None:
        self.now, self.here, self.asked, self.a_layer = 100.0, {"reader"}, 0, 0.0

    def is_active_session(self, session_id: str) -> bool:
        self.asked += 1
        return session_id in self.here

    def monotonic(self) -> float:
        self.now += self.a_layer
        return self.now


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    made = Served()
    monkeypatch.setattr(session, "is_connected", made.is_active_session)
    monkeypatch.setattr(st, "stop", stop)
    monkeypatch.setattr(session_resources, "time", made)
    return made


def run(checkpoint: Checkpoint) -> Any:
    return run_ids(checkpoint, "a text", IDS, [str(i) for i in IDS])


@pytest.fixture
def bert(tmp_path: Path) -> Checkpoint:
    return load(write_folder(tmp_path / "bert", "bert", num_hidden_layers=7))


def layers_of(checkpoint: Checkpoint) -> Any:
    return next(one for one in checkpoint.model.modules() if isinstance(one, torch.nn.ModuleList))


def test_a_run_ends_before_the_layer_after_three_seconds_without_its_reader(bert: Checkpoint, served: Served) -> None:
    plain = run(bert)
    ran = list[int]()
    stop_without(SessionResources("reader"), bert.model)
    for number, layer in enumerate(layers_of(bert)):
        layer.register_forward_pre_hook(lambda _, __, number=number: ran.append(number))
    served.a_layer = 1.0
    watched = run(bert)
    assert ran == list(range(7))
    for name, found in plain.outputs.items():
        assert (watched.outputs[name] == found).all()
    for site in plain.record:
        assert torch.equal(watched.record[site].source.q, plain.record[site].source.q)
    ran.clear()
    served.here.clear()
    with pytest.raises(StopException):
        run(bert)
    assert 0 < len(ran) < 5
    assert torch.is_inference_mode_enabled() is False
    with pytest.raises(StopException):  # a twin that shares the weights ends too
        copy.deepcopy(bert.model)(torch.tensor([IDS]))  # type: ignore[operator]
    served.here.add("reader")
    assert run(bert).outputs.keys() == plain.outputs.keys()


def test_who_is_there_is_asked_now_and_then_and_who_comes_back_in_time_keeps_the_run(
    bert: Checkpoint, served: Served
) -> None:
    stop_without(SessionResources("reader"), bert.model)
    run(bert)
    assert served.asked == 0  # no time has passed
    served.now += 1
    run(bert)
    assert served.asked == 1
    served.a_layer = 1.0
    layers = layers_of(bert)
    away = layers[1].register_forward_pre_hook(lambda _, __: served.here.clear())
    layers[3].register_forward_pre_hook(lambda _, __: served.here.add("reader"))
    run(bert)
    away.remove()
    served.a_layer = 10 * session_resources.PATIENCE  # layers of several seconds hide nothing
    served.here.clear()
    with pytest.raises(StopException):
        run(bert)


@pytest.mark.parametrize("kind", ["marian", "recurrent"])
def test_decoding_ends_too(kind: str, tmp_path: Path, served: Served) -> None:
    recurrent = kind == "recurrent"
    found = load(checkpoints_with_recurrents(tmp_path) / ADDITIVE if recurrent else write_folder(tmp_path / kind, kind))
    stop_without(SessionResources("reader"), found.model)
    served.a_layer = 0.6
    served.here.clear()
    with pytest.raises(StopException):
        translate(found, "a dog runs .", DecodingOptions(beam=1, max_length=30))


def test_a_model_keeps_nothing_of_its_session(bert: Checkpoint) -> None:
    held = SessionResources("reader")
    stop_without(held, bert.model)
    known = weakref.ref(held)
    del held
    gc.collect()
    assert known() is None
    run(bert)  # nobody serves here, and nobody leaves
