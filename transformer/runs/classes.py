"""What a head says that puts a whole text into classes: one probability everywhere, under the classes' own names."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.sequences.classify import calibrated


@dataclass(frozen=True)
class Classes:
    """A probability for each class, of a text or of each token. They sum to 1, unless `each` is a yes or no of its own.

    `temperature` is what the logits were divided by; 1 where nobody calibrated them.
    """

    names: tuple[str, ...]
    probabilities: Float[np.ndarray, "*position class"]
    each: bool
    temperature: float = 1.0


def classes_of(checkpoint: Checkpoint, logits: Float[np.ndarray, " class"]) -> Classes:
    """The classes that the logits of one text say, by name (of the task, or the config; numbers otherwise).

    A lone logit is the log-odds of a yes.
    """
    task, config, scores = checkpoint.task, checkpoint.model.config, torch.from_numpy(logits).double()
    if task is not None and len(task.classes) == len(logits):
        return Classes(task.classes, calibrated(scores[None], task)[0].numpy(), False, task.temperature)
    each = len(logits) == 1 or not getattr(config, "one_label", True)
    return Classes(names_of(checkpoint, len(logits)), (scores.sigmoid() if each else scores.softmax(-1)).numpy(), each)


def temperature_of(checkpoint: Checkpoint, count: int) -> float:
    """What the logits of so many classes are divided by: the task's temperature; 1 where nobody calibrated them."""
    task = checkpoint.task
    return task.temperature if task is not None and len(task.classes) == count else 1.0


def token_classes(checkpoint: Checkpoint, logits: Float[np.ndarray, "position class"]) -> Classes | None:
    """The classes of each token, one row a position, of a head that was saved for that; None of any other scores."""
    if getattr(checkpoint.model.config, "head", "") != "tokens":
        return None
    scores = torch.from_numpy(logits).double()
    return Classes(names_of(checkpoint, logits.shape[-1]), scores.softmax(-1).numpy(), False)


def numbers_of(checkpoint: Checkpoint, scores: Float[np.ndarray, " number"]) -> dict[str, float]:
    """The numbers of a regression by name, as the head gives them: they are no probabilities."""
    return dict(zip(names_of(checkpoint, len(scores)), scores.tolist(), strict=True))


def names_of(checkpoint: Checkpoint, count: int) -> tuple[str, ...]:
    """What so many classes are called: by name, or by number where no names fit."""
    return given_names(checkpoint, count) or tuple(map(str, range(count)))


def given_names(checkpoint: Checkpoint, count: int) -> tuple[str, ...]:
    """The names that a checkpoint's config has for so many classes; none where they do not fit."""
    named: tuple[str, ...] = getattr(checkpoint.model.config, "labels", ())
    return named if len(named) == count else ()
