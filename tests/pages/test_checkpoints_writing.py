"""Page Your model: a decoder writes on, an encoder fills gaps, classes have names; all of it in the address."""

import gc
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.checkpoint.huggingface.families import CONFIGS, random_model, write_bert_tokenizer, write_folder
from tests.pages import opening
from tests.pages.opening import brought, chosen, head_shown, table
from transformer import ContinueOptions, continue_text, fill, run_any
from transformer.checkpoint.huggingface.library import quiet
from transformer.safe import unpacked
from ui.store import runs, store, user_folder
from ui.store.progress import name_of
from ui.store.upload_quota import LEDGER

TEXT = "the dog runs."
LABELS = {0: "sad", 1: "so *so*", 2: "glad"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    write_folder(place / "gpt2", "gpt2")
    write_folder(place / "bert", "bert", vocab_size=30)  # as many words as its tokenizer knows
    config = CONFIGS["bert"][1] | dict(id2label=LABELS, label2id={word: i for i, word in LABELS.items()})
    with quiet():
        random_model("BertForSequenceClassification", config).save_pretrained(place / "classes")
    write_bert_tokenizer(place / "classes")
    return place


@pytest.fixture(autouse=True)
def _own(shipped: None, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


def opened(**address: str) -> AppTest:
    page = opening.opened("your_model", **address)
    assert not page.exception
    assert [warning.value for warning in page.warning] == []
    return page


def fine(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def test_a_text_is_continued_and_every_view_shows_the_step() -> None:
    page = opened(model="mine/gpt2", input=TEXT, words="false")
    checkpoint = store.checkpoint("mine/gpt2")
    alone = continue_text(checkpoint, TEXT, ContinueOptions(0))
    shown = table(page, "next token")
    np.testing.assert_allclose(shown["probability"], [one.probability for one in alone.steps[0]], atol=1e-6)
    page.button(key="continue").click()
    page = fine(page.run())
    assert page.query_params["more"] == "20"
    page.slider(key="more").set_value(6)
    page.button_group(key="way").set_value("draw")
    page = fine(page.run())
    page.slider(key="temperature").set_value(1.4)
    page.slider(key="top-k").set_value(7)
    page.number_input(key="seed").set_value(3)
    page = fine(page.run())
    options = ContinueOptions(6, temperature=1.4, top_k=7, seed=3)
    found = continue_text(checkpoint, TEXT, options)
    assert found.texts[-1] in [part.value for part in page.text]
    page.slider(key="at").set_value(2)
    page = fine(page.run())
    address = dict(page.query_params)
    asked = {"more": "6", "way": "draw", "temperature": "1.4", "top-k": "7", "seed": "3", "at": "2"}
    assert asked.items() <= address.items()
    for one in (page, opened(**address)):  # the page as it was clicked, and its address opened anew
        step = table(one, "next token")
        np.testing.assert_allclose(step["probability"], [token.probability for token in found.steps[2]], atol=1e-6)
        named = next(name for name in step.columns if "1.4" in name)
        assert "top 7" in named
        np.testing.assert_allclose(step[named], [token.chance for token in found.steps[2]], atol=1e-6)
        weights = found.at(2).record["decoder.0.self"]
        (_, layer, head), (_, drawn) = chosen(one), head_shown(one)
        assert drawn.shape == weights.shape == (found.prompt + 2,) * 2
        assert head is not None
        seen = found.at(2).record[f"decoder.{layer}.self"]
        np.testing.assert_allclose(drawn, np.where(seen.mask(), seen.weights(head), -np.inf), atol=1e-6)


def test_writing_on_can_be_stopped_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "QUICK", 0)
    written = continue_text

    def stopped(checkpoint: Any, text: str, options: ContinueOptions, progress: Any) -> Any:
        progress(0.5)
        return written(checkpoint, text, options, progress)

    monkeypatch.setattr(runs, "continue_text", stopped)
    page = opened(model="mine/gpt2", input="the cat runs.", more="5")
    assert page.slider(key="at").value == 5
    revision = store.revision("mine/gpt2")
    marked = name_of("continuation", (revision, "the dog eats.", ContinueOptions(5), ""))
    page.session_state["stopped-work"] = {marked}
    page.text_input(key="input").set_value("the dog eats.")
    next(button for button in page.button if button.label == "Run").click()
    page = fine(page.run())
    assert any("stopped" in part.value for part in page.info)
    assert len(table(page, "next token")) == 10
    page.button(key=f"go-on-{marked}").click()
    assert fine(page.run()).slider(key="at").value == 5


def test_hidden_words_are_filled_in_by_a_click() -> None:
    page = opened(model="mine/bert", input="the dog runs and the cat eats.")
    assert not [button for button in page.button if (button.key or "").startswith("gap-")]
    page.button(key="hide-1").click()
    page = fine(page.run())
    assert page.text_input(key="input").value == "the [MASK] runs and the cat eats."
    page.button(key="hide-6").click()
    page = fine(page.run())
    text = "the [MASK] runs and the cat [MASK]."
    assert page.query_params["input"] == text
    gaps = fill(store.checkpoint("mine/bert"), text)
    for number, gap in enumerate(gaps):
        for rank, one in enumerate(gap.candidates):
            assert f"{one.probability:.3f}" in page.button(key=f"gap-{number}-{rank}").label
    page.button(key="gap-1-2").click()
    page = fine(page.run())
    assert page.text_input(key="input").value == f"the [MASK] runs and the cat {gaps[1].words[2]}."


def test_classes_bear_the_names_of_the_config() -> None:
    page = opened(model="mine/classes", input=TEXT)
    logits = run_any(store.checkpoint("mine/classes"), TEXT).outputs["logits"]
    odds = np.exp(logits) / np.exp(logits).sum()
    assert any("\\[CLS\\] before the text, \\[SEP\\] after" in part.value for part in page.caption), "said"
    shown = table(page, "glad")
    assert list(shown.columns) == list(LABELS.values())
    np.testing.assert_allclose(shown.iloc[0], odds, atol=1e-6)


def test_a_zipped_folder_is_brought_looked_at_and_gone_when_removed(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "memory"
    place.mkdir()
    monkeypatch.setattr(unpacked, "MEMORY", place)
    gc.collect()  # what tests before this one let go of
    before = LEDGER.held
    files = {file.name: file.read_bytes() for file in (folders / "gpt2").iterdir()}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"my-gpt2/{name}", data)
    page = opened(model="tiny")
    page = brought(page, **{"my-gpt2.zip": made.getvalue()})
    assert page.selectbox(key="model").value == "upload/my-gpt2"
    assert [warning.value for warning in page.warning] == []
    assert LEDGER.held - before == sum(map(len, files.values()))
    assert len(list(place.iterdir())) == 1
    typed = page.text_input(key="input").value
    expected = continue_text(store.checkpoint("mine/gpt2"), typed, ContinueOptions(0)).steps[0]
    shown = table(page, "next token")["probability"]
    np.testing.assert_allclose(shown, [one.probability for one in expected], atol=1e-6)
    page = fine(page.button_group(key="show").set_value("tensors").run())
    page.button(key="remove").click()
    page = fine(page.run())
    assert (LEDGER.held, list(place.iterdir())) == (before, [])
    page = brought(page, **files)  # side by side, as they lie in the folder
    assert page.selectbox(key="model").value == "upload/gpt2"
    assert len(list(place.iterdir())) == 1
    held = page.session_state["session_resources"]
    assert held.let_go()
    del held
    gc.collect()
    assert (LEDGER.held, list(place.iterdir())) == (before, [])


def test_an_archive_that_is_refused_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "memory"
    place.mkdir()
    monkeypatch.setattr(unpacked, "MEMORY", place)
    gc.collect()
    before, made = LEDGER.held, io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("config.json", b'{"model_type": "gpt2"}')
        archive.writestr("model.safetensors", b"no weights")
    page = opened(model="tiny")
    for name, data, reason in (
        ("bad.zip", made.getvalue(), "bad/model.safetensors"),
        ("worse.zip", b"PK" * 99, "no table of contents"),
    ):
        page = brought(page, **{name: data})
        assert reason in page.warning[0].value.replace("\\", "")
        assert (LEDGER.held, list(place.iterdir())) == (before, [])
        assert page.selectbox(key="model").value == "tiny"
