"""Whole files: every line is translated as it would be alone, in order, and nothing is left out in silence."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import toy
from transformer import attention_maps, translate
from transformer.attention.capture import watch
from transformer.checkpoint import Checkpoint, load
from transformer.checkpoint.ours.folder import load_snapshot
from transformer.errors import CheckpointError, InputError
from transformer.lessons.toy import toy_recurrent
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.recurrent import Recurrent
from transformer.nn.search import DecodingOptions, decode
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs import corpus
from transformer.runs.corpus import Bleu, TranslatedLine, bleu, translate_lines
from transformer.runs.measures import head_agreement as measured
from transformer.runs.measures.head_agreement import HeadAgreement, HeadScore, head_agreement, known_agreement
from transformer.sites import Site
from transformer.text.vocabulary import IdTokenizer, SpecialIds

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


CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
TRANSLATORS = ("multi30k-en-de", "multi30k-en-de-rnn", "multi30k-en-de-rnn-location")


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A model in double precision that looks at its source; two layers, three heads."""
    found = load(toy.write_checkpoint(tmp_path_factory.mktemp("toy") / "toy"))
    return replace(found, model=found.model.double())


def is_special(label: str) -> bool:
    return label.startswith("<") and label.endswith(">")


def pieces_of_words(labels: list[str]) -> list[list[int]]:
    """Positions by word, from the labels alone: spaces divide, full stops around a word stand apart from it."""
    if not any(label.startswith("▁") for label in labels):
        return [[position] for position in range(len(labels))]
    words: list[list[int]] = []
    for position, label in enumerate(labels):
        if is_special(label) or label.startswith("▁") or not words or is_special(labels[words[-1][0]]):
            words.append([position])
        else:
            words[-1].append(position)
    found: list[list[int]] = []
    for word in words:
        texts = "".join("." if labels[i].strip("▁") == "." else "w" for i in word)
        middle = texts.strip(".")
        before = len(texts) - len(texts.lstrip(".")) if middle else len(texts)
        found += [
            part for part in (word[:before], word[before : before + len(middle)], word[before + len(middle) :]) if part
        ]
    return found


def counted_by_hand(checkpoint: Checkpoint, text: str, gap: float) -> tuple[int, dict[tuple[str, int], int]]:
    """Decided rows and hits of each head: every removal runs alone, every sum is a loop."""
    run = translate(checkpoint, text)
    source, target = list(run.source_ids), list(run.target_ids)
    read = [checkpoint.model.config.bos_id, *target[:-1]]
    sources = pieces_of_words(checkpoint.tokenizer.labels(source))
    targets = pieces_of_words(checkpoint.tokenizer.labels(target))

    def log_prob(ids: list[int], positions: list[int]) -> float:
        rows = attention_maps(checkpoint, [ids], [read])["log_probs"][0]
        return sum(float(rows[i][target[i]]) for i in positions)

    rows = 0
    hits: dict[tuple[str, int], int] = {}
    for word in targets:
        if target[word[0]] == checkpoint.model.config.eos_id:
            continue
        losses = []
        for removed in sources[:-1]:
            without = [1 if position in removed else token for position, token in enumerate(source)]
            losses.append(log_prob(source, word) - log_prob(without, word))
        if max(losses) <= gap:
            continue
        rows += 1
        for site in ("decoder.0.cross",):
            for head in range(run.record[site].n_heads):
                weights = run.record[site].weights(head)
                sums = [sum(weights[i][j] for i in word for j in group) for group in sources]
                hits[site, head] = hits.get((site, head), 0) + (int(np.argmax(sums)) == int(np.argmax(losses)))
    return rows, hits


def test_shares_are_those_of_a_count_by_hand(toys: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "DECIDED", 1e-6)
    texts = ["the dog and the bird runs.", "the cat and the man and the dog eats."]
    counts = [counted_by_hand(toys, text, 1e-6) for text in texts]
    rows = sum(count[0] for count in counts)
    found = head_agreement(toys, texts)
    assert (found.sentences, found.rows) == (2, rows)
    assert rows > 5
    for head in found.heads:
        hits = sum(count[1].get((head.site, head.head), 0) for count in counts)
        assert head.agreement == pytest.approx(hits / rows, abs=1e-12)
    assert len({head.agreement for head in found.heads}) > 1


