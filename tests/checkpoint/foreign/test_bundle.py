"""Files that come together: sorted, refused by name, run with the vocabulary that stands beside them or in them."""

import io
import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedmap import attention_maps, load, report
from heedmap.checkpoint.foreign.bundle import Bundle, bundle, read_vocabulary
from heedmap.checkpoint.foreign.vocabularies import sample_ids, with_ids
from heedmap.checkpoint.weight_files import parts_of
from heedmap.errors import CheckpointError, InputError
from heedmap.runs.any_model import run_any
from heedmap.safe.limits import DEFAULT_LIMITS
from heedmap.sequences.task import SequenceTask
from heedmap.text.base import Tokenizer
from heedmap.text.tokenizers import (
    IdTokenizer,
    SpecialIds,
    TextTokenizer,
    VocabularyTokenizer,
    find_special_ids,
    train_tokenizer,
)
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.drawn import fork
from tests.checkpoint.originals.torch_modules import translator
from tests.checkpoint.references import REFERENCE, heads, reference_file
from tests.safe import hostile

ANNOTATED = reference_file("annotated")
SOURCE_WORDS = ["<pad>", "<unk>", "</s>", "<s>", *(f"word{i}" for i in range(27))]
TARGET_WORDS = ["<pad>", "<s>", "</s>", *(f"wort{i}" for i in range(26))]


def opened(**files: bytes) -> dict[str, io.BytesIO]:
    return {name: io.BytesIO(data) for name, data in files.items()}


def annotated(**vocabularies: Sequence[str]) -> Bundle:
    """The published file beside lists of words, one a line, or as JSON."""
    files = {
        name: (json.dumps(words) if name.endswith("json") else "\n".join(words)).encode()
        for name, words in vocabularies.items()
    }
    return bundle(opened(**{"model.pt": ANNOTATED.read_bytes()}, **files))


def test_weights_alone_are_typed_as_ids():
    made = annotated().checkpoint({"n_heads": 3}, "mine")
    assert made.name == "mine"
    assert isinstance(made.tokenizer, IdTokenizer)
    expected = attention_maps(load(ANNOTATED, n_heads=3), [[4, 5, 2]], [[1, 6]])
    found = attention_maps(made, [[4, 5, 2]], [[1, 6]])
    assert all((found[name] == expected[name]).all() for name in expected)


def test_two_vocabularies_are_told_apart_by_their_sizes_and_name_the_marks():
    brought = annotated(**{"tgt.txt": TARGET_WORDS, "src.json": SOURCE_WORDS})
    made = brought.checkpoint({"n_heads": 3})
    config = made.model.config
    assert (config.pad_id, config.bos_id, config.eos_id) == (0, 1, 2)
    assert made.tokenizer.labels([4]) == ["word0"]
    assert made.writer.labels([3]) == ["wort0"]
    shown = run_any(made, "word3 word5", forced="wort1")
    assert shown.record["decoder.0.cross"].keys.labels == ("word3", "word5", "</s>")
    assert shown.translation.text == "wort1"
    assert "pad_id" not in " ".join(brought.recognised({"n_heads": 3}).assumptions)
    alone = annotated(**{"src.txt": SOURCE_WORDS})
    assert alone.checkpoint({"n_heads": 3, "bos_id": 1}).model.config.bos_id == 1  # an answer counts for more
    assert alone.checkpoint({"n_heads": 3}).model.config.bos_id == 3
    with pytest.raises(CheckpointError, match=r"words\.txt has 2 tokens, the checkpoint's embeddings have 31 and 29"):
        annotated(**{"words.txt": "ab"}).checkpoint({"n_heads": 3})


@pytest.mark.parametrize(
    ("later", "stays"),
    [({"src.txt": SOURCE_WORDS}, {"tgt.txt", "src.txt"}), ({"better.txt": TARGET_WORDS}, {"better.txt"})],
)
def test_a_later_vocabulary_stands_beside_those_that_fit_with_it(later, stays):
    first = annotated(**{"tgt.txt": TARGET_WORDS})
    found = first.beside(opened(**{name: "\n".join(words).encode() for name, words in later.items()}))
    assert set(found.vocabularies) == stays
    assert found.checkpoint({"n_heads": 3}).writer.labels([3]) == ["wort0"]
    with pytest.raises(CheckpointError, match=r"wrong\.txt has 2 tokens"):
        first.beside(opened(**{"wrong.txt": b"a\nb"}))


