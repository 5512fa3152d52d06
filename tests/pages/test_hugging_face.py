"""Hugging Face folders among the reader's own checkpoints: listed where they fit, translated, looked at, explained."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import TextArea, TextInput

from tests.checkpoint.huggingface.families import write_folder
from tests.pages.opening import head_shown
from tests.pages.tiny import save_tiny
from transformer import DecodingOptions, Intervention, intervening, translate
from transformer.checkpoint.huggingface import library as extra
from transformer.runs.any_model import run_any
from ui.store import cache, store, user_folder

APP = str(Path(__file__).parents[2] / "app.py")
TEXT = "the dog runs."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    for family in ("marian", "bert", "gpt2"):
        write_folder(place / family, family)
    return place


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path / "checkpoints")
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path / "checkpoints")
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


def opened(script: str, model: str) -> AppTest:
    """A page with a checkpoint chosen."""
    page = AppTest.from_file(APP, default_timeout=170)
    page.switch_page(f"pages/{script}.py").run()
    page.selectbox(key="model").set_value(model)
    return fine(page.run())


def fine(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def asked(page: AppTest, box: TextInput | TextArea) -> AppTest:
    """The sentence run, one head of one layer shown, token by token."""
    box.set_value(TEXT)
    next(button for button in page.button if button.label == "Run").click()
    fine(page.run())
    page.button_group(key="layer").set_value("1")
    page.button_group(key="head").set_value("2")
    page.toggle(key="words").set_value(False)
    return fine(page.run())


def drawn(page: AppTest) -> np.ndarray:
    """The numbers of the heatmap on the page."""
    return head_shown(page)[1].clip(0)


def test_translate_lists_those_that_translate_and_runs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened("translate", "mine/marian")
    assert page.selectbox(key="model").options == ["tiny", "mine/marian"]
    page.slider(key="longest").set_value(5)
    page = asked(page, page.text_area(key="text"))
    assert [warning.value for warning in page.warning] == []
    record = translate(store.checkpoint("mine/marian"), TEXT, DecodingOptions(beam=5, max_length=5)).record
    np.testing.assert_allclose(drawn(page), record["decoder.1.cross"].weights(2), atol=1e-6)


def test_a_model_of_one_stack_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened("your_model", "mine/bert")
    assert page.selectbox(key="model").options == ["mine/bert", "mine/gpt2", "mine/marian", "tiny"]
    page = asked(page, page.text_input(key="input"))
    assert [warning.value for warning in page.warning] == []
    record = run_any(store.checkpoint("mine/bert"), TEXT).record
    np.testing.assert_allclose(drawn(page), record["encoder.1.self"].weights(2), atol=1e-6)


def test_every_panel_opens() -> None:
    page = opened("your_model", "mine/gpt2")
    for panel in ("tensors", "circuits", "compare"):
        page = page.button_group(key="show").set_value(panel).run()
        assert not page.exception


def test_without_the_library_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    extra.library.cache_clear()
    monkeypatch.setitem(sys.modules, "transformers", None)
    page = opened("your_model", "mine/bert")
    assert "pip install -r requirements-hf.txt" in page.warning[0].value
    assert opened("translate", "tiny").selectbox(key="model").options == ["tiny"]
    cache.clear()
    extra.library.cache_clear()


def test_a_folder_whose_tokenizer_panics_is_left_out_and_the_others_stay(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(folders / "gpt2", mine / "panics")
    save_tiny(mine)
    file = mine / "panics" / "tokenizer.json"
    charsmap = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": charsmap}))
    monkeypatch.setattr(user_folder, "own_folder", lambda: mine)
    page = opened("translate", "mine/tiny")
    assert page.selectbox(key="model").options == ["tiny", "mine/tiny"]
    page = opened("your_model", "mine/panics")
    assert "panics's tokenizer is refused" in page.warning[0].value.lower()


def test_what_if_a_head_of_a_decoder_alone_were_off() -> None:
    """Log p of each token of the text, in a model of another library; of BERT, of what its head holds at each place."""
    page = AppTest.from_file(APP, default_timeout=170)
    page.query_params.update(model="mine/gpt2", text=TEXT, do="decoder.0.self~zero~h2")
    page = fine(page.switch_page("pages/what_if.py").run())
    assert [warning.value for warning in page.warning] == []
    checkpoint = store.checkpoint("mine/gpt2")
    before = run_any(checkpoint, TEXT)
    with intervening([Intervention("decoder.0.self", "zero", heads=(2,))]):
        after = run_any(checkpoint, TEXT)
    was, now = (run.outputs["log_probs"] for run in (before, after))
    change = sum(float(now[i, token]) - float(was[i, token]) for i, token in enumerate(before.ids[1:]))
    assert any(f"first token: {change:+.2f} nats" in part.value for part in page.caption)
    page.selectbox(key="model").set_value("mine/bert")
    page = fine(page.run())
    assert any("At each position" in part.value for part in page.markdown)
