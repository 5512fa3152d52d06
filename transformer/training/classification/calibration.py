"""Whether a classifier's probabilities mean what they say, and the temperature that makes them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer.runs import scores


def calibration_error(logits: Float[Tensor, "row classes"], labels: Int[Tensor, " row"]) -> float:
    """Expected calibration error: how far confidence lies from accuracy, on average over rows."""
    confidence, predicted = logits.softmax(1).max(1)
    return scores.calibration_error(scores.reliability(confidence.numpy(), (predicted == labels).numpy()))


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
