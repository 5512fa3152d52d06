"""Calibration does what it says, against hand-made cases."""

import math

import pytest
import torch

from transformer.training.classification.calibration import (
    calibration_error,
    crossfitted_calibration_error,
    fitted_temperature,
)


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
