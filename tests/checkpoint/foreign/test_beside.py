"""What lies beside the weights in their file: a vocabulary reads texts, and other sets of weights are named."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.checkpoint.foreign.test_forks import Fork
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import Translator
from transformer import load, report
from transformer.checkpoint.foreign.bundle import bundle
from transformer.runs.any_model import run_any
from transformer.text.vocabulary import IdTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz .,!?"
WORDS = [f"word{i}" for i in range(31)]
STOI = {letter: i for i, letter in enumerate(LETTERS)}
BESIDE: dict[str, dict[str, Any]] = {
    "stoi": {"stoi": STOI},
    "itos": {"itos": dict(enumerate(LETTERS))},
    "chars": {"chars": list(LETTERS)},
    "a text of chars": {"chars": LETTERS},
    "among the options": {"config": {"stoi": STOI, "n_head": 2}},
}


def saved(folder: Path, **beside: Any) -> tuple[Path, dict[str, Any]]:
    torch.manual_seed(1)
    fork = Fork(2)
    assert fork.vocab == len(LETTERS)
    torch.save({"model": fork.state(), **beside}, folder / "ckpt.pt")
    return folder / "ckpt.pt", fork.answers


@pytest.mark.parametrize("kind", BESIDE)
def test_a_vocabulary_of_letters_reads_what_is_typed(kind: str, tmp_path: Path) -> None:
    path, answers = saved(tmp_path, **BESIDE[kind])
    assert any("has as many entries as the embedding (31)" in reason for reason in report(path, **answers).reasons)
    found = run_any(load(path, **answers), "to be, or")
    assert found.ids == tuple(LETTERS.index(letter) for letter in "to be, or")
    assert found.record["decoder.0.self"].keys.texts[:2] == ("t", "o")
    with path.open("rb") as file:  # in the worker, as on the page
        brought = bundle({"ckpt.pt": file}).checkpoint(answers)
    assert run_any(brought, "to be, or").ids == found.ids


def test_words_are_divided_by_spaces_and_a_file_that_is_brought_counts_more(tmp_path: Path) -> None:
    path, answers = saved(tmp_path, vocab=WORDS)
    assert run_any(load(path, **answers), "word7 word30").ids == (7, 30)
    other = "\n".join(f"wort{i}" for i in range(31)).encode()
    brought = bundle({"ckpt.pt": io.BytesIO(path.read_bytes()), "words.txt": io.BytesIO(other)}).checkpoint(answers)
    assert run_any(brought, "wort7").ids == (7,)


@pytest.mark.parametrize(
    "beside",
    [
        {"stoi": {**STOI, "a": 7}}, {"vocab": WORDS[:30]}, {"itos": {i + 1: one for i, one in enumerate(LETTERS)}},
        {"chars": [*LETTERS[:30], 7]}, {"vocab": [*WORDS[:30], "word0"]}, {"vocab": 31},
    ],
)  # fmt: skip
def test_what_is_no_vocabulary_of_this_embedding_is_not_used(beside: dict[str, Any], tmp_path: Path) -> None:
    path, answers = saved(tmp_path, **beside)
    assert isinstance(load(path, **answers).tokenizer, IdTokenizer)
    assert not any("entries as the embedding" in reason for reason in report(path, **answers).reasons)


def test_two_sides_have_the_vocabularies_of_their_sizes(tmp_path: Path) -> None:
    original = scramble(Translator(31, 29, (1, 1), 6, 2, 5))
    torch.save({"model": original.state_dict(), "itos": WORDS[:29], "vocab": WORDS}, tmp_path / "pair.pt")
    found = load(tmp_path / "pair.pt", n_heads=2, scale_embedding=True)
    assert (found.tokenizer.labels([30]), found.writer.labels([28])) == (["word30"], ["word28"])


def test_another_set_of_the_same_weights_is_named(tmp_path: Path) -> None:
    torch.manual_seed(1)
    fork = Fork(2)
    average = {name: 2 * tensor for name, tensor in fork.state().items()}
    torch.save({"model": fork.state(), "ema": average, "optimizer": {"state": {}}}, tmp_path / "ckpt.pt")
    found = report(tmp_path / "ckpt.pt", **fork.answers)
    assert "another set of the same weights lies under ema, and is not read" in found.reasons
    torch.save({"model": fork.state(), "ema": {"decay": torch.tensor(0.9)}}, tmp_path / "ckpt.pt")
    assert not any("another set" in reason for reason in report(tmp_path / "ckpt.pt", **fork.answers).reasons)
