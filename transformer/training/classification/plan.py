"""What decides a sequence classifier: its sizes, how it is trained, what teaches it, and what it is held against."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from transformer.errors import TrainingError
from transformer.messages import Message
from transformer.models.kmer import KmerConfig
from transformer.sequences.task import SequenceTask
from transformer.training.classification.data import Substitution

KMER, CNN = "k-mer classifier", "two-layer CNN"
LOGISTIC, PLACED = "logistic regression on positions", "logistic regression on k-mers"
"""The kinds of net that are trained on labels."""

STUDENT, AVERAGE = "distilled k-mer classifier", "average of the teachers"
"""The kind that learns from others, and these others taken together."""

KINDS = (LOGISTIC, PLACED, CNN, KMER, STUDENT)
"""Every kind, in the order in which they are trained and told of."""


def _no_run(name: str, value: float | int, remedy: Message) -> TrainingError:
    return TrainingError("training_option_makes_no_run", name=name, value=value, remedy=remedy)


@dataclass(frozen=True)
class Hyperparameters:
    """How one net is trained.

    `unknown` is the share of letters that are hidden (read as unknown) in each training row; `fresh` the share of
    negatives that `substitution` makes anew, from positives of the training rows, each time they are met. `crossed` is
    the share of rows that go on, from a letter drawn anew, as another training row does: no table says what these
    are, so it is for nets that learn from teachers.

    Raises:
        TrainingError: a number with which nothing would be learned, or that is no share.
    """

    epochs: int
    batch: int
    rate: float
    decay: float = 0.02
    warmup: int = 100
    average: float = 0.998
    unknown: float = 0.02
    fresh: float = 0.0
    substitution: Substitution | None = None
    positive: int = 0
    crossed: float = 0.0

    def __post_init__(self) -> None:
        least = {"epochs": (self.epochs, 1), "batch": (self.batch, 1), "warmup": (self.warmup, 1)}
        for name, (value, needed) in least.items():
            if value < needed:
                raise _no_run(name, value, Message("training_remedy_one"))
        if not 0 < self.rate < math.inf:
            raise _no_run("rate", self.rate, Message("training_remedy_rate"))
        if not 0 <= self.decay < math.inf:
            raise _no_run("decay", self.decay, Message("training_remedy_zero"))
        for name in ("average", "unknown"):
            if not 0 <= getattr(self, name) < 1:
                raise _no_run(name, getattr(self, name), Message("training_remedy_probability"))
        for name in ("fresh", "crossed"):
            if not 0 <= getattr(self, name) <= 1:
                raise _no_run(name, getattr(self, name), Message("training_remedy_part"))

    def described(self) -> tuple[str, ...]:
        """All of them in words, as the card gives them."""
        varied = [f"{self.unknown:.0%} of the letters hidden at random"] if self.unknown else []
        varied += [f"{self.fresh:.0%} of the negatives made anew each time"] if self.fresh else []
        varied += [f"{self.crossed:.0%} of the rows joined from two"] if self.crossed else []
        return (
            f"AdamW, {self.epochs} epochs of batches of {self.batch}",
            f"peak rate {self.rate:g} along a cosine",
            f"weight decay {self.decay:g}",
            f"weights averaged along training ({self.average:g})",
            *varied,
            "the epoch with the lowest loss on the held-out rows",
        )


@dataclass(frozen=True)
class Distillation:
    """How one net learns what many answer: it is taught the average of their probabilities for the rows as varied.

    `epochs`, `crossed` and `rate` (where it is not 0) stand in for the plan's own; `teachers` are the kinds of net that
    teach, every seed of them.
    Sources: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network"; that teachers and student
    see one varied input: Beyer et al. 2022, "Knowledge distillation: A good teacher is patient and consistent".
    """

    epochs: int
    crossed: float = 0.0
    rate: float = 0.0
    teachers: tuple[str, ...] = (KMER, CNN)


@dataclass(frozen=True)
class Aim:
    """What a plan sets out to reach on the validation rows, and what that is held against."""

    measure: Literal["accuracy", "mcc"]
    value: float
    because: str


@dataclass(frozen=True)
class Plan:
    """Everything that decides a classifier.

    `may_pass_on` says whether rows of the data may be examples, `tried` what else was tried before the plan was fixed,
    and what came of it. `start_rate` (where it is not 0) is the peak rate of what goes on from trained weights.
    """

    name: str
    title: str
    task: SequenceTask
    config: KmerConfig
    hyperparameters: Hyperparameters
    provenance: str
    limits: str
    may_pass_on: bool
    aim: Aim | None = None
    hold_out: float = 0.1
    family_width: int = 24
    distillation: Distillation | None = None
    tried: str = ""
    start_rate: float = 0.0

    @property
    def going_on(self) -> "Plan":
        """The plan by which a classifier goes on from trained weights."""
        rate = self.start_rate or self.hyperparameters.rate
        return replace(self, hyperparameters=replace(self.hyperparameters, rate=rate))

    @property
    def of_student(self) -> "Plan":
        """The plan by which a student is trained.

        Raises:
            TrainingError: nothing is said of how.
        """
        if self.distillation is None:
            raise TrainingError("training_no_distillation", plan=self.name)
        asked = self.distillation
        rate = asked.rate or self.hyperparameters.rate
        own = replace(self.hyperparameters, epochs=asked.epochs, crossed=asked.crossed, rate=rate)
        return replace(self, hyperparameters=own)
