"""A set of sequences: each is read as if it were alone, in its place, under its own class."""

import numpy as np
import pytest

from tests.classifiers import sequence_checkpoint
from transformer.errors import InputError
from transformer.runs.sequences import sets
from transformer.runs.sequences.classify import classify
from transformer.runs.sequences.sets import read_set
from transformer.sequences.fasta import FastaRecord
from transformer.sequences.folding import received
from transformer.sequences.motifs import FLANK
from transformer.sites import Site

TEXTS = ("ACGTTGCAAGTGT", "GGGTTTACG", "TTTACGACGTTAG", "ACGTA", "CCCCGGGGTTTTA")


def records(*words: str) -> list[FastaRecord]:
    return [FastaRecord(f"s{i}", words[i % len(words)], text) for i, text in enumerate(TEXTS)]


def test_each_sequence_is_read_as_if_it_were_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "AT_ONCE", 2)
    checkpoint, seen = sequence_checkpoint(), list[float]()
    found = read_set(checkpoint, records("EI", "N"), seen.append)
    assert [one.id for one in found.sequences] == ["s0", "s1", "s2", "s3", "s4"]
    assert seen == sorted(seen)
    assert seen[-1] == 1
    for one, text in zip(found.sequences, TEXTS, strict=True):
        alone = classify(checkpoint, text)
        assert (one.text, one.spans) == (text, alone.spans)
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
    assert [one.label for one in guessed.sequences] == [classify(checkpoint, text).predicted for text in TEXTS]


def test_a_motif_is_made_of_the_most_attended_windows_of_its_width() -> None:
    found = read_set(sequence_checkpoint(), records("EI", "N"))
    motif = found.motif(0, Site("pooling"), 1, 5)
    place = []
    for one in (each for each in found.sequences if each.label == 0):
        windows = [i for i, span in enumerate(one.spans) if span.width == 5]
        place.append(one.spans[max(windows, key=lambda i: one.received[Site("pooling")][1, i])].start)
    assert motif.place.share == max(map(place.count, place)) / 3
    assert np.abs(motif.starts - place).max() <= FLANK


@pytest.mark.parametrize(
    ("sequences", "says"),
    [
        ([], "holds no sequence"),
        (["ACGT" * 129], "s0 has over 512 letters"),
        (["AC!GTACG", "ACGT" * 129], "of the first one: s0: letter 3 is '!'"),
    ],
)
def test_a_set_that_cannot_be_read_names_the_reason(sequences: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_set(sequence_checkpoint(), [FastaRecord(f"s{i}", "", text) for i, text in enumerate(sequences)])


def test_records_that_cannot_be_read_refuse_no_others() -> None:
    texts = ["ACGTACGT", "AC!GTACG", "ACGTACGA", "ACGT" * 129, ""]
    found = read_set(sequence_checkpoint(), [FastaRecord(f"s{i}", "EI", text) for i, text in enumerate(texts)])
    assert [one.id for one in found.sequences] == ["s0", "s2"]
    assert [problem.partition(" ")[0].rstrip(":") for problem in found.problems] == ["s1", "s3", "s4"]
    assert found.labelled
    assert not found.more


def test_of_a_longer_set_the_first_sequences_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.runs.sequences.sets.MAX_SEQUENCES", 3)
    records = [FastaRecord(f"s{i}", "", "ACGTACGT") for i in range(5)]
    found = read_set(sequence_checkpoint(), iter(records))
    assert [one.id for one in found.sequences] == ["s0", "s1", "s2"]
    assert found.more
    assert not read_set(sequence_checkpoint(), records[:3]).more
