"""What a head says that puts a whole text into classes: one probability everywhere, under the classes' own names."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.classify import calibrated


@dataclass(frozen=True)
class Classes:
    """A probability for each class. They sum to 1, unless `each` is a yes or no of its own.

    `temperature` is what the logits were divided by; 1 where nobody calibrated them.
    """

    names: tuple[str, ...]
    probabilities: Float[np.ndarray, " class"]
    each: bool
    temperature: float = 1.0


def classes_of(checkpoint: Checkpoint, logits: Float[np.ndarray, " class"]) -> Classes:
    """The classes that the logits of one text say, by name (of the task, or the config; numbers otherwise).

    A lone logit is the log-odds of a yes.
    """
    task, config, scores = checkpoint.task, checkpoint.model.config, torch.from_numpy(logits).double()
    if task is not None and len(task.classes) == len(logits):
        return Classes(task.classes, calibrated(scores[None], task)[0].numpy(), False, task.temperature)
    named = checkpoint.class_names or getattr(config, "labels", ())
    names = named if len(named) == len(logits) else tuple(map(str, range(len(logits))))
    each = len(logits) == 1 or not getattr(config, "one_label", True)
    return Classes(names, (scores.sigmoid() if each else scores.softmax(-1)).numpy(), each)