def test_one_vocabulary_serves_both_sides_of_one_size():
    files = {"model.chkpt": (REFERENCE / "jadore-shared" / "model.chkpt").read_bytes()}
    size = bundle(opened(**files)).checkpoint({}).model.config.source_vocab
    words = "\n".join(f"w{i}" for i in range(size)).encode()
    made = bundle(opened(**files, **{"vocab.txt": words})).checkpoint({})
    assert isinstance(made.tokenizer, VocabularyTokenizer)
    assert made.writer is made.tokenizer


TASK: dict[str, Any] = {"alphabet": "dna", "classes": ["EI", "IE", "N"], "length": 60, "background": "N"}


def classifier(task: object):
    """The published classifier's weights beside a config.json that describes a task."""
    config = json.dumps({"task": task}).encode()
    return bundle(opened(**{"model.pt": reference_file("kmer").read_bytes(), "config.json": config}))


def test_a_classifier_keeps_the_task_of_its_config_and_one_that_is_no_table_is_an_option():
    assert classifier(TASK).checkpoint({"n_heads": 4}).task == SequenceTask.of(TASK)
    for task in ("gelu", 7, None, ["EI"]):
        assert classifier(task).checkpoint({"n_heads": 4}).task is None
    for changes, message in (
        ({"classes": ["EI", "N"]}, "its task has 2 classes and 5 ids"),
        ({"classes": ["EI", "IE", "N", "X"]}, "its task has 4 classes and 5 ids, its model 3 and 5"),
        ({"alphabet": "protein"}, "its model 3 and 5"),
        ({"classes": 7}, r"task\.classes=7"),
    ):
        with pytest.raises(CheckpointError, match=rf"config\.json is refused: .*{message}"):
            classifier(TASK | changes).checkpoint({"n_heads": 4})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "nothing was brought"),
        ({"vocab.txt": b"a"}, r"vocab\.txt was brought, but no file of weights"),
        ({"notes.md": b"a"}, "no file of weights"),
        ({"model.pt": ANNOTATED.read_bytes(), "notes.md": b"a"}, r"notes\.md is neither weights"),
        ({"a.pt": b"x", "b.pt": b"y"}, "neither safetensors nor|bring one file of weights"),
        ({"model.pt": ANNOTATED.read_bytes(), "vocab.pkl": b"\x80\x02N."}, "vocabularies are read from text only"),
        ({"model.pt": ANNOTATED.read_bytes(), "vocab.txt": b"a\na"}, "holds 'a' twice"),
        ({"model.pt": ANNOTATED.read_bytes(), "config.json": b"{"}, "cannot be read as JSON"),
    ],
)
def test_what_does_not_belong_together_is_refused(files, message):
    with pytest.raises(CheckpointError, match=message):
        bundle(opened(**files))


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["any.pt"], {"": "any.pt"}),
        (["my_decoder.pt", "my_encoder.pt"], {"encoder": "my_encoder.pt", "decoder": "my_decoder.pt"}),
        (["EncoderRNN.pt", "DecoderRNN.pt"], {"encoder": "EncoderRNN.pt", "decoder": "DecoderRNN.pt"}),
        (["a_encoder.pt", "b_decoder.pt"], None),
        (["encoder.pt", "encoder2.pt"], None),
        (["encoder.pt", "decoder.pt", "model.pt"], None),
        (["frequency_enc.pt", "frequency_dec.pt"], {"encoder": "frequency_enc.pt", "decoder": "frequency_dec.pt"}),
        (["cadence.pt", "dense.pt"], None),
    ],
)
def test_names_tell_which_part_a_file_holds(names, parts):
    assert parts_of(names) == parts


