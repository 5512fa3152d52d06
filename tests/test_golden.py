"""The shipped checkpoints say today what they said when they were shipped, and look where people do.

The texts were made by `python -m heedmap translate checkpoints/NAME < tests/golden/sentences.txt`, the tables by
`python -m heedmap classify checkpoints/NAME checkpoints/NAME/examples.fa`; anew whenever a checkpoint is replaced.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from heedmap import load, translate
from heedmap.runs.sequences.classify import classify, verdicts
from heedmap.sequences.fasta import fasta_of

HERE = Path(__file__).parent
GOLDEN, CHECKPOINTS = HERE / "golden", HERE.parent / "checkpoints"
CLASSIFIERS = sorted(path.parent.name for path in CHECKPOINTS.glob("*/examples.fa"))
TRANSLATIONS = {
    "multi30k-en-de": "translations.txt",
    "multi30k-en-de-rnn": "multi30k-en-de-rnn.txt",
    "multi30k-en-de-rnn-location": "multi30k-en-de-rnn-location.txt",
}


@pytest.mark.parametrize(("name", "file"), TRANSLATIONS.items())
def test_translations_are_the_golden_ones(name: str, file: str) -> None:
    checkpoint = load(CHECKPOINTS / name)
    sentences, expected = ((GOLDEN / one).read_text("utf-8").splitlines() for one in ("sentences.txt", file))
    assert [translate(checkpoint, sentence).text for sentence in sentences] == expected
    own, other = (CHECKPOINTS / one / "tokenizer.model" for one in (name, "multi30k-en-de"))
    assert own.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["multi30k-en-de", "multi30k-en-de-rnn"])
def test_the_strongest_cross_attention_follows_the_words(name: str) -> None:
    """“Hunde” is written while some head of some layer looks at “dogs” more than at all else together."""
    record = translate(load(CHECKPOINTS / name), "Three dogs are running through the snow.").record
    maps = [record[site] for site in record.sites if site.endswith("cross")]
    pictures = [one.picture(head, words=True) for one in maps for head in range(one.n_heads)]
    query, key = pictures[0].queries.texts.index("Hunde"), pictures[0].keys.texts.index("dogs")
    assert max(picture.values[query, key] for picture in pictures) > 0.5


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_and_probabilities_are_the_golden_ones(name: str) -> None:
    assert len(CLASSIFIERS) == len([*GOLDEN.glob("*.tsv")])
    with (GOLDEN / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
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
