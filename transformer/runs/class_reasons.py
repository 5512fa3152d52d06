"""Why this class: what each word adds to the log-odds of a class, of a model that puts whole texts into classes.

A word is taken out and the rest read again, or the unknown token stands in its place; what the log-odds lose (nats) is
the word's. Source: Zeiler and Fergus 2014, section 4.2 (occlusion).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import AttributionError
from transformer.explain.attribution.deletion import Progress, untold
from transformer.nn.common import refuse_elsewhere
from transformer.runs.any_model import ModelRun
from transformer.runs.changed import run_of
from transformer.runs.classes import classes_of, temperature_of

Way = Literal["deletion_removed", "deletion_unknown"]

WAYS: tuple[Way, ...] = ("deletion_removed", "deletion_unknown")

POSITIONS_AT_ONCE = 1_024
"""Positions that share a pass."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """What each word adds to the log-odds of a class (nats): positive where it speaks for the class.

    NaN where without a word there would be nothing to read.
    """

    words: tuple[str, ...]
    added: Float[np.ndarray, " word"]


def ways(checkpoint: Checkpoint, run: ModelRun) -> tuple[Way, ...]:
    """The ways in which a run's class can be asked about; none where it put no whole text of words into classes."""
    logits, tokenizer = run.outputs.get("logits"), checkpoint.tokenizer
    if logits is None or logits.ndim != 1 or tokenizer is None or checkpoint.reads_sequences or not run.ids:
        return ()
    axis = next((each.keys for site, each in run.record.items() if site.kind == "self"), None)
    if axis is None or len(axis) != len(run.ids):  # windows are no words
        return ()
    return WAYS if tokenizer.unknown_id >= 0 else WAYS[:-1]


def class_reasons(checkpoint: Checkpoint, run: ModelRun, target: int, way: Way, progress: Progress = untold) -> Reasons:
    """What each word of the text of `run` adds to the log-odds of class `target`; marks around it are no words.

    `progress` is told the share that is done, and may raise to stop.

    Raises:
        AttributionError: no such way for this run.
        CheckpointError: the model is not on the CPU.
    """
    refuse_elsewhere(checkpoint.model)
    if way not in ways(checkpoint, run):
        raise AttributionError("reasons_not_defined", name=checkpoint.name, way=way)
    axis = next(each.keys for site, each in run.record.items() if site.kind == "self")
    parts = [np.flatnonzero(member).tolist() for member in axis.membership]
    parts = [part for part in parts if not any(axis.special[i] for i in part)]
    merged = axis.merged()
    words = tuple(merged.labels[axis.words[part[0]]] for part in parts)
    each = classes_of(checkpoint, run.outputs["logits"]).each
    question = ClassQuestion(checkpoint, torch.tensor(run.ids), target, each)
    unknown = checkpoint.tokenizer.unknown_id if checkpoint.tokenizer and way == "deletion_unknown" else None
    return Reasons(words, _deleted(question, parts, unknown, progress))


def log_odds(logits: Float[Tensor, "row class"], target: int, each: bool) -> Float[Tensor, " row"]:
    """ln(p / (1 - p)) of the class `target`; of a class that is a yes or no of its own, its logit."""
    if each or logits.shape[1] == 1:
        return logits[:, target]
    others = torch.arange(logits.shape[1]) != target
    return logits[:, target] - logits[:, others].logsumexp(1)


@dataclass(frozen=True, eq=False)
class ClassQuestion:
    """What is asked: of which model, about which text, and which class."""

    checkpoint: Checkpoint
    ids: Int[Tensor, " token"]
    target: int
    each: bool

    @property
    def at_once(self) -> int:
        """Rows that share a pass. A decoder finds its answer at a row's last token, for which some need a row alone."""
        if getattr(self.checkpoint.model.config, "kind", "") == "decoder":
            return 1
        return max(1, POSITIONS_AT_ONCE // len(self.ids))

    def answer(self, model: Any, ids: Int[Tensor, "row token"]) -> Float[Tensor, " row"]:
        """The log-odds that are asked about, calibrated where the checkpoint's probabilities are."""
        logits: Tensor = model.outputs(ids)["logits"].double()
        return log_odds(logits / temperature_of(self.checkpoint, logits.shape[1]), self.target, self.each)


def _deleted(
    question: ClassQuestion, parts: Sequence[Sequence[int]], unknown: int | None, progress: Progress
) -> Float[np.ndarray, " word"]:
    """What the answer loses without each word; `unknown` stands in its place, or it is taken out if None.

    Exactly 0 where it stands there already.
    """
    model: Any = question.checkpoint.model
    without = [_without(question.ids, part, unknown) for part in parts]
    same = [torch.equal(ids, question.ids) for ids in without]
    lost = np.where(same, 0.0, np.nan)
    with run_of(question.checkpoint):
        whole = float(question.answer(model, question.ids[None])[0])
    by_length: dict[int, list[int]] = {}
    for number in np.flatnonzero(np.isnan(lost)).tolist():
        by_length.setdefault(len(without[number]), []).append(number)
    done = sum(same)
    for length, numbers in by_length.items():
        for first in range(0, len(numbers), question.at_once):
            some = numbers[first : first + question.at_once]
            done += len(some)
            if length:
                with run_of(question.checkpoint):
                    answers = question.answer(model, torch.stack([without[number] for number in some]))
                lost[some] = whole - answers.numpy()
            progress(done / len(parts))
    return lost


def _without(ids: Int[Tensor, " token"], part: Sequence[int], unknown: int | None) -> Int[Tensor, " _"]:
    here = torch.zeros(len(ids), dtype=torch.bool)
    here[list(part)] = True
    return ids[~here] if unknown is None else torch.where(here, unknown, ids)
