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
from transformer.sequences.fasta import fasta_of

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
