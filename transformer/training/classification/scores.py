"""How good a classifier is, and whether its probabilities mean what they say."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

BINS = 15
"""Bins of equal width in which confidence is held against accuracy."""


@dataclass(frozen=True)
class Scores:
    """What a confusion matrix (rows: true class, columns: predicted) says."""

    confusion: Int[np.ndarray, "true predicted"]

    @classmethod
    def of(cls, logits: Float[Tensor, "row classes"], labels: Int[Tensor, " row"]) -> "Scores":
        """Scores of the likeliest class."""
        n_classes = logits.shape[1]
        pairs = labels * n_classes + logits.argmax(1)
        return cls(pairs.bincount(minlength=n_classes**2).reshape(n_classes, n_classes).numpy())

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


def calibration_error(logits: Float[Tensor, "row classes"], labels: Int[Tensor, " row"]) -> float:
    """Expected calibration error: how far confidence lies from accuracy, on average over rows.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3.
    """
    confidence, predicted = logits.softmax(1).max(1)
    right = (predicted == labels).to(confidence.dtype)
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    gap = torch.zeros(BINS, dtype=confidence.dtype).index_add(0, bins, confidence - right)
    return float(gap.abs().sum() / len(labels))


def fitted_temperature(logits: Float[Tensor, "row classes"], labels: Int[Tensor, " row"]) -> float:
    """The number that logits are divided by so that the labels become likeliest; classes keep their order.

    It stays between 1/100 and 100, also where logits say nothing. Source: Guo et al. 2017, section 4.2.
    """
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    logits = logits.detach().double()
    optimizer = torch.optim.LBFGS([log_temperature], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(logits / log_temperature.exp(), labels)
        value.backward()
        return value

    optimizer.step(loss)
    return float(log_temperature.detach().exp().clamp(0.01, 100.0))


def crossfitted_calibration_error(logits: Float[Tensor, "row classes"], labels: Int[Tensor, " row"]) -> float:
    """Calibration error where each half of the rows is divided by the temperature of the other half.

    So no row is judged by a temperature that has seen it.
    """
    halves = torch.arange(len(labels)) % 2 == 0
    scaled = torch.empty_like(logits)
    for half in (halves, ~halves):
        scaled[half] = logits[half] / fitted_temperature(logits[~half], labels[~half])
    return calibration_error(scaled, labels)
