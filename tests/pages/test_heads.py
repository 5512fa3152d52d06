"""Heads of other libraries' models in every view: classes of a text or of tokens, numbers, words; each by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from streamlit.testing.v1 import AppTest

from tests.checkpoint.huggingface.families import CONFIGS, random_model, write_bert_tokenizer, write_gpt2_tokenizer
from tests.pages.opening import bars_of, fine, opened, table
from transformer import load, run_any
from transformer.checkpoint.huggingface.library import quiet
from ui.store import user_folder

TEXT = "the dog runs."
OFF = "encoder.0.self~zero~h1"
LABELS = {0: "sad", 1: "so *so*", 2: "glad"}
NAMED: dict[str, Any] = dict(id2label=LABELS, label2id={word: i for i, word in LABELS.items()}, pad_token_id=0)
FOLDERS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "many": (
        "BertForSequenceClassification", "bert", NAMED | dict(problem_type="multi_label_classification"),
        "AutoModelForSequenceClassification",
    ),
    "number": (
        "BertForSequenceClassification", "bert", dict(id2label={0: "stars"}, label2id={"stars": 0}, pad_token_id=0),
        "AutoModelForSequenceClassification",
    ),
    "tokens": ("BertForTokenClassification", "bert", NAMED, "AutoModelForTokenClassification"),
    "words": ("BertForMaskedLM", "bert", dict(vocab_size=30, pad_token_id=0), "AutoModelForMaskedLM"),
    "decoder": ("GPT2ForSequenceClassification", "gpt2", NAMED, "AutoModelForSequenceClassification"),
}  # fmt: skip
"""By name: the library's class, the family of its sizes, what its config says of the head, and what reads it again."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    with quiet():
        for name, (class_name, family, options, _) in FOLDERS.items():
            random_model(class_name, CONFIGS[family][1] | options, seed=3).save_pretrained(place / name)
            (write_gpt2_tokenizer if family == "gpt2" else write_bert_tokenizer)(place / name)
        sizes = CONFIGS["bert"][1]
        random_model("BertForQuestionAnswering", sizes).save_pretrained(place / "answers")
    return place


@pytest.fixture(autouse=True)
def _own(shipped: None, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


def expected(folders: Path, name: str) -> np.ndarray:
    """What the library's own model says of the text, in double precision."""
    with quiet():
        net = getattr(transformers, FOLDERS[name][3]).from_pretrained(folders / name).eval().double()
    ids = torch.tensor([list(run_any(load(folders / name), TEXT).ids)])
    with torch.inference_mode():
        found: np.ndarray = net(input_ids=ids).logits[0].numpy()
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    odds: np.ndarray = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


def words(page: AppTest) -> str:
    return " ".join(part.value for part in (*page.markdown, *page.caption, *page.info))


def looked_at(name: str) -> tuple[AppTest, AppTest, AppTest]:
    """The pages Checkpoints, Map and What if with the text."""
    pages = (
        opened("your_model", model=f"mine/{name}", input=TEXT),
        opened("map", model=f"mine/{name}", text=TEXT),
        opened("what_if", model=f"mine/{name}", text=TEXT, do=OFF.replace("en", "de") if name == "decoder" else OFF),
    )
    first, second, third = map(fine, pages)
    return first, second, third


@pytest.mark.parametrize("name", ["many", "decoder"])
def test_classes_of_a_text(folders: Path, name: str) -> None:
    logits = expected(folders, name)
    odds = 1 / (1 + np.exp(-logits)) if name == "many" else softmax(logits)
    checkpoints, of_map, what_if = looked_at(name)
    np.testing.assert_allclose(table(checkpoints, *LABELS.values()).iloc[0], odds, atol=1e-5)
    found = table(of_map, "output", "probability")
    assert list(found["output"]) == [LABELS[i] for i in np.argsort(-odds)]
    np.testing.assert_allclose(found["probability"], np.sort(odds)[::-1], atol=1e-5)
    assert list(table(what_if, "class", "before", "after")["class"]) == list(LABELS.values())
    np.testing.assert_allclose(table(what_if, "class", "before", "after")["before"], odds, atol=1e-5)


def test_a_number_is_no_probability(folders: Path) -> None:
    stars = float(expected(folders, "number")[0])
    checkpoints, of_map, what_if = looked_at("number")
    for page in (checkpoints, of_map):
        assert float(table(page, "stars")["stars"][0]) == pytest.approx(stars, abs=1e-5)
        assert "no probabilities" in words(page)
    found = table(what_if, "number", "difference")
    assert found["number"][0] == "stars"
    assert float(found.iloc[0, 1]) == pytest.approx(stars, abs=1e-5)
    assert float(found["difference"][0]) == pytest.approx(float(found.iloc[0, 2] - found.iloc[0, 1]), abs=1e-6)


def test_classes_of_tokens(folders: Path) -> None:
    odds = softmax(expected(folders, "tokens"))
    checkpoints, of_map, what_if = looked_at("tokens")
    found = table(checkpoints, "class", "probability")
    assert list(found["class"]) == [LABELS[i] for i in odds.argmax(-1)]
    np.testing.assert_allclose(found["p(glad)"], odds[:, 2], atol=1e-5)
    last = table(of_map, "output", "probability")
    np.testing.assert_allclose(last["probability"], np.sort(odds[-1])[::-1], atol=1e-5)
    assert any(label in row.name for row in bars_of(what_if, "effects") for label in ("glad", "sad"))


def test_words_that_fill_a_place(folders: Path) -> None:
    """Each position has its own words on the map; what a change does to them is followed on What if."""
    odds = softmax(expected(folders, "words"))
    _, of_map, what_if = looked_at("words")
    assert "stands beside its layers" in words(of_map)
    found = table(of_map, "output", "probability")
    np.testing.assert_allclose(found["probability"], np.sort(odds[-1])[::-1][:10], atol=1e-5)
    assert "would put here" in words(of_map)
    assert "At each position" in words(what_if)


def test_a_head_that_is_not_shown_is_named(folders: Path) -> None:
    assert any("BertForQuestionAnswering" in str(one) for one in load(folders / "answers").assumptions)
