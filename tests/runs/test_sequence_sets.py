"""A set of sequences: each is read as if it were alone, in its place, under its own class."""

import numpy as np
import pytest

from tests.classifiers import sequence_checkpoint
from transformer.errors import InputError
from transformer.runs import sequence_sets
from transformer.runs.classify import classify
from transformer.runs.sequence_sets import read_set
from transformer.sequences.fasta import FastaRecord
from transformer.sequences.folding import received

TEXTS = ("ACGTTGCAAGTGT", "GGGTTTACG", "TTTACGACGTTAG", "ACGTA", "CCCCGGGGTTTTA")


def records(*words: str) -> list[FastaRecord]:
    return [FastaRecord(f"s{i}", words[i % len(words)], text) for i, text in enumerate(TEXTS)]


def test_each_sequence_is_read_as_if_it_were_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_sets, "AT_ONCE", 2)
    checkpoint, seen = sequence_checkpoint(), list[float]()
    found = read_set(checkpoint, records("EI", "N"), seen.append)
    assert [one.id for one in found.sequences] == ["s0", "s1", "s2", "s3", "s4"]
    assert seen == sorted(seen)
    assert seen[-1] == 1
    for one, text in zip(found.sequences, TEXTS, strict=True):
        alone = classify(checkpoint, text)
        assert (one.text, one.predicted, one.spans) == (text, alone.predicted, alone.spans)
        for site, heads in one.received.items():
            for head, values in enumerate(heads):
                np.testing.assert_allclose(values, received(alone.record[site], head), atol=1e-6)


def test_classes_are_those_of_the_headers_only_when_every_header_names_one() -> None:
    checkpoint = sequence_checkpoint()
    named = read_set(checkpoint, records("EI", "N"))
    assert named.labelled
    assert [one.label for one in named.sequences] == [0, 2, 0, 2, 0]
    guessed = read_set(checkpoint, records("EI", "something"))
    assert not guessed.labelled
    assert [one.label for one in guessed.sequences] == [one.predicted for one in guessed.sequences]


@pytest.mark.parametrize(
    ("sequences", "says"),
    [
        ([], "holds no sequence"),
        (["ACGTACGT"] * 501, "holds 501 sequences, at most 500"),
        (["ACGTACGT", "ACGT" * 129], "s1 has over 512 letters"),
        (["ACGTACGT", "AC!GTACG"], "s1: letter 3 is '!'"),
    ],
)
def test_a_set_that_cannot_be_read_names_the_reason(sequences: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_set(sequence_checkpoint(), [FastaRecord(f"s{i}", "", text) for i, text in enumerate(sequences)])
