"""Hugging Face folders among the reader's own checkpoints: listed where they fit, translated, looked at, explained."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.checkpoint.huggingface.families import write_folder
from tests.pages import opening
from tests.pages.opening import head_shown, ran, told
from tests.pages.tiny import save_tiny
from transformer import DecodingOptions, translate
from transformer.checkpoint.huggingface import library as extra
from transformer.runs.any_model import run_any
from ui.store import cache, store, user_folder

TEXT = "the dog runs."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    for family in ("marian", "bert", "gpt2"):
        write_folder(place / family, family)
    return place


@pytest.fixture(autouse=True)
def _own(shipped: None, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


def opened(script: str, model: str) -> AppTest:
    """A page with a checkpoint chosen."""
    page = opening.opened(script)
    page.selectbox(key="model").set_value(model)
    page.run()
    assert not page.exception
    return page


def asked(page: AppTest, key: str) -> AppTest:
    """The sentence run, one head of one layer shown, token by token."""
    ran(page, **{key: TEXT})
    page.toggle(key="words").set_value(False)
    return told(page, layer="1", head="2")


def drawn(page: AppTest) -> np.ndarray:
    """The numbers of the heatmap on the page."""
    return head_shown(page)[1].clip(0)


def test_translate_lists_those_that_translate_and_runs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened("translate", "mine/marian")
    assert page.selectbox(key="model").options == ["tiny", "mine/marian"]
    page.slider(key="longest").set_value(5)
    page = asked(page, "text")
    record = translate(store.checkpoint("mine/marian"), TEXT, DecodingOptions(beam=5, max_length=5)).record
    np.testing.assert_allclose(drawn(page), record["decoder.1.cross"].weights(2), atol=1e-6)


def test_a_model_of_one_stack_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened("your_model", "mine/bert")
    assert page.selectbox(key="model").options == ["mine/bert", "mine/gpt2", "mine/marian", "tiny"]
    page = asked(page, "input")
    record = run_any(store.checkpoint("mine/bert"), TEXT).record
    np.testing.assert_allclose(drawn(page), record["encoder.1.self"].weights(2), atol=1e-6)


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
