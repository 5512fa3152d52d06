"""How a sequence classifier is made: several seeds and honest baselines by one command, the best seed shipped.

Part of the training rows is held out to stop early and to choose the seed; the validation rows only measure, and fit
one temperature. Weights are averaged along training. Each finished training is kept in `work`, so a run that was
stopped goes on with the next.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from transformer.errors import TrainingError
from transformer.models.kmer import KmerClassifier, KmerConfig
from transformer.runs.scores import Scores
from transformer.sequences.task import SequenceTask
from transformer.training.classification.baselines import PositionLogistic, SmallCnn
from transformer.training.classification.calibration import (
    calibration_error,
    crossfitted_calibration_error,
    fitted_temperature,
)
from transformer.training.classification.data import Labelled, Substitution, held_out, read_labelled

KMER, CNN, LOGISTIC = "k-mer classifier", "two-layer CNN", "logistic regression on positions"


@dataclass(frozen=True)
class Hyperparameters:
    """How one net is trained.

    `unknown` is the share of letters that are hidden (read as unknown) in each training row; `fresh` the share of
    negatives that `substitution` makes anew, from positives of the training rows, each time they are met.
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

    def described(self) -> tuple[str, ...]:
        """All of them in words, as the card gives them."""
        varied = [f"{self.unknown:.0%} of the letters hidden at random"] if self.unknown else []
        varied += [f"{self.fresh:.0%} of the negatives made anew each time"] if self.fresh else []
        return (
            f"AdamW, {self.epochs} epochs of batches of {self.batch}",
            f"peak rate {self.rate:g} along a cosine",
            f"weight decay {self.decay:g}",
            f"weights averaged along training ({self.average:g})",
            *varied,
            "the epoch with the lowest loss on the held-out rows",
        )


@dataclass(frozen=True)
class Aim:
    """What a plan sets out to reach on the validation rows, and what that is held against."""

    measure: Literal["accuracy", "mcc"]
    value: float
    because: str


@dataclass(frozen=True)
class Plan:
    """Everything that decides a shipped classifier; `may_pass_on` says whether rows of the data may be examples."""

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


@dataclass(frozen=True, eq=False)
class Trained:
    """One finished training: weights, what they answer on the validation rows, and what they cost."""

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
    """All trainings of a plan, held against the validation labels."""

    plan: Plan
    trained: tuple[Trained, ...]
    valid: Labelled
    sizes: tuple[int, int, int]

    def of(self, kind: str) -> tuple[Trained, ...]:
        """The seeds of one kind of net."""
        return tuple(one for one in self.trained if one.kind == kind)

    @property
    def best(self) -> Trained:
        """The k-mer classifier with the lowest loss on the rows held out of training."""
        return min(self.of(KMER), key=lambda one: one.held_out_loss)

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


def train_all(plan: Plan, data: Path, work: Path, seeds: tuple[int, ...]) -> Outcome:
    """Train every seed of the k-mer classifier and of both baselines; what `work` holds already is not done again.

    Raises:
        TrainingError: the data cannot be used, or are too few to fill a batch or to hold rows out.
    """
    task = plan.task
    rows, valid = (read_labelled(data / f"{part}.tsv", task.alphabet, task.classes) for part in ("train", "valid"))
    train, held = held_out(rows, plan.hold_out, plan.family_width, seed=0)
    if len(train) < plan.hyperparameters.batch:
        raise TrainingError("training_fewer_rows_than_a_batch", found=len(train), batch=plan.hyperparameters.batch)
    if not len(held):
        raise TrainingError("training_nothing_held_out", found=len(rows), width=plan.family_width)
    sizes = len(task.alphabet), task.length, len(task.classes)
    kinds: dict[str, Callable[[], nn.Module]] = {
        LOGISTIC: lambda: PositionLogistic(*sizes),
        CNN: lambda: SmallCnn(*sizes),
        KMER: lambda: KmerClassifier(plan.config),
    }
    trained = []
    for kind, build in kinds.items():
        for seed in seeds:
            path = work / f"{kind.replace(' ', '-')}-{seed}"
            if not path.with_suffix(".json").exists():
                torch.manual_seed(seed)
                _keep(path, _train_one(build(), kind, seed, plan, (train, held, valid)))
            trained.append(_kept(path))
    return Outcome(plan, tuple(trained), valid, (len(train), len(held), len(valid)))


