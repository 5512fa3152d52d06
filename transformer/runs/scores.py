"""How good a classifier is on rows whose class is known, and whether its probabilities mean what they say."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

BINS = 15
"""Bins of equal width in which confidence is held against accuracy."""


@dataclass(frozen=True)
class Scores:
    """What a confusion matrix (rows: true class, columns: predicted) says."""

    confusion: Int[np.ndarray, "true predicted"]

    @classmethod
    def of(cls, scores: Float[np.ndarray, "row classes"], labels: Int[np.ndarray, " row"]) -> "Scores":
        """Scores of the class with the highest probability (or logit)."""
        n_classes = scores.shape[1]
        pairs = labels * n_classes + scores.argmax(1)
        return cls(np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes))

    @property
    def accuracy(self) -> float:
        """Share of rows that are right."""
        return float(self.confusion.trace() / self.confusion.sum())

    @property
    def recalls(self) -> tuple[float, ...]:
        """For each class, the share of its rows that was found."""
        return tuple((self.confusion.diagonal() / self.confusion.sum(axis=1).clip(min=1)).tolist())

    @property
    def mcc(self) -> float:
        """Matthews correlation for any number of classes: 1 is perfect, 0 is no better than chance.

        Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient".
        """
        c = self.confusion.astype(float)
        total, true, predicted = c.sum(), c.sum(axis=1), c.sum(axis=0)
        covariance = c.trace() * total - true @ predicted
        spread = (total**2 - predicted @ predicted) * (total**2 - true @ true)
        return float(covariance / np.sqrt(spread)) if spread > 0 else 0.0


@dataclass(frozen=True)
class Bin:
    """Rows whose confidence lies from `low` to `high`: its mean, the share of them that is right, how many they are."""

    low: float
    high: float
    confidence: float
    accuracy: float
    rows: int


def reliability(confidence: Float[np.ndarray, " row"], right: Bool[np.ndarray, " row"]) -> tuple[Bin, ...]:
    """The calibration curve: accuracy against confidence, in `BINS` bins of equal width; empty ones are left out.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """
    of_row = np.minimum((confidence * BINS).astype(int), BINS - 1)
    found = []
    for number in np.unique(of_row):
        rows = of_row == number
        edges = number / BINS, (number + 1) / BINS
        found.append(Bin(*edges, float(confidence[rows].mean()), float(right[rows].mean()), int(rows.sum())))
    return tuple(found)


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """Expected calibration error: how far confidence lies from accuracy, on average over rows (Guo, equation 3)."""
    gaps = sum(one.rows * abs(one.confidence - one.accuracy) for one in bins)
    return gaps / sum(one.rows for one in bins)
