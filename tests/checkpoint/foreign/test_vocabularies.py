"""Vocabularies beside foreign weights: lists of tokens and SentencePiece models that are read, and what is refused."""

import io
import json
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.safe import hostile
from transformer.checkpoint.foreign.bundle import read_vocabulary
from transformer.checkpoint.foreign.vocabularies import with_ids
from transformer.errors import CheckpointError, InputError
from transformer.safe.limits import DEFAULT_LIMITS
from transformer.text.base import Tokenizer
from transformer.text.text import train_tokenizer
from transformer.text.vocabulary import IdTokenizer, SpecialIds, VocabularyTokenizer, find_special_ids

WORDS = ["<blank>", "<s>", "</s>", "<unk>", "a", "man", "rides"]


def _read(data: bytes, name: str, special_ids: SpecialIds | None = None) -> Tokenizer:
    return with_ids(read_vocabulary(io.BytesIO(data), name), special_ids or SpecialIds())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("words.txt", "\n".join(WORDS).encode()),
        ("words.txt", ("\r\n".join(WORDS) + "\r\n").encode("utf-8-sig")),
        ("pieces.vocab", "\n".join(f"{word}\t-{i}.5" for i, word in enumerate(WORDS)).encode()),
        ("words.json", json.dumps(WORDS).encode()),
        ("words.json", json.dumps({word: WORDS.index(word) for word in reversed(WORDS)}).encode()),
    ],
)
def test_a_list_of_tokens_is_read_with_its_marks(name, data):
    tokenizer = _read(data, name)
    assert isinstance(tokenizer, VocabularyTokenizer)
    assert tokenizer.tokens == tuple(WORDS)
    assert tokenizer.special_ids == SpecialIds(pad_id=0, bos_id=1, eos_id=2, unknown_id=3)
    assert tokenizer.source_ids("A man  flies") == [4, 5, 3, 2]
    assert tokenizer.target_ids("man") == [1, 5, 2]
    assert tokenizer.pieces("A man  flies") == ["A", "man", "flies"]
    assert tokenizer.decode([1, 4, 5, 6, 2, 0]) == "a man rides"
    assert tokenizer.labels([1, 5]) == ["<s>", "man"]


def test_marks_that_the_list_does_not_name_are_those_that_were_answered():
    tokenizer = _read(b"x\ny\nz\nw", "words.txt", SpecialIds(pad_id=-1, bos_id=3, eos_id=2))
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (-1, 3, 2)
    with pytest.raises(InputError, match="'flies' is not in the vocabulary"):
        tokenizer.encode("x flies")


def test_a_sentencepiece_model_is_read_as_one():
    original = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40)
    tokenizer = _read(original.model, "tokenizer.model")
    assert tokenizer.encode("a man") == original.encode("a man")
    assert isinstance(original, Tokenizer)


class Vocab:
    """Stands for torchtext's class, which is not installed here."""


@pytest.mark.parametrize("save", [pickle.dumps, hostile.saved, lambda v: hostile.saved(v, pickle_protocol=4)])
def test_a_pickled_vocabulary_is_refused_with_the_remedy(save, monkeypatch):
    monkeypatch.setattr(Vocab, "__module__", __name__)
    with pytest.raises(
        CheckpointError, match=r"asks to import '.*Vocab'.*write its tokens as text.*get_itos"
    ) as refused:
        _read(save((Vocab(), Vocab())), "vocab.pt")
    assert "save its weights" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("words.txt", b"", "holds no token"),
        ("words.txt", b"a\n\nb", "token 1 is empty"),
        ("words.txt", b"\xff\xfe", "byte 0 is no UTF-8"),
        ("words.txt", b"a\nb\nc\nb\n", "holds 'b' twice"),
        ("words.json", b'["a", "b", "b", "c"]', "holds 'b' twice"),
        ("words.txt", b"a" * 2000, "2,000 characters"),
        ("words.json", b"{", "no JSON"),
        ("words.json", b"[" * 100_000, "no JSON"),
        ("words.json", b'["a", 3]', "neither a list"),
        ("words.json", b'{"a": 0, "b": 2}', "not 0, 1, 2"),
        ("words.json", b'{"a": [0]}', "neither a list"),
        ("tokenizer.model", b"no model", "not a SentencePiece model"),
        ("tokenizer.model", b"", "not a SentencePiece model"),
        ("tokenizer.model", b"\x0a\x00", "not a SentencePiece model"),
    ],
)
def test_broken_vocabularies_are_refused_by_the_name_of_the_file(name, data, message):
    with pytest.raises(CheckpointError, match=f"^{name} is refused: .*{message}.* Remedy: "):
        _read(data, name)


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        ("▁".encode()[:2] + b"\xff", "spm.model is refused: the tokenizer is damaged: its piece .* is no UTF-8 text"),
        (b"", "spm.model is refused: the tokenizer is not a SentencePiece model"),
    ],
)
def test_a_sentencepiece_model_that_is_damaged_is_refused_by_its_name(piece, message):
    model = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40).model
    with pytest.raises(CheckpointError, match=message):
        _read(model.replace("▁".encode(), piece, 1), "spm.model")


def test_a_vocabulary_has_a_largest_size():
    with pytest.raises(CheckpointError, match="at most 10 are read"):
        read_vocabulary(io.BytesIO(b"a\n" * 9), "words.txt", replace(DEFAULT_LIMITS, vocabulary_bytes=10))


@given(st.lists(st.integers(3, 96), max_size=9))
def test_ids_are_their_own_text(ids):
    tokenizer = IdTokenizer(97, SpecialIds())
    text = tokenizer.decode(ids)
    assert tokenizer.encode(text) == ids
    assert tokenizer.labels(ids) == tokenizer.pieces(text)
    assert tokenizer.source_ids(text) == [*ids, 2]
    assert isinstance(tokenizer, Tokenizer)


@pytest.mark.parametrize("text", ["7 x", "97", "-1", "1.5", "٣", "9" * 400, "²"])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(InputError, match="is no id: type whole numbers from 0 to 96"):
        IdTokenizer(97, SpecialIds()).encode(text)


def test_without_marks_nothing_is_added():
    tokenizer = IdTokenizer(9, SpecialIds(pad_id=-1, bos_id=-1, eos_id=-1))
    assert tokenizer.target_ids("1 2") == [1, 2]
    assert not tokenizer.is_special(0)


def test_a_mark_that_is_no_token_is_refused():
    with pytest.raises(CheckpointError, match="eos_id=9 is no token: the vocabulary has ids 0 to 8"):
        IdTokenizer(9, SpecialIds(eos_id=9))


@pytest.mark.parametrize("saved", [WORDS, {"weight": torch.ones(3)}])
def test_a_harmless_pickle_is_refused_as_well(saved):
    with pytest.raises(CheckpointError, match="read from text only"):
        _read(hostile.saved(saved), "vocab.pt")


def test_marks_are_found_under_usual_names():
    found = find_special_ids(["[CLS]", "x", "[SEP]", "[UNK]", "[PAD]"])
    assert found == {"pad_id": 4, "bos_id": 0, "eos_id": 2, "unknown_id": 3}
    assert find_special_ids(["x", "y"]) == {}