def test_without_an_unknown_token_the_word_is_left_out() -> None:
    model = watch(toy_recurrent(3, "additive", 1).double())
    assert isinstance(model, Recurrent)
    words = IdTokenizer(model.config.target_vocab, SpecialIds(0, 1, 2))
    checkpoint = Checkpoint("toy", model, words)
    run = translate(checkpoint, "3 4 5", forced="4 3")
    losses = measured.deciding_words(checkpoint, run)
    read = [[1, 4, 3]]
    whole = attention_maps(checkpoint, [[3, 4, 5, 2]], read)["log_probs"][0]
    for column, left in enumerate(([4, 5, 2], [3, 5, 2], [3, 4, 2])):
        without = attention_maps(checkpoint, [left], read)["log_probs"][0]
        expected = [float(whole[i][token] - without[i][token]) for i, token in enumerate(run.target_ids)]
        np.testing.assert_allclose(losses[:, column], expected, atol=1e-9)
    assert np.isnan(losses[:, 3]).all()


def test_a_head_that_stays_a_word_behind_is_told_from_one_that_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site("decoder.0.cross")
    score = HeadScore(site, 0, 0, agreement=0.1, previous=0.7)
    assert score.role == "follows the word before"
    assert replace(score, agreement=0.8).role == "names the deciding word"
    assert replace(score, agreement=0.7).role == "names the deciding word"  # of equals
    assert replace(score, previous=0.5).role == "follows the word before"
    assert replace(score, previous=0.49).role is None
    assert replace(score, agreement=np.nan, previous=np.nan).role is None
    other = HeadScore(Site("decoder.1.cross"), 1, 2, 0.3, 0.0)
    found = HeadAgreement(3, 5, (score, other, replace(other, head=3)))
    assert found.best == other
    assert found.of("decoder.0.cross", 0) == score
    assert found.of("decoder.0.self", 0) is None


@pytest.mark.parametrize("name", TRANSLATORS)
def test_what_lies_beside_shipped_weights_is_what_the_rule_says_of_them(name: str) -> None:
    checkpoint = load(CHECKPOINTS / name)
    known = known_agreement(checkpoint)
    assert known is not None
    found = head_agreement(checkpoint, checkpoint.examples)
    assert (known.sentences, known.rows) == (found.sentences, found.rows)
    for one, other in zip(known.heads, found.heads, strict=True):
        assert (one.site, one.layer, one.head) == (other.site, other.layer, other.head)
        np.testing.assert_allclose([one.agreement, one.previous], [other.agreement, other.previous], atol=1e-4)


def test_the_translator_starts_with_a_head_that_looks_at_the_word_it_translates() -> None:
    known = known_agreement(load(CHECKPOINTS / "multi30k-en-de"))
    assert known is not None
    assert (known.best.site, known.best.head) == ("decoder.2.cross", 1)
    assert known.best.agreement > 0.7
    behind = known.of("decoder.0.cross", 2)
    assert behind is not None
    assert behind.agreement < 0.1
    assert behind.role == "follows the word before"


def test_a_moment_of_the_training_is_not_told_by_the_measurement_of_its_end() -> None:
    checkpoint = load(CHECKPOINTS / "multi30k-en-de")
    assert checkpoint.folder is not None
    snapshot = load_snapshot(checkpoint, checkpoint.folder / "history" / "000050.safetensors")
    assert known_agreement(snapshot) is None


def test_a_measurement_survives_its_file(tmp_path: Path) -> None:
    heads = (HeadScore(Site("decoder.1.cross"), 1, 3, 0.25, np.nan), HeadScore(Site("pooling"), 0, 0, 1.0, 0.0))
    measured.write_agreement(tmp_path / "heads.json", HeadAgreement(7, 13, heads))
    found = measured.read_agreement(tmp_path / "heads.json")
    assert (found.sentences, found.rows, found.heads[1]) == (7, 13, heads[1])
    assert found.heads[0].agreement == 0.25
    assert np.isnan(found.heads[0].previous)


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": []},
        {"heads": [{"site": "decoder.0.cross", "layer": 0, "head": 0, "agreement": 1.5, "previous": 0}]},
        {"heads": [{"site": "decoder.0.cross"}]},
        {"heads": 7},
        {"rule": "sharpest"},
        {"rows": "many"},
    ],
)
def test_a_damaged_file_is_refused_with_its_remedy(tmp_path: Path, changes: dict[str, object]) -> None:
    heads = [{"site": "decoder.0.cross", "layer": 0, "head": 0, "agreement": 0.5, "previous": 0.0}]
    about = {"rule": "deletion", "sentences": 1, "rows": 1, "heads": heads, **changes}
    file = tmp_path / "heads.json"
    file.write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match=re.escape("python -m transformer measure heads")):
        measured.read_agreement(file)


def test_nothing_to_measure_on_is_refused() -> None:
    with pytest.raises(InputError, match="no sentence to measure"):
        head_agreement(load(CHECKPOINTS / "multi30k-en-de"), ())
