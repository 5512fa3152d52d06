"""The door for sequences: one with all its attention, or many as a table."""

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.attention.capture import recording
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.kmers import windows
from transformer.runs.sequences.classify import classify, verdicts
from transformer.sequences.fasta import FastaRecord

SEQUENCE = "ACGTTGCANGTACCAGTTGACGT"


def test_probabilities_are_the_softmax_of_logits_over_the_temperature():
    checkpoint = sequence_checkpoint()
    run = classify(checkpoint, SEQUENCE.lower())
    logits = checkpoint.model.outputs(torch.tensor([run.letters.ids]))["logits"][0].double()
    np.testing.assert_allclose(run.probabilities, (logits / 1.7).softmax(0).detach(), rtol=1e-6)
    assert run.probabilities.sum() == pytest.approx(1)
    assert run.classes[run.predicted] == run.classes[int(np.argmax(run.probabilities))]


def test_the_record_names_windows_by_letters_and_place():
    run = classify(sequence_checkpoint(), SEQUENCE)
    assert run.record.sites == ("encoder.0.self", "encoder.1.self", "pooling")
    keys = run.record["encoder.1.self"].keys
    assert len(keys) == len(run.spans) == len(set(keys.labels)) == 21 + 19
    assert keys.texts[2] == "3-5 GTT"
    assert keys.texts[21] == "1-5 ACGTT"
    np.testing.assert_allclose(run.record["encoder.0.self"].weights(1).sum(1), 1, rtol=1e-5)
    assert run.record["pooling"].shape == (1, 40)
    assert run.spans == tuple(windows(23, (3, 5)))
    for places, name in ((range(101, 124), "103-105 GTT"), (range(123, 100, -1), "121-119 GTT")):
        named = classify(sequence_checkpoint(), SEQUENCE, places=places).record["pooling"].keys
        assert (named.texts[2], named.texts[21].partition(" ")[0]) == (name, f"{places[0]}-{places[4]}")


def test_looking_does_not_change_the_answer():
    checkpoint = sequence_checkpoint(double=True)
    ids = torch.tensor([checkpoint.task.alphabet.read(SEQUENCE).ids])
    with torch.inference_mode():
        plain = checkpoint.model(ids)
        with recording():
            assert torch.equal(checkpoint.model(ids), plain)


def test_many_sequences_keep_their_order_and_do_not_depend_on_their_neighbours(monkeypatch):
    checkpoint = sequence_checkpoint(double=True)
    texts = [SEQUENCE, SEQUENCE[::-1], SEQUENCE.replace("G", "A"), "TTTTTTT", "CCCCC"]
    monkeypatch.setattr("transformer.runs.sequences.classify.LETTERS_AT_ONCE", 2 * len(SEQUENCE))
    found = list(verdicts(checkpoint, [FastaRecord(str(i), "", text) for i, text in enumerate(texts)]))
    assert [verdict.id for verdict in found] == ["0", "1", "2", "3", "4"]
    for verdict, text in zip(found, texts, strict=True):
        np.testing.assert_allclose(verdict.probabilities, classify(checkpoint, text).probabilities, rtol=1e-12)


def test_a_sequence_that_cannot_be_read_says_why_and_stops_no_other():
    records = [FastaRecord("bad", "", "AC!GTA"), FastaRecord("short", "", "ACG"), FastaRecord("good", "", "ACGTA")]
    bad, short, good = verdicts(sequence_checkpoint(), records)
    assert bad.probabilities is None
    assert "letter 3 is '!'" in bad.problem
    assert "the widest window needs 5" in short.problem
    assert good.probabilities is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("ACGT", "widest window needs 5"),
        ("MKVLAAGEF", "looks like protein"),
        ("A" * 16_385, "16,385 letters, at most 16,384"),
        ("ACG TAC<b>", "letter 7"),
    ],
)
def test_what_cannot_be_run_is_refused(text, says):
    with pytest.raises(InputError, match=says):
        classify(sequence_checkpoint(), text)


def test_a_checkpoint_must_classify_and_say_what():
    checkpoint = sequence_checkpoint()
    with pytest.raises(CheckpointError, match="add `task`"):
        classify(Checkpoint("bare", checkpoint.model), SEQUENCE)
    encoder = Encoder(EncoderConfig(vocab=5, d_model=4, n_heads=2))
    with pytest.raises(CheckpointError, match="does not classify"):
        classify(Checkpoint("other", encoder, task=checkpoint.task), SEQUENCE)
