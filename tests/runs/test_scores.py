"""Scores of classifiers on rows whose class is known: against hand-made cases and counts row by row."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.runs.scores import BINS, Scores, calibration_error, reliability


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(lambda c: min(c[0] + c[1], c[2] + c[3]) > 0))
def test_mcc_of_two_classes_is_the_known_formula(cells):
    tn, fp, fn, tp = cells
    spread = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    expected = (tp * tn - fp * fn) / spread if spread else 0.0
    assert Scores(np.array([[tn, fp], [fn, tp]])).mcc == pytest.approx(expected)


def test_confusion_accuracy_and_recalls():
    logits = np.eye(3)[[0, 0, 1, 2, 1]]
    scores = Scores.of(logits, np.array([0, 1, 1, 2, 2]))
    assert scores.confusion.tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert scores.accuracy == pytest.approx(3 / 5)
    assert scores.recalls == (1.0, 0.5, 0.5)


def test_a_class_without_rows_has_no_recall():
    assert Scores(np.array([[3, 0], [0, 0]])).recalls == (1.0, 0.0)


def test_the_calibration_curve_counts_confidence_and_accuracy_of_each_bin():
    generator = np.random.default_rng(2)
    confidence = np.concatenate([generator.uniform(1 / 3, 1, 97), [1.0]])
    right = generator.random(98) < 0.7
    bins = reliability(confidence, right)
    assert sum(one.rows for one in bins) == 98
    for one in bins:
        rows = [i for i in range(98) if one.low <= confidence[i] < one.high or (one.high == 1 and confidence[i] == 1)]
        assert one.rows == len(rows)
        assert one.high - one.low == pytest.approx(1 / BINS)
        assert one.confidence == pytest.approx(np.mean(confidence[rows]))
        assert one.accuracy == pytest.approx(np.mean(right[rows]))
    expected = sum(one.rows / 98 * abs(one.confidence - one.accuracy) for one in bins)
    assert calibration_error(bins) == pytest.approx(expected)
