"""What the lesson "Learning" works out beside a training: smoothed targets, and what the start values do."""

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional as F

from transformer.training.loop import NextTokenLoss
from transformer.training.snapshots import Learning, Snapshot
from transformer.training.tasks import SMOOTHING, Settings


def smoothed_target(smoothing: float, vocab: int) -> Float[np.ndarray, " vocab"]:
    """The probabilities that training with label smoothing aims at; the right token is the first one.

    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    """
    target = np.full(vocab, smoothing / vocab)
    target[0] += 1.0 - smoothing
    return target


def smoothed_losses(right: Float[np.ndarray, " point"], smoothing: float, vocab: int) -> Float[np.ndarray, " point"]:
    """The loss (nats) of a model that gives the right token these probabilities, and the others equal ones."""
    given = torch.from_numpy(right)[:, None]
    others = ((1 - given) / (vocab - 1)).expand(-1, vocab - 1)
    logits = torch.cat([given, others], dim=1).log()
    labels = torch.zeros(len(right), dtype=torch.long)
    return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none").numpy()


def at_start(settings: Settings) -> tuple[Snapshot, float]:
    """A run before its first update, and the length of its first gradient, all weights together."""
    run = Learning(settings)
    loss = NextTokenLoss(run.model, SMOOTHING * settings.smoothing).eval()
    tensors = settings.tensors(settings.batch(1))
    with torch.enable_grad():
        (loss(*tensors) / tensors[-1][:, 1:].numel()).backward()
    squares = [float(one.grad.square().sum()) for one in run.model.parameters() if one.grad is not None]
    return run.snapshot(keeps=False), float(np.sqrt(sum(squares)))
