"""The shipped sequence classifiers say today what they said when they were shipped, and look where biology does.

Each table was made by `python -m transformer classify checkpoints/NAME checkpoints/NAME/examples.fa >
tests/golden/NAME.tsv`; it is made anew whenever the checkpoint is replaced.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from transformer import load
from transformer.runs.sequences.classify import classify, verdicts
from transformer.runs.sequences.sets import MOST_FALSE, SequenceSet, clearest, read_set
from transformer.sequences.fasta import fasta_of
from transformer.sequences.motifs import FLANK

HERE = Path(__file__).parent
CHECKPOINTS = HERE.parent / "checkpoints"
TABLES = sorted((HERE / "golden").glob("*.tsv"))


def test_every_sequence_classifier_has_its_table() -> None:
    assert [table.stem for table in TABLES] == sorted(path.parent.name for path in CHECKPOINTS.glob("*/examples.fa"))
    assert TABLES


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_classes_and_probabilities_are_the_golden_ones(table: Path) -> None:
    name = table.stem
    with table.open(encoding="utf-8", newline="") as file:
        expected = list(csv.DictReader(file, delimiter="\t"))
    checkpoint = load(CHECKPOINTS / name)
    assert checkpoint.task is not None
    classes = checkpoint.task.classes
    found = list(verdicts(checkpoint, fasta_of((CHECKPOINTS / name / "examples.fa").read_bytes())))
    assert [one.id for one in found] == [row["id"] for row in expected]
    for one, row in zip(found, expected, strict=True):
        assert one.probabilities is not None
        assert classes[int(one.probabilities.argmax())] == row["predicted"]
        np.testing.assert_allclose(one.probabilities, [float(row[c]) for c in classes], atol=1e-4)


def test_the_first_example_of_the_splice_classifier_is_a_typical_donor() -> None:
    """Its class is what its header says, and its other strand is no junction."""
    checkpoint = load(CHECKPOINTS / "splice-junctions")
    assert checkpoint.task is not None
    header, letters = checkpoint.examples[0].split("\n")
    given, other = (
        classify(checkpoint, one) for one in (letters, checkpoint.task.alphabet.reverse_complement(letters))
    )
    assert header.endswith(" EI")
    assert (given.classes[given.predicted], other.classes[other.predicted]) == ("EI", "N")
    assert min(given.probabilities.max(), other.probabilities.max()) > 0.98


@pytest.fixture(scope="module")
def splice() -> SequenceSet:
    """The example set of the shipped splice classifier, read by it."""
    folder = CHECKPOINTS / "splice-junctions"
    return read_set(load(folder), fasta_of((folder / "examples.fa").read_bytes()))


@pytest.mark.parametrize(("name", "letters", "start"), [("EI", "GT", 30), ("IE", "AG", 28)])
def test_the_clearest_motif_shows_the_known_letters_where_they_belong(
    splice: SequenceSet, name: str, letters: str, start: int
) -> None:
    """Donors show GT and acceptors AG: clear in the logo, at the junction, and enriched against the other classes."""
    assert splice.labelled
    label = splice.classes.index(name)
    width = max(splice.widths)
    every = splice.every_head(label, width)
    motif, _ = every[clearest(every)]
    assert letters in motif.enrichment.pattern
    place = motif.enrichment.pattern.index(letters)
    assert (motif.information[place : place + 2] > 1).all()
    at = motif.starts - FLANK + place  # a logo begins before its window
    assert np.mean(at == start) > 0.8
    assert motif.enrichment.p_value < 1e-6


def test_the_clearest_motif_is_none_that_stands_as_often_in_the_other_classes(splice: SequenceSet) -> None:
    """By information alone, "GG" would be the clearest of what is no junction, with p = 0.82 against the junctions."""
    label = splice.classes.index("N")
    every = splice.every_head(label, 3)
    largest = max(every, key=lambda one: every[one][0].information.sum())
    assert every[largest][0].enrichment.p_value > 0.5
    motif, q = every[clearest(every)]
    assert q <= MOST_FALSE
    assert motif.enrichment.p_value <= q


def test_a_head_whose_windows_all_start_at_one_place_is_told_of(splice: SequenceSet) -> None:
    every = splice.every_head(splice.classes.index("EI"), max(splice.widths))
    fixed = {one: motif.place for one, (motif, _) in every.items() if motif.place.is_fixed}
    expected = {("encoder.1.self", 0): 24, ("pooling", 2): 20, ("pooling", 3): 24}
    assert {one: place.start for one, place in fixed.items()} == expected
    assert all(place.share == 1 for place in fixed.values())
