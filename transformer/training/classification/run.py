"""How a sequence classifier is made: several seeds and honest baselines by one command, the best seed shipped.

Part of the training rows is held out to stop early and to choose the seed; the validation rows only measure, and fit
one temperature. Weights are averaged along training. Each finished training is kept in `work`, so a run that was
stopped goes on with the next. One net can then be taught what all of these answer on average.
"""

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from transformer.checkpoint.ours.folder import save_weights
from transformer.errors import TrainingError
from transformer.models.kmer import KmerClassifier
from transformer.training.classification.baselines import PlacedKmers, PositionLogistic, SmallCnn
from transformer.training.classification.data import Labelled, held_out
from transformer.training.classification.outcome import Outcome, Trained
from transformer.training.classification.plan import CNN, KMER, LOGISTIC, PLACED, STUDENT, Hyperparameters, Plan
from transformer.training.saving import saved_whole

Tables = tuple[Labelled, Labelled]
"""The rows to train on, and the validation rows."""

Teach = Callable[[Int[Tensor, "row letter"]], Float[Tensor, "row classes"]]
"""The probabilities that a student should answer for some rows."""


@dataclass(frozen=True)
class Seeds:
    """Which trainings there are: one for each of these seeds.

    `students` are those that the others teach; `baselines` are trained with seeds of their own, or with those of the
    k-mer classifier.
    """

    own: tuple[int, ...] = (1, 2, 3)
    students: tuple[int, ...] = ()
    baselines: tuple[int, ...] | None = None

    def of(self, kind: str) -> tuple[int, ...]:
        """The seeds of one kind of net."""
        if kind == STUDENT:
            return self.students
        return self.own if kind == KMER or self.baselines is None else self.baselines

    @property
    def parts(self) -> dict[int, int]:
        """Which part of the rows a seed holds out: all the same one, or each its own where it teaches or is taught."""
        every = dict.fromkeys((*self.own, *self.students, *(self.baselines or ())))
        return {seed: seed if self.students else 0 for seed in every}


def train_all(
    plan: Plan,
    tables: Tables,
    work: Path,
    seeds: Seeds,
    given: Sequence[tuple[str, nn.Module]] = (),
    start: KmerClassifier | None = None,
    device: torch.device | str = "cpu",
) -> Outcome:
    """Train every seed of the k-mer classifier and of its baselines; what `work` holds already is not done again.

    Students are then taught what all of these that `plan.distillation` names, and the models that are `given` by
    their names, answer on average. Each seed holds another part of the rows out then, so that all rows teach.
    With `start`, k-mer classifiers go on from its weights; where there are students, these alone.

    Raises:
        TrainingError: the data cannot be used, or are too few to fill a batch or to hold rows out; there is no plan
            for students; or `work` holds trainings of another plan or of other rows.
    """
    rows, valid = tables
    sizes = len(plan.task.alphabet), plan.task.length, len(plan.task.classes)
    kinds: dict[str, Callable[[], nn.Module]] = {
        LOGISTIC: lambda: PositionLogistic(*sizes),
        PLACED: lambda: PlacedKmers(*sizes),
        CNN: lambda: SmallCnn(*sizes),
        KMER: lambda: KmerClassifier(plan.config),
        STUDENT: lambda: KmerClassifier(plan.config),
    }
    going_on = {KMER: plan.going_on} if start is not None and not seeds.students else {}
    plans = dict.fromkeys(kinds, plan) | going_on | ({STUDENT: plan.of_student} if seeds.students else {})
    parts = {part: _divided(plan, rows, part) for part in dict.fromkeys(seeds.parts.values())}
    known = tuple(_given(name, model, valid) for name, model in given)
    train, held = next(iter(parts.values()))
    outcome = Outcome(plan, (), valid, (len(train), len(held), len(valid)), torch.device(device).type, known)
    for kind, build in kinds.items():
        teachers = outcome.teachers if kind == STUDENT else ()
        for seed in seeds.of(kind):
            part = seeds.parts[seed]
            path = work / f"{kind.replace(' ', '-')}-{seed}"
            before = start if kind == (STUDENT if seeds.students else KMER) else None
            digest = _digest(
                kind, plans[kind], part, tables, (*teachers, *([_given("", before, valid)] if before else []))
            )
            if not path.with_suffix(".json").exists():
                torch.manual_seed(seed)
                model = (build() if before is None else copy.deepcopy(before)).to(device)
                nets = [_with_weights(kinds[one.kind](), one) for one in teachers if one not in known]
                teach = averaging([one.to(device) for one in (*nets, *(one for _, one in given))]) if teachers else None
                _keep(path, _train_one(model, kind, seed, plans[kind], (*parts[part], valid), teach), digest)
            outcome = replace(outcome, trained=(*outcome.trained, _kept(path, digest)))
    return outcome


def _given(name: str, model: nn.Module, valid: Labelled) -> Trained:
    """A model that was trained before, as if it had been trained here."""
    weights = {name: p.detach() for name, p in model.named_parameters()}
    return Trained(name, 0, weights, answers(model, valid), math.nan, 0.0, 0)


