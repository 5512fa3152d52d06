"""What came of trainings: the weights, what they answer on the validation rows, and which one is shipped."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.runs.scores import Scores
from transformer.training.classification.calibration import (
    calibration_error,
    crossfitted_calibration_error,
    fitted_temperature,
)
from transformer.training.classification.data import Labelled
from transformer.training.classification.plan import AVERAGE, KMER, STUDENT, Plan


@dataclass(frozen=True, eq=False)
class Trained:
    """One finished training: weights (on the CPU), what they answer on the validation rows, and what they cost."""

    kind: str
    seed: int
    weights: dict[str, Tensor]
    logits: Float[Tensor, "row classes"]
    held_out_loss: float
    seconds: float
    epochs: int

    @property
    def n_parameters(self) -> int:
        """Trained numbers."""
        return sum(weight.numel() for weight in self.weights.values())


@dataclass(frozen=True, eq=False)
class Outcome:
    """All trainings of a plan, held against the validation labels; `given` are teachers that were not trained here."""

    plan: Plan
    trained: tuple[Trained, ...]
    valid: Labelled
    sizes: tuple[int, int, int]
    device: str
    given: tuple[Trained, ...] = ()

    def of(self, kind: str) -> tuple[Trained, ...]:
        """The seeds of one kind of net."""
        return tuple(one for one in self.trained if one.kind == kind)

    @property
    def shipped_kind(self) -> str:
        """The kind of net that is shipped: one that others taught, where there is one."""
        return STUDENT if self.of(STUDENT) else KMER

    @property
    def best(self) -> Trained:
        """The one of the shipped kind with the lowest loss on the rows held out of training."""
        return min(self.of(self.shipped_kind), key=lambda one: one.held_out_loss)

    @property
    def average(self) -> Trained | None:
        """The teachers taken as one, by their average probability; None where none taught."""
        if not self.of(STUDENT):
            return None
        teachers = self.teachers
        weights = {f"{one.kind} {one.seed} {name}": w for one in teachers for name, w in one.weights.items()}
        logits = torch.stack([one.logits.softmax(1) for one in teachers]).mean(0).log()
        return Trained(AVERAGE, 0, weights, logits, math.nan, sum(one.seconds for one in teachers), 0)

    @property
    def teachers(self) -> tuple[Trained, ...]:
        """Whoever teaches the students: trainings of the kinds that the plan names, and those that were given."""
        kinds = () if self.plan.distillation is None else self.plan.distillation.teachers
        return (*(one for one in self.trained if one.kind in kinds), *self.given)

    @property
    def temperature(self) -> float:
        """What the best one's logits are divided by."""
        return fitted_temperature(self.best.logits, self.valid.labels)

    def scores(self, one: Trained) -> Scores:
        """How one training does on the validation rows."""
        return Scores.of(one.logits.numpy(), self.valid.labels.numpy())

    def calibration(self, one: Trained) -> tuple[float, float]:
        """Expected calibration error before and after the temperature (cross-fitted)."""
        labels = self.valid.labels
        return calibration_error(one.logits, labels), crossfitted_calibration_error(one.logits, labels)
