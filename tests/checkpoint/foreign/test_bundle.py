"""Files that come together: sorted, refused by name, run with the vocabulary that stands beside them."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.checkpoint.foreign.test_forks import Fork
from tests.checkpoint.originals import rnn, rnn_tutorials
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import Translator
from tests.checkpoint.references import REFERENCE, heads, reference_file
from tests.safe.hostile import corpus
from transformer import attention_maps, load, report
from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.errors import CheckpointError, InputError
from transformer.runs.any_model import run_any
from transformer.text.vocabulary import IdTokenizer, VocabularyTokenizer

ANNOTATED = reference_file("annotated")
SOURCE_WORDS = ["<pad>", "<unk>", "</s>", "<s>", *(f"word{i}" for i in range(27))]
TARGET_WORDS = ["<pad>", "<s>", "</s>", *(f"wort{i}" for i in range(26))]


def opened(**files: bytes) -> dict[str, io.BytesIO]:
    return {name: io.BytesIO(data) for name, data in files.items()}


def annotated(**vocabularies: bytes):
    return bundle(opened(**{"model.pt": ANNOTATED.read_bytes()}, **vocabularies))


def lines(words) -> bytes:
    return "\n".join(words).encode()


def test_weights_alone_are_typed_as_ids():
    made = annotated().checkpoint({"n_heads": 3}, "mine")
    assert made.name == "mine"
    assert isinstance(made.tokenizer, IdTokenizer)
    expected = attention_maps(load(ANNOTATED, n_heads=3), [[4, 5, 2]], [[1, 6]])
    found = attention_maps(made, [[4, 5, 2]], [[1, 6]])
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_two_vocabularies_are_told_apart_by_their_sizes_and_name_the_marks():
    brought = annotated(**{"tgt.txt": lines(TARGET_WORDS), "src.json": json.dumps(SOURCE_WORDS).encode()})
    made = brought.checkpoint({"n_heads": 3})
    config = made.model.config
    assert (config.pad_id, config.bos_id, config.eos_id) == (0, 1, 2)
    assert made.tokenizer.labels([4]) == ["word0"]
    assert made.writer.labels([3]) == ["wort0"]
    shown = run_any(made, "word3 word5", forced="wort1")
    assert shown.record["decoder.0.cross"].keys.labels == ("word3", "word5", "</s>")
    assert shown.translation.text == "wort1"
    assert "pad_id" not in " ".join(brought.recognised({"n_heads": 3}).report.assumptions)


def test_an_answer_counts_more_than_a_vocabulary():
    brought = annotated(**{"src.txt": lines(SOURCE_WORDS)})
    assert brought.checkpoint({"n_heads": 3, "bos_id": 1}).model.config.bos_id == 1
    assert brought.checkpoint({"n_heads": 3}).model.config.bos_id == 3


def test_a_vocabulary_of_another_size_is_refused():
    with pytest.raises(CheckpointError, match=r"words\.txt has 2 tokens, the checkpoint's embeddings have 31 and 29"):
        annotated(**{"words.txt": b"a\nb"}).checkpoint({"n_heads": 3})


@pytest.mark.parametrize(
    ("later", "stays"),
    [({"src.txt": SOURCE_WORDS}, {"tgt.txt", "src.txt"}), ({"better.txt": TARGET_WORDS}, {"better.txt"})],
)
def test_a_later_vocabulary_stands_beside_those_that_fit_with_it(later, stays):
    first = annotated(**{"tgt.txt": lines(TARGET_WORDS)})
    found = first.beside(opened(**{name: lines(words) for name, words in later.items()}))
    assert set(found.vocabularies) == stays
    assert found.checkpoint({"n_heads": 3}).writer.labels([3]) == ["wort0"]
    with pytest.raises(CheckpointError, match=r"wrong\.txt has 2 tokens"):
        first.beside(opened(**{"wrong.txt": b"a\nb"}))


def test_one_vocabulary_serves_both_sides_of_one_size():
    files = {"model.chkpt": (REFERENCE / "jadore-shared" / "model.chkpt").read_bytes()}
    size = bundle(opened(**files)).checkpoint({}).model.config.source_vocab
    made = bundle(opened(**files, **{"vocab.txt": lines(f"w{i}" for i in range(size))})).checkpoint({})
    assert isinstance(made.tokenizer, VocabularyTokenizer)
    assert made.writer is made.tokenizer


CLASSIFIER = Path(__file__).parents[3] / "checkpoints" / "splice-junctions"


def classifier(**changes: object):
    """Our own classifier's weights beside its config.json, whose task is changed."""
    about = json.loads((CLASSIFIER / "config.json").read_text(encoding="utf-8"))
    about["task"] |= changes
    weights = (CLASSIFIER / "model.safetensors").read_bytes()
    return bundle(opened(**{"model.safetensors": weights, "config.json": json.dumps(about).encode()}))