def _divided(plan: Plan, rows: Labelled, part: int) -> tuple[Labelled, Labelled]:
    """The rows to train on, and those held out; `part` says which."""
    train, held = held_out(rows, plan.hold_out, plan.family_width, seed=part)
    if len(train) < plan.hyperparameters.batch:
        raise TrainingError("training_fewer_rows_than_a_batch", found=len(train), batch=plan.hyperparameters.batch)
    if not len(held):
        raise TrainingError("training_nothing_held_out", found=len(rows), width=plan.family_width)
    return train, held


def answers(model: nn.Module, data: Labelled, batch: int = 256) -> Float[Tensor, "row classes"]:
    """Logits of every row, in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    with torch.inference_mode():
        parts = [model(data.letters[i : i + batch].to(device)).cpu() for i in range(0, len(data), batch)]
    return torch.cat(parts).clone()


def averaging(teachers: Sequence[nn.Module]) -> Teach:
    """What the teachers answer on average, in evaluation mode."""
    for one in teachers:
        one.eval()

    def teach(letters: Int[Tensor, "row letter"]) -> Float[Tensor, "row classes"]:
        with torch.no_grad():
            return torch.stack([one(letters).softmax(1) for one in teachers]).mean(0)

    return teach


def _train_one(
    model: nn.Module,
    kind: str,
    seed: int,
    plan: Plan,
    data: tuple[Labelled, Labelled, Labelled],
    teach: Teach | None = None,
) -> Trained:
    """Train one net on labels, or on what `teach` answers for the rows as they were varied.

    What is drawn for the rows is drawn on the CPU, and so the same on every device.
    """
    device = next(model.parameters()).device
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
            letters = _varied(train.letters[rows], train.labels[rows], train, positives, plan).to(device)
            answer = train.labels[rows].to(device) if teach is None else teach(letters)
            loss = F.cross_entropy(model(letters), answer)
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
            best_weights = {name: p.detach().cpu().clone() for name, p in mean.module.named_parameters()}
    bar.close()
    model.load_state_dict(best_weights, strict=False)
    return Trained(kind, seed, best_weights, answers(model, valid), best, time.monotonic() - started, best_epoch)


def _rate(chosen: Hyperparameters, update: int, last: int) -> float:
    """Up over `warmup`, then down to zero along a cosine."""
    return chosen.rate * min(1.0, update / chosen.warmup) * (1 + math.cos(math.pi * update / last)) / 2


def _varied(letters: Tensor, labels: Tensor, train: Labelled, positives: Tensor, plan: Plan) -> Tensor:
    """The rows as this update sees them: some negatives made anew, some rows going on as others, letters hidden."""
    chosen, unknown_id = plan.hyperparameters, plan.task.alphabet.unknown_id
    letters = letters.clone()
    if chosen.substitution is not None:
        anew = ((labels != chosen.positive) & (torch.rand(len(labels)) < chosen.fresh)).nonzero()[:, 0]
        sources = positives[torch.randint(len(positives), (len(anew),))]
        letters[anew] = chosen.substitution.negatives(sources, unknown_id)
    if chosen.crossed:
        place = torch.randint(1, letters.shape[1], (len(letters), 1))
        others = train.letters[torch.randint(len(train), (len(letters),))]
        goes_on = (torch.arange(letters.shape[1]) >= place) & (torch.rand(len(letters), 1) < chosen.crossed)
        letters = torch.where(goes_on, others, letters)
    return letters.masked_fill(torch.rand(letters.shape) < chosen.unknown, unknown_id)


def _with_weights(model: nn.Module, one: Trained) -> nn.Module:
    model.load_state_dict(one.weights, strict=False)  # what is no parameter follows from the sizes
    return model


def _digest(kind: str, plan: Plan, part: int, tables: Tables, others: Sequence[Trained]) -> str:
    """What a training follows from, but for its seed, as a short number; `others` teach it, or are its start."""
    decides = (kind, plan.config, plan.hyperparameters, plan.hold_out, plan.family_width, part)
    found = hashlib.sha256(repr(decides).encode())
    arrays = [array for table in tables for array in (table.letters, table.labels)]
    arrays += [one.logits for one in others]
    for array in arrays:
        found.update(array.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def _keep(path: Path, one: Trained, follows_from: str) -> None:
    with saved_whole(path.with_suffix(".safetensors")) as new:
        save_weights(new, one.weights | {"validation logits": one.logits}, half=False)
    about = dict(kind=one.kind, seed=one.seed, held_out_loss=one.held_out_loss, seconds=one.seconds, epochs=one.epochs)
    with saved_whole(path.with_suffix(".json")) as new:
        new.write_text(json.dumps(about | {"follows_from": follows_from}) + "\n", encoding="utf-8")


def _kept(path: Path, follows_from: str) -> Trained:
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if about.pop("follows_from", None) != follows_from:
        raise TrainingError("training_kept_of_another", path=path.with_suffix(".json"))
    weights = load_file(path.with_suffix(".safetensors"))
    return Trained(weights=weights, logits=weights.pop("validation logits"), **about)