@pytest.mark.parametrize("name", ["annotated", "encoder-only", "kmer", "rnn-tutorial-1", "torch-prenorm"])
def test_samples_are_ids_of_the_vocabulary_and_no_marks(name):
    config = report(REFERENCE / name).config
    size = getattr(config, "source_vocab", None) or config.vocab
    ids = sample_ids(config, 11, size)
    assert len(ids) == 11
    assert all(0 <= i < size for i in ids)
    assert not set(ids) & {config.pad_id, getattr(config, "bos_id", -1), getattr(config, "eos_id", -1)}


def test_an_encoder_and_a_classifier_are_looked_at_by_ids():
    encoder = run_any(load(reference_file("encoder-only"), **heads("encoder-only")), "3 4 5")
    assert encoder.record["encoder.2.self"].queries.labels == ("3", "4", "5")
    assert encoder.outputs["hidden"].shape == (3, 24)
    kmer = run_any(load(reference_file("kmer"), n_heads=4), "0 1 2 3 4")
    windows = ("0 1 2 (1-3)", "1 2 3 (2-4)", "2 3 4 (3-5)", "0 1 2 3 (1-4)", "1 2 3 4 (2-5)")
    assert kmer.record["encoder.0.self"].keys.labels == windows
    assert kmer.outputs["logits"].shape == (3,)
    for text, message in (("", "is empty"), ("99", "is no id"), ("1 " * 700, "at most 512")):
        with pytest.raises(InputError, match=message):
            run_any(load(reference_file("encoder-only"), **heads("encoder-only")), text, longest=512)


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
    made = fork(2)
    torch.save({"model": made.state, **beside}, folder / "ckpt.pt")
    return folder / "ckpt.pt", made.answers


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


def test_words_are_divided_by_spaces_each_side_has_its_own_and_a_file_that_is_brought_counts_more(
    tmp_path: Path,
) -> None:
    path, answers = saved(tmp_path, vocab=WORDS)
    assert run_any(load(path, **answers), "word7 word30").ids == (7, 30)
    other = "\n".join(f"wort{i}" for i in range(31)).encode()
    brought = bundle({"ckpt.pt": io.BytesIO(path.read_bytes()), "words.txt": io.BytesIO(other)}).checkpoint(answers)
    assert run_any(brought, "wort7").ids == (7,)
    original = scramble(translator(31, 29, (1, 1), 6, 2, 5))
    torch.save({"model": original.state_dict(), "itos": WORDS[:29], "vocab": WORDS}, path)
    found = load(path, n_heads=2, scale_embedding=True)
    assert (found.tokenizer.labels([30]), found.writer.labels([28])) == (["word30"], ["word28"])


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


def test_another_set_of_the_same_weights_is_named(tmp_path: Path) -> None:
    torch.manual_seed(1)
    made = fork(2)
    average = {name: 2 * tensor for name, tensor in made.state.items()}
    torch.save({"model": made.state, "ema": average, "optimizer": {"state": {}}}, tmp_path / "ckpt.pt")
    found = report(tmp_path / "ckpt.pt", **made.answers)
    assert "another set of the same weights lies under ema, and is not read" in found.reasons
    torch.save({"model": made.state, "ema": {"decay": torch.tensor(0.9)}}, tmp_path / "ckpt.pt")
    assert not any("another set" in reason for reason in report(tmp_path / "ckpt.pt", **made.answers).reasons)


LISTED = ["<blank>", "<s>", "</s>", "<unk>", "a", "man", "rides"]


