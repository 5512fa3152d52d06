"""Whole files: every line is translated as it would be alone, in order, and nothing is left out in silence."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests import toy
from transformer.checkpoint import Checkpoint, load
from transformer.errors import CheckpointError
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.search import DecodingOptions, decode
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs import corpus
from transformer.runs.corpus import Bleu, TranslatedLine, bleu, translate_lines

OPTIONS = DecodingOptions(beam=2, max_length=13)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    torch.manual_seed(0)
    return load(toy.write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "toy"))


@pytest.mark.parametrize(("rows", "positions"), [(64, 4096), (3, 4096), (64, 20)])
def test_each_line_is_translated_as_it_would_be_alone(
    checkpoint: Checkpoint, rows: int, positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "MAX_ROWS", rows)
    monkeypatch.setattr(corpus, "MAX_POSITIONS", positions)
    model, words, _ = checkpoint.translator()
    lines = [source for source, _ in toy.sentences(11, seed=5)]
    found = translate_lines(model, words, lines, OPTIONS)
    for line, result in zip(lines, found, strict=True):
        alone = decode(model, torch.tensor([words.source_ids(line)]), OPTIONS)[0]
        assert result == TranslatedLine(words.decode(alone.ids), 0, alone.finished, len(alone.ids))
    assert len({result.text for result in found}) > 5


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u2028", "\u00a0 \u3000"])
def test_a_line_without_text_becomes_an_empty_line(checkpoint: Checkpoint, blank: str) -> None:
    model, words, _ = checkpoint.translator()
    assert [line.text != "" for line in translate_lines(model, words, ["the dog", blank, "the cat"], OPTIONS)] == [
        True,
        words.encode(blank) != [],
        True,
    ]
    assert translate_lines(model, words, [], OPTIONS) == []
    assert translate_lines(model, words, ["", ""], OPTIONS) == [TranslatedLine()] * 2


def test_lines_of_like_length_come_together_and_batches_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "MAX_ROWS", 3)
    monkeypatch.setattr(corpus, "MAX_POSITIONS", 12)
    lengths = [2, 0, 9, 3, 3, 50, 1, 2]
    assert corpus._batches(lengths, mixed=True) == [[5], [2], [3, 4, 0], [7, 6]]
    assert corpus._batches(lengths, mixed=False) == [[5], [2], [3, 4], [0, 7], [6]]


def test_what_a_checkpoint_cannot_read_is_counted(checkpoint: Checkpoint) -> None:
    """Such a line gives the translation of its first part, and says so."""
    model, words, _ = checkpoint.translator()
    assert isinstance(model, Seq2Seq)
    short = Seq2Seq(replace(model.config, max_length=10, positions="learned")).eval()
    long = "the dog and the cat and the bird sleeps."
    ids = words.encode(long)
    cut, whole = translate_lines(short, words, [long, "the dog"], DecodingOptions(max_length=50))
    assert cut.unread == len(ids) - 9
    assert whole.unread == 0
    alone = decode(short, torch.tensor([[*ids[:9], words.eos_id]]), DecodingOptions(max_length=10))[0]
    assert cut.text == words.decode(alone.ids)
    assert cut.finished == alone.finished


def test_a_translation_that_was_cut_says_so(checkpoint: Checkpoint) -> None:
    model, words, _ = checkpoint.translator()
    (cut,) = translate_lines(model, words, ["the dog"], DecodingOptions(beam=1, max_length=1))
    assert not cut.finished


def test_checkpoints_that_cannot_translate_are_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointError, match="toy has no tokenizer"):
        replace(checkpoint, tokenizer=None).translator()
    with pytest.raises(CheckpointError, match="toy is no encoder-decoder"):
        replace(checkpoint, model=Encoder(EncoderConfig(vocab=5, d_model=4, n_heads=2))).translator()


def test_bleu_is_sacrebleus() -> None:
    references = ["Ein Mann fährt mit dem Fahrrad.", "Zwei Hunde spielen im Schnee."]
    assert bleu(references, references).score == pytest.approx(100)
    found = bleu(["ein Mann fährt mit dem Fahrrad.", "Zwei Hunde spielen im Schnee."], references)
    assert isinstance(found, Bleu)
    assert 50 < found.score < 100
    assert "case:mixed" in found.signature
    assert "tok:13a" in found.signature


def test_progress_is_drawn_on_stderr(
    checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model, words, _ = checkpoint.translator()
    translate_lines(model, words, ["the dog", ""], OPTIONS, progress=True)
    shown = capsys.readouterr()
    assert "2/2" in shown.err
    assert shown.out == ""