def answers(model: nn.Module, data: Labelled, batch: int = 256) -> Float[Tensor, "row classes"]:
    """Logits of every row, in evaluation mode."""
    model.eval()
    with torch.inference_mode():
        return torch.cat([model(data.letters[i : i + batch]) for i in range(0, len(data), batch)]).clone()


def _train_one(
    model: nn.Module, kind: str, seed: int, plan: Plan, data: tuple[Labelled, Labelled, Labelled]
) -> Trained:
    started, chosen, (train, held, valid) = time.monotonic(), plan.hyperparameters, data
    mean = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(chosen.average))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=chosen.decay, betas=(0.9, 0.99), fused=True)
    positives = train.letters[train.labels == chosen.positive]
    last = chosen.epochs * (len(train) // chosen.batch)
    update, best, best_weights, best_epoch = 0, math.inf, dict[str, Tensor](), 0
    bar = tqdm(total=last, unit="update", desc=f"{kind}, seed {seed}")
    for epoch in range(1, chosen.epochs + 1):
        model.train()
        for rows in torch.randperm(len(train)).split(chosen.batch):
            if len(rows) < chosen.batch:
                continue
            update += 1
            for group in optimizer.param_groups:
                group["lr"] = _rate(chosen, update, last)
            letters = _varied(train.letters[rows], train.labels[rows], positives, plan)
            loss = F.cross_entropy(model(letters), train.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mean.update_parameters(model)
            bar.update()
        held_loss = float(F.cross_entropy(answers(mean.module, held), held.labels))
        bar.set_postfix(held_out_loss=f"{held_loss:.4f}")
        if held_loss < best:
            best, best_epoch = held_loss, epoch
            best_weights = {name: p.detach().clone() for name, p in mean.module.named_parameters()}
    bar.close()
    model.load_state_dict(best_weights, strict=False)
    return Trained(kind, seed, best_weights, answers(model, valid), best, time.monotonic() - started, best_epoch)


def _rate(chosen: Hyperparameters, update: int, last: int) -> float:
    """Up over `warmup`, then down to zero along a cosine."""
    return chosen.rate * min(1.0, update / chosen.warmup) * (1 + math.cos(math.pi * update / last)) / 2


def _varied(letters: Tensor, labels: Tensor, positives: Tensor, plan: Plan) -> Tensor:
    """The rows as this update sees them: some negatives made anew, some letters hidden."""
    chosen, unknown_id = plan.hyperparameters, plan.task.alphabet.unknown_id
    letters = letters.clone()
    if chosen.substitution is not None:
        anew = ((labels != chosen.positive) & (torch.rand(len(labels)) < chosen.fresh)).nonzero()[:, 0]
        sources = positives[torch.randint(len(positives), (len(anew),))]
        letters[anew] = chosen.substitution.negatives(sources, unknown_id)
    return letters.masked_fill(torch.rand(letters.shape) < chosen.unknown, unknown_id)


def _keep(path: Path, one: Trained) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(one.weights | {"validation logits": one.logits}, path.with_suffix(".safetensors"))
    about = dict(kind=one.kind, seed=one.seed, held_out_loss=one.held_out_loss, seconds=one.seconds, epochs=one.epochs)
    path.with_suffix(".json").write_text(json.dumps(about) + "\n", encoding="utf-8")


def _kept(path: Path) -> Trained:
    weights = load_file(path.with_suffix(".safetensors"))
    logits = weights.pop("validation logits")
    return Trained(weights=weights, logits=logits, **json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))
