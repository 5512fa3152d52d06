"""The page What if for models that read one text: what each ends with, before and after, and what has no end."""

from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.attention.interventions.readers import model_of
from tests.pages.opening import address_of, bars_of, fine, is_whole, moved, opened
from tests.pages.tiny import tiny_tokenizer
from transformer import intervening, load, run_any
from transformer.attention.interventions.text import from_text
from transformer.checkpoint.ours.folder import save_folder

READ = "two dogs run"
OFF = "encoder.0.self~zero~h1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("readers")
    tokenizer = tiny_tokenizer()
    vocab = len(tokenizer)
    for name in ("classes", "states", "positions", "next"):
        torch.manual_seed(2)
        model = model_of(name, vocab)
        save_folder(made / name, model.architecture, model, tokenizer, examples=(READ,))
    return made


@pytest.fixture(autouse=True)
def _small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


def both(folder: Path, name: str, output: str, off: str = OFF) -> list[np.ndarray]:
    """An output of the unchanged and of the changed run."""
    checkpoint = load(folder / name)
    with intervening(from_text(off)):
        changed = run_any(checkpoint, READ)
    return [run.outputs[output].astype(np.float64) for run in (run_any(checkpoint, READ), changed)]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    found: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found


def captions(page: AppTest) -> str:
    return " ".join(part.value for part in page.caption)


def test_classes_before_and_after_and_a_head_is_switched(folder: Path) -> None:
    page = fine(opened("what_if", model="classes"))
    assert "Nothing is changed" in " ".join(one.value for one in page.caption)
    page.button(key="switch-0").click()
    page = fine(moved(page, "switch-0"))
    assert not is_whole(page)
    assert address_of(page)["do"] == "encoder.0.self~zero~h0-1"
    assert "brings no mean outputs" in captions(page)
    page = fine(opened("what_if", model="classes", do=OFF.replace("zero", "mean")))
    assert address_of(page)["do"] == OFF, "no means are known, and a link of before meant zero"
    page = fine(opened("what_if", model="classes", do=OFF, cell="1-2", layer="0", head="1"))
    was, now = (np.exp(log_softmax(logits)) for logits in both(folder, "classes", "logits"))
    table = next(frame.value for frame in page.dataframe if "change" in frame.value)
    np.testing.assert_allclose(table["before"], was, atol=1e-6)
    np.testing.assert_allclose(table["after"], now, atol=1e-6)
    np.testing.assert_allclose(table["change"], np.log(now / (1 - now)) - np.log(was / (1 - was)), atol=1e-5)
    page.button(key="do-token_for_nobody").click().run()
    added = from_text(address_of(fine(page))["do"])[1:]
    assert {(one.site, one.action, one.keys) for one in added} == {
        (f"encoder.{layer}.self", "knock_out", (2,)) for layer in (0, 1)
    }


def test_a_model_of_next_tokens_follows_its_own_text_and_a_chosen_token(folder: Path) -> None:
    ids = list(run_any(load(folder / "next"), READ).ids)
    off = OFF.replace("encoder", "decoder")
    was, now = both(folder, "next", "log_probs", off)
    chosen = int(np.argsort(-was[-1])[1])
    page = fine(opened("what_if", model="next", do=off, following=str(chosen)))
    expected = [now[i, token] - was[i, token] for i, token in enumerate([*ids[1:], chosen])]
    np.testing.assert_allclose([row.value for row in bars_of(page, "effects")], expected, atol=1e-5)
    assert f"first token: {sum(expected[:-1]):+.2f} nats" in captions(page)
    assert "Same text" in " ".join(part.value for part in page.markdown)
    wrong = opened("what_if", model="next", do="decoder.0.cross~zero", lang="zh")
    assert "decoder.0.cross" in wrong.warning[0].value
    assert not wrong.exception


def test_positions_without_an_order_follow_what_was_likeliest(folder: Path) -> None:
    was, now = (log_softmax(logits) for logits in both(folder, "positions", "logits"))
    page = fine(opened("what_if", model="positions", do=OFF))
    expected = [now[i, token] - was[i, token] for i, token in enumerate(was.argmax(1))]
    np.testing.assert_allclose([row.value for row in bars_of(page, "effects")], expected, atol=1e-5)
    assert "first token" not in captions(page)


def test_a_model_without_a_head_says_so_and_shows_how_far_its_states_moved(folder: Path) -> None:
    was, now = both(folder, "states", "hidden")
    page = fine(opened("what_if", model="states", do=OFF))
    assert any("no head that scores" in part.value and "run_any" in part.value for part in page.info)
    table = page.dataframe[0].value
    np.testing.assert_allclose(table["length of the difference"], np.sqrt(((now - was) ** 2).sum(1)), atol=1e-5)
    np.testing.assert_allclose(table["length before"], np.sqrt((was**2).sum(1)), atol=1e-5)
    page.segmented_control(key="map").set_value("before")
    assert not fine(moved(page, "map")).dataframe
    long = opened("what_if", model="states", text="the dog runs. " * 140)
    assert "at most 512 are run here" in long.warning[0].value
    (link,) = (one.proto for one in long.get("page_link") if "all of it" in one.proto.label)
    assert (link.page, "input=the+dog" in link.query_string) == ("your_model", True)
    empty = opened("what_if", model="states", text=" ")
    assert not empty.exception
    assert empty.warning