def test_a_classifier_keeps_the_task_that_its_config_describes():
    assert classifier().checkpoint({}).task == load(CLASSIFIER).task


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["EI", "IE"], "landmarks": [], "background": ""}, "its task has 2 classes and 5 ids"),
        ({"classes": ["EI", "IE", "N", "X"]}, "its task has 4 classes and 5 ids, its model 3 and 5"),
        ({"alphabet": "protein"}, "its model 3 and 5"),
        ({"classes": 7}, r"task\.classes=7"),
    ],
)
def test_a_task_of_another_model_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(CheckpointError, match=rf"config\.json is refused: .*{message}"):
        classifier(**changes).checkpoint({})


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
        ({"model.bin": b"", "config.json": b'{"model_type": "bert"}'}, "start the app with a folder"),
    ],
)
def test_what_does_not_belong_together_is_refused(files, message):
    with pytest.raises(CheckpointError, match=message):
        bundle(opened(**files))


def test_hostile_files_are_refused_as_everywhere(tmp_path: Path):
    for trick, data, reason in list(corpus(str(tmp_path / "marker")))[::6]:
        with pytest.raises(CheckpointError) as refused:
            bundle(opened(**{"model.pt": data}))
        assert reason in str(refused.value), trick
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("task", ["gelu", 7, None, ["EI"]])
def test_a_task_that_is_no_table_is_refused(task: object):
    about = json.loads((CLASSIFIER / "config.json").read_text(encoding="utf-8")) | {"task": task}
    weights = (CLASSIFIER / "model.safetensors").read_bytes()
    brought = bundle(opened(**{"model.safetensors": weights, "config.json": json.dumps(about).encode()}))
    with pytest.raises(CheckpointError, match=r"config\.json is refused: task="):
        brought.checkpoint({})


@pytest.mark.parametrize("name", ["annotated", "encoder-only", "kmer", "rnn-tutorial-1", "torch-prenorm"])
def test_samples_are_ids_of_the_vocabulary_and_no_marks(name):
    config = report(REFERENCE / name).config
    ids = sample_ids(config, 11)
    size = getattr(config, "source_vocab", None) or config.vocab
    assert len(ids) == 11
    assert all(0 <= i < size for i in ids)
    assert not set(ids) & {config.pad_id, getattr(config, "bos_id", -1), getattr(config, "eos_id", -1)}


def test_an_encoder_and_a_classifier_are_looked_at_by_ids():
    encoder = run_any(load(reference_file("encoder-only"), **heads("encoder-only")), "3 4 5")
    assert encoder.record["encoder.2.self"].queries.labels == ("3", "4", "5")
    assert encoder.outputs["hidden"].shape == (3, 24)
    kmer = run_any(load(reference_file("kmer"), n_heads=4), "0 1 2 3 4")
    assert kmer.record["encoder.0.self"].keys.labels == (
        "0 1 2 (1-3)",
        "1 2 3 (2-4)",
        "2 3 4 (3-5)",
        "0 1 2 3 (1-4)",
        "1 2 3 4 (2-5)",
    )
    assert kmer.outputs["logits"].shape == (3,)


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("99", "is no id"), ("1 " * 700, "at most 512")])
def test_what_an_encoder_cannot_read_is_said(text, message):
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


PAIRS: dict[str, Any] = {
    "rnn-tutorial-1": lambda: (rnn.EncoderRNN(31, 13), rnn.LocationDecoder(37, 13, 9)),
    "rnn-tutorial-2": lambda: (rnn.EncoderRNN(31, 13), rnn.AdditiveDecoder(37, 13)),
    "rnn-d2l": lambda: (rnn_tutorials.D2lEncoder(31, 11, 13, 2), rnn_tutorials.D2lDecoder(37, 11, 13, 2)),
    "rnn-chatbot": lambda: (
        rnn_tutorials.ChatbotEncoder(31, 13, 2, nn.GRU, "gru"),
        rnn_tutorials.ChatbotDecoder(37, 13, 2, nn.GRU, "gru", "dot"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_half_is_told_by_its_parts(name, tmp_path):
    for half, module in zip(("encoder", "decoder"), PAIRS[name](), strict=True):
        for prefix in ("", f"{half}."):
            torch.save({f"{prefix}{key}": one for key, one in module.state_dict().items()}, tmp_path / "a.pt")
            told = report(tmp_path / "a.pt")
            said = "the decoder of a recurrent pair" if half == "decoder" else "recurrent nets without attention"
            assert (told.fits, said in told.text) == (False, True), told.text
            assert "choose both files at once" in told.text


def test_nets_that_look_at_nothing_are_told_so(tmp_path):
    torch.manual_seed(3)
    decoder = nn.ModuleDict({"embedding": nn.Embedding(37, 13), "gru": nn.GRU(13, 13), "out": nn.Linear(13, 37)})
    encoder = rnn.EncoderRNN(31, 13)
    for saved in (decoder.state_dict(), {"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}):
        torch.save(saved, tmp_path / "model.pt")
        assert "recurrent nets without attention" in report(tmp_path / "model.pt").text
        with pytest.raises(CheckpointError, match="no tensor compares one state with another"):
            load(tmp_path / "model.pt")
