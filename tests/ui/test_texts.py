"""The catalogue is whole: every text in every language, with the same blanks, and every key that the code asks for."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
import torch

from tests.toy import tokenizer
from transformer import Checkpoint, translate, watch
from transformer.checkpoint.worker import pool
from transformer.checkpoint.worker.pool import Budget
from transformer.errors import CheckpointError, HeedmapError
from transformer.lessons.attention import attention_board
from transformer.lessons.leaks import leak_test
from transformer.lessons.masks import Batch
from transformer.lessons.positions import past_the_end, position_table, rotation, rotation_errors
from transformer.lessons.recipe import Recipe
from transformer.lessons.sentences import Sentence, source_sentence, target_sentence
from transformer.lessons.toy import toy_batch, toy_recurrent, toy_sentences, toy_transformer
from transformer.models.kmer import KmerClassifier, KmerConfig
from transformer.models.seq2seq import Seq2Seq
from transformer.tokens.text import TextTokenizer
from ui import texts
from ui.store import store
from ui.texts import LANGUAGES, catalogue, error_text

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [(page, name) for page, found in catalogue().items() for name in found]
CALL = re.compile(r'\bt\(\s*f?"([a-z_]+\.[^"]+)"')


@cache
def words() -> TextTokenizer:
    return tokenizer()


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize(("page", "name"), TEXTS)
def test_every_text_stands_in_every_language_with_the_same_blanks(page: str, name: str):
    found = catalogue()[page][name]
    assert set(found) == set(LANGUAGES)
    assert all(text.strip() for text in found.values())
    assert len({frozenset(blanks(text)) for text in found.values()}) == 1


def calls() -> list[str]:
    files = [file for folder in ("pages", "ui") for file in (ROOT / folder).rglob("*.py")]
    return sorted({key for file in files for key in CALL.findall(file.read_text("utf-8"))})


@pytest.mark.parametrize("key", calls())
def test_every_key_that_the_code_asks_for_is_there(key: str):
    """A key with a blank (an f-string) must match at least one text."""
    page, name = key.split(".", 1)
    pattern = re.compile(re.sub(r"\\\{.*?\\\}", ".+", re.escape(name)))
    assert any(pattern.fullmatch(text) for text in catalogue().get(page, {})), key


TINY = Checkpoint(name="tiny", model=watch(toy_transformer(4, 2, seed=1)))


def refused(error: CheckpointError) -> None:
    raise error


BATCH = [Sentence.of((5, 3), ("a", "</s>"))]
RAISED = {
    "source empty": lambda: source_sentence(replace(TINY, tokenizer=words()), "  "),
    "target empty": lambda: target_sentence(replace(TINY, tokenizer=words()), ""),
    "characters": lambda: source_sentence(replace(TINY, tokenizer=words()), "x" * 10_000),
    "tokens": lambda: source_sentence(replace(TINY, tokenizer=words()), "dog " * 99),
    "no tokenizer": lambda: source_sentence(TINY, "dog"),
    "no transformer": lambda: replace(TINY, model=toy_recurrent(3, "additive", 1)).model_as(Seq2Seq),
    "covered": lambda: toy_recurrent(3, "location", 1).start(torch.full((1, 99), 4)),
    "batch": lambda: Batch.of(BATCH * 5, BATCH * 5, 0),
    "batch pairs": lambda: Batch.of(BATCH * 2, BATCH, 0),
    "batch words": lambda: toy_batch(["a " * 40], ["b"]),
    "odd": lambda: rotation(3, 7),
    "past rotation": lambda: rotation_errors(position_table("paper", 5, 4), 9),
    "past the end": lambda: past_the_end("learned", 4, 6, 9),
    "divisor": lambda: attention_board(TINY.model, *toy_sentences(2), "encoder.0.self", Recipe(n_heads=3)),
    "not here": lambda: store.revision("nothing"),
    "empty sentence": lambda: translate(replace(TINY, tokenizer=words()), "  "),
    "characters passage": lambda: translate(replace(TINY, tokenizer=words()), "x" * 10_000),
    "tokens read": lambda: translate(replace(TINY, tokenizer=words()), "dog " * 99),
    "forced empty": lambda: translate(replace(TINY, tokenizer=words()), "dog", forced=" "),
    "broken character": lambda: words().encode("a\ud800"),
    "worker time": lambda: refused(pool._too_long("a.pt", Budget(2**29, 30))),
    "worker memory": lambda: refused(pool._too_much("a.pt", Budget(2**29, 30))),
    "worker ended": lambda: refused(pool._ended("a.pt", 9, Budget(2**29, 30))),
    "worker failed": lambda: refused(pool._told("a.pt", {"kind": "failed", "sentence": "KeyError: 7"}, Budget(1, 1))),
    "worker not understood": lambda: refused(pool._not_understood("a.pt", "12 parts")),
    "windows": lambda: leak_test(Checkpoint(name="k", model=watch(KmerClassifier(KmerConfig(vocab=5, n_classes=2))))),
}


@pytest.mark.parametrize("what", RAISED)
def test_errors_that_readers_meet_are_told_in_their_language(what: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(HeedmapError) as raised:
        RAISED[what]()
    said = str(raised.value)
    assert error_text(said) == said
    monkeypatch.setattr(texts, "language", lambda: "zh")
    told = error_text(said)
    assert re.search("[\u4e00-\u9fff]", told)
    assert not re.search(r"[{}]|\b(is|has|type|choose|shorten)\b", told.replace("A man is riding", ""))
    numbers = re.findall(r"\d+(?:,\d{3})*", said)
    assert all(number in told for number in numbers)


def test_an_error_without_a_text_stays_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(texts, "language", lambda: "zh")
    assert error_text("something else {x}: do that") == "something else {x}: do that"