def _read(data: bytes, name: str, special_ids: SpecialIds | None = None) -> Tokenizer:
    return with_ids(read_vocabulary(io.BytesIO(data), name), special_ids or SpecialIds())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("words.txt", "\n".join(LISTED).encode()),
        ("words.txt", ("\r\n".join(LISTED) + "\r\n").encode("utf-8-sig")),
        ("pieces.vocab", "\n".join(f"{word}\t-{i}.5" for i, word in enumerate(LISTED)).encode()),
        ("words.json", json.dumps(LISTED).encode()),
        ("words.json", json.dumps({word: LISTED.index(word) for word in reversed(LISTED)}).encode()),
    ],
)
def test_a_list_of_tokens_is_read_with_its_marks(name, data):
    tokenizer = _read(data, name)
    assert isinstance(tokenizer, VocabularyTokenizer)
    assert tokenizer.tokens == tuple(LISTED)
    assert tokenizer.special_ids == SpecialIds(pad_id=0, bos_id=1, eos_id=2, unknown_id=3)
    assert tokenizer.source_ids("A man  flies") == [4, 5, 3, 2]
    assert tokenizer.target_ids("man") == [1, 5, 2]
    assert tokenizer.pieces("A man  flies") == ["A", "man", "flies"]
    assert tokenizer.decode([1, 4, 5, 6, 2, 0]) == "a man rides"
    assert tokenizer.labels([1, 5]) == ["<s>", "man"]
    answered = _read(b"x\ny\nz\nw", "words.txt", SpecialIds(pad_id=-1, bos_id=3, eos_id=2))
    assert (answered.pad_id, answered.bos_id, answered.eos_id) == (-1, 3, 2)
    with pytest.raises(InputError, match="'flies' is not in the vocabulary"):
        answered.encode("x flies")


SPM, SPACE = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40).model, "▁".encode()


def test_a_sentencepiece_model_is_read_as_one_and_no_vocabulary_beyond_its_limit():
    tokenizer = _read(SPM, "tokenizer.model")
    assert tokenizer.encode("a man") == TextTokenizer(SPM).encode("a man")
    with pytest.raises(CheckpointError, match="at most 10 are read"):
        read_vocabulary(io.BytesIO(b"a\n" * 9), "words.txt", replace(DEFAULT_LIMITS, vocabulary_bytes=10))


class Vocab:
    """Stands for torchtext's class, which is not installed here."""


@pytest.mark.parametrize("save", [pickle.dumps, hostile.saved, lambda v: hostile.saved(v, pickle_protocol=4)])
@pytest.mark.parametrize("made", [lambda: (Vocab(), Vocab()), lambda: LISTED, lambda: {"weight": torch.ones(3)}])
def test_a_pickled_vocabulary_is_refused_with_the_remedy(save, made, monkeypatch):
    monkeypatch.setattr(Vocab, "__module__", __name__)
    with pytest.raises(CheckpointError, match=r"read from text only.*write its tokens as text.*get_itos"):
        _read(save(made()), "vocab.pt")


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
        ("spm.model", SPM.replace(SPACE, SPACE[:2] + b"\xff", 1), "damaged: its piece .* is no UTF-8 text"),
        ("spm.model", SPM.replace(SPACE, b"", 1), "not a SentencePiece model"),
    ],
)
def test_broken_vocabularies_are_refused_by_the_name_of_the_file(name, data, message):
    with pytest.raises(CheckpointError, match=f"^{name} is refused: .*{message}.* Remedy: "):
        _read(data, name)


@given(st.lists(st.integers(3, 96), max_size=9))
def test_ids_are_their_own_text(ids):
    tokenizer = IdTokenizer(97, SpecialIds())
    text = tokenizer.decode(ids)
    assert tokenizer.encode(text) == ids
    assert tokenizer.labels(ids) == tokenizer.pieces(text)
    assert tokenizer.source_ids(text) == [*ids, 2]


@pytest.mark.parametrize("text", ["7 x", "97", "-1", "1.5", "٣", "9" * 400, "²"])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(InputError, match="is no id: type whole numbers from 0 to 96"):
        IdTokenizer(97, SpecialIds()).encode(text)


def test_marks_are_found_under_usual_names_and_without_them_nothing_is_added():
    tokenizer = IdTokenizer(9, SpecialIds(pad_id=-1, bos_id=-1, eos_id=-1))
    assert tokenizer.target_ids("1 2") == [1, 2]
    assert not tokenizer.is_special(0)
    with pytest.raises(CheckpointError, match="eos_id=9 is no token: the vocabulary has ids 0 to 8"):
        IdTokenizer(9, SpecialIds(eos_id=9))
    found = find_special_ids(["[CLS]", "x", "[SEP]", "[UNK]", "[PAD]"])
    assert found == {"pad_id": 4, "bos_id": 0, "eos_id": 2, "unknown_id": 3}
    assert find_special_ids(["x", "y"]) == {}
