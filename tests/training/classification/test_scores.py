"""Scores of classifiers: against hand-made cases, and calibration that does what it says."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.training.classification.scores import (
    Scores,
    calibration_error,
    crossfitted_calibration_error,
    fitted_temperature,
)


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(lambda c: min(c[0] + c[1], c[2] + c[3]) > 0))
def test_mcc_of_two_classes_is_the_known_formula(cells):
    tn, fp, fn, tp = cells
    spread = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    expected = (tp * tn - fp * fn) / spread if spread else 0.0
    assert Scores(np.array([[tn, fp], [fn, tp]])).mcc == pytest.approx(expected)


def test_confusion_accuracy_and_recalls():
    logits = torch.eye(3)[torch.tensor([0, 0, 1, 2, 1])]
    scores = Scores.of(logits, torch.tensor([0, 1, 1, 2, 2]))
    assert scores.confusion.tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert scores.accuracy == pytest.approx(3 / 5)
    assert scores.recalls == (1.0, 0.5, 0.5)


def test_a_class_without_rows_has_no_recall():
    assert Scores(np.array([[3, 0], [0, 0]])).recalls == (1.0, 0.0)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy():
    logits = torch.tensor([[0.0, math.log(4)]]).repeat(10, 1)  # confidence 0.8 in class 1
    assert calibration_error(logits, torch.tensor([1] * 5 + [0] * 5)) == pytest.approx(0.3, abs=1e-6)
    assert calibration_error(logits, torch.tensor([1] * 8 + [0] * 2)) == pytest.approx(0.0, abs=1e-6)


def test_temperature_finds_what_logits_were_multiplied_by():
    honest = torch.randn(20_000, 3, dtype=torch.float64) * 2
    labels = torch.multinomial(honest.softmax(1), 1)[:, 0]
    temperature = fitted_temperature(honest * 2.5, labels)
    assert temperature == pytest.approx(2.5, rel=0.05)
    assert crossfitted_calibration_error(honest * 2.5, labels) < calibration_error(honest * 2.5, labels) / 4


def test_logits_that_say_nothing_have_a_temperature_all_the_same():
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert fitted_temperature(logits, torch.tensor([0, 1])) == 100.0
