"""Models of our own definition that read one text, on What if: positions and states before and after."""

from pathlib import Path

import numpy as np
import pytest
import torch

from heedmap import load, run_any
from heedmap.attention.interventions.value import from_text
from heedmap.checkpoint.ours.folder import save_folder
from heedmap.runs.any_model import ModelRun
from heedmap.runs.what_if import read_under, scores, state_effects
from tests.pages.changing import asked
from tests.pages.opening import bars_of, fine, moved, opened, said
from tests.pages.tiny import tiny_tokenizer
from tests.runs.test_what_if import model_of

READ, OF_ENCODER = "two dogs run", "encoder.0.self~zero~h1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models that read one text, each with another end."""
    made, tokenizer = tmp_path_factory.mktemp("readers"), tiny_tokenizer()
    for name in ("states", "positions", "next"):
        torch.manual_seed(2)
        model = model_of(name, len(tokenizer))
        save_folder(made / name, model.architecture, model, tokenizer, examples=(READ,))
    return made


@pytest.fixture
def readers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", folder)
    return folder


def two_runs(folder: Path, name: str, off: str = OF_ENCODER) -> tuple[ModelRun, ModelRun]:
    """The unchanged run of such a model and the changed one."""
    checkpoint = load(folder / name)
    return run_any(checkpoint, READ), read_under(checkpoint, READ, from_text(off))


@pytest.mark.parametrize(("name", "off"), [("next", "decoder"), ("positions", "encoder")])
def test_each_position_has_a_bar(readers: Path, name: str, off: str) -> None:
    """Of a decoder that of its own next token, and at the end of a chosen one; of others what was likeliest."""
    do = OF_ENCODER.replace("encoder", off)
    before, after = two_runs(readers, name, do)
    was, now = scores(before).numpy(), scores(after).numpy()
    follow = int(np.argsort(-was[-1])[1])
    page = asked(model=name, do=do, following=str(follow))
    followed = [*before.ids[1:], follow] if name == "next" else was.argmax(1)
    moves = [now[i, token] - was[i, token] for i, token in enumerate(followed)]
    np.testing.assert_allclose([row.value for row in bars_of(page, "effects")], moves, atol=1e-5)
    assert (f"first token (nats): \\{sum(moves[:-1]):+.2f}." in said(page)) == (name == "next")


def test_a_model_without_a_head_says_so_and_shows_how_far_its_states_moved(readers: Path) -> None:
    found = state_effects(*two_runs(readers, "states"))
    page = asked(model="states", do=OF_ENCODER)
    assert any("no head that scores" in part.value and "run_any" in part.value for part in page.info)
    shown = page.dataframe[0].value
    np.testing.assert_allclose(shown["length of the difference"], [one.moved for one in found], atol=1e-5)
    np.testing.assert_allclose(shown["length before"], [one.lengths[0] for one in found], atol=1e-5)
    page.segmented_control(key="map").set_value("before")
    assert not fine(moved(page, "map")).dataframe
    long = opened("what_if", model="states", text="the dog runs. " * 140)
    assert "at most 512 are run here" in long.warning[0].value
    (link,) = (one.proto for one in long.get("page_link") if "all of it" in one.proto.label)
    assert (link.page, "input=the+dog" in link.query_string) == ("your_model", True)
    empty = opened("what_if", model="states", text=" ")
    assert empty.warning
