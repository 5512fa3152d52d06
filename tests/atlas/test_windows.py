"""Sequences: offsets in letters, widths, bases and places, against loops over a record's windows."""

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.atlas.adapters import SequenceSubject
from transformer.atlas.statistics import OFFSETS
from transformer.runs.sequences.classify import classify
from transformer.sequences.folding import folded, received

TEXTS = ("ACGTTGCANGTACCGGTATGCAA", "TTGACCATGGACATTACCGTGAC")
"""Of the length that the model was trained on; N is a letter that is not known."""


@pytest.fixture(scope="module")
def both():
    """The totals of two sequences together, and each one's record."""
    checkpoint = sequence_checkpoint()
    subject = SequenceSubject(checkpoint)
    with torch.inference_mode():
        observed = subject.run([subject.read(i, text, None) for i, text in enumerate(TEXTS)])
    return {one.maps.group: one.totals for one in observed}, [classify(checkpoint, text) for text in TEXTS]


def test_offsets_are_letters_between_the_starts_of_windows(both) -> None:
    totals, runs = both
    for sentence, run in enumerate(runs):
        starts = [span.start for span in run.spans]
        weights = run.record["encoder.1.self"].weights(2)
        for offset in (-16, -3, 0, 1, 7):
            pairs = [(q, k) for q in range(len(starts)) for k in range(len(starts)) if starts[k] - starts[q] == offset]
            column = OFFSETS.index(offset)
            found = totals["encoder.self"]["offset"]
            assert found.total[sentence, 5, column] == pytest.approx(sum(weights[q, k] for q, k in pairs), abs=1e-5)
            assert found.counted[sentence, 0, column] == len({q for q, _ in pairs})
        nearest = [starts[k] - starts[q] for q, k in enumerate(weights.argmax(-1))]
        hits = totals["encoder.self"]["argmax"].total[sentence, 5]
        assert hits.tolist() == [nearest.count(offset) for offset in OFFSETS]


@pytest.mark.parametrize(("group", "site", "head"), [("encoder.self", "encoder.0.self", 1), ("pooling", "pooling", 1)])
def test_widths_bases_and_places_are_what_windows_receive_folded_onto_letters(both, group, site, head) -> None:
    totals, runs = both
    for sentence, run in enumerate(runs):
        attention = run.record[site]
        share = received(attention, head)
        track = folded(share, run.spans, len(TEXTS[0]))
        rows = attention.shape[0]
        found = totals[group]
        assert found["place"].total[sentence, head] / rows == pytest.approx(track.total, abs=1e-5)
        by_base = [sum(track.total[i] for i, base in enumerate(TEXTS[sentence]) if base == one) for one in "ACGT"]
        assert found["letter"].total[sentence, head] / rows == pytest.approx(by_base, abs=1e-5)
        widths = [sum(s for s, span in zip(share, run.spans, strict=True) if span.width == w) for w in (3, 5)]
        assert found["width"].total[sentence, head] / rows == pytest.approx(widths, abs=1e-5)
        even = folded(np.full(len(run.spans), 1 / len(run.spans)), run.spans, len(TEXTS[0]))
        assert found["place"].total[sentence, -1] / rows == pytest.approx(even.total, abs=1e-5)


def test_sequences_of_another_length_have_no_places() -> None:
    subject = SequenceSubject(sequence_checkpoint())
    with torch.inference_mode():
        (first, *_) = subject.run([subject.read(0, "ACGTACGTA", None)])
    assert "place" not in first.totals
    assert "letter" in first.totals
