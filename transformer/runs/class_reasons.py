"""Why this class: what each word adds to the log-odds of a class, of a model that puts whole texts into classes.

Two views of one question, in nats. Integrated gradients: the embeddings of all words move along the straight line from
the mean row of their table ("no word in particular") to those given, while marks around the text ([CLS]) stay; slopes
along the way, times the way, sum to the difference of the log-odds at both ends, up to a gap that is told. Source:
Sundararajan et al. 2017, section 3. Deletion: a word is taken out and the rest read again, or the unknown token stands
in its place; what the log-odds lose is the word's. Source: Zeiler and Fergus 2014, section 4.2 (occlusion).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import AttributionError, NotDefinedError
from transformer.explain.attribution.integrated_gradients import Fed, mean_row
from transformer.explain.attribution.path_integral import integral
from transformer.nn.common import refuse_elsewhere, share_weights_clone
from transformer.nn.kmer import KmerClassifier
from transformer.runs.any_model import AnyRun
from transformer.runs.changed import run_of
from transformer.runs.classes import classes_of
from transformer.runs.continuing import untold
from transformer.runs.pace import Heard

Way = Literal["integrated_gradients", "deletion_removed", "deletion_unknown"]

WAYS: tuple[Way, ...] = ("integrated_gradients", "deletion_removed", "deletion_unknown")

CLOSE, LEAST = 0.01, 0.1
"""The share of the difference by which the sum may miss it, and the nats that a smaller difference counts as."""

POSITIONS_AT_ONCE = 1_024
"""Positions that share a pass: gradients keep what a forward pass drops."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """What each word adds to the log-odds of a class (nats): positive where it speaks for the class.

    NaN where without a word there would be nothing to read. Integrated gradients sum to `difference`, the log-odds of
    the text less those of no word in particular, up to `gap`, with slopes at so many `points`; where that gap is not
    small enough, they did not converge.
    """

    words: tuple[str, ...]
    added: Float[np.ndarray, " word"]
    difference: float | None = None
    points: int = 0
    converged: bool = True

    @property
    def gap(self) -> float | None:
        """How far the sum lies from where it must; None of deletion, whose parts have no fixed sum."""
        return None if self.difference is None else float(abs(self.added.sum() - self.difference))


def ways(checkpoint: Checkpoint, run: AnyRun) -> tuple[Way, ...]:
    """The ways in which a run's class can be asked about; none where it put no whole text of words into classes."""
    model: Any = checkpoint.model
    logits, tokenizer = run.outputs.get("logits"), checkpoint.tokenizer
    if logits is None or logits.ndim != 1 or tokenizer is None or isinstance(model, KmerClassifier) or not run.ids:
        return ()
    axis = next((each.keys for site, each in run.record.items() if site.kind == "self"), None)
    if axis is None or len(axis) != len(run.ids):  # windows are no words
        return ()
    return WAYS if tokenizer.unknown_id >= 0 else WAYS[:-1]


def class_reasons(checkpoint: Checkpoint, run: AnyRun, target: int, way: Way, progress: Heard = untold) -> Reasons:
    """What each word of the text of `run` adds to the log-odds of class `target`; marks around it are no words.

    `progress` is told the share that is done, and may raise to stop.

    Raises:
        AttributionError: no such way for this run; or its model embeds its tokens elsewhere.
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
    question = ClassQuestion(checkpoint, torch.tensor(run.ids), target, _each(checkpoint, run))
    if way == "integrated_gradients":
        return integrated(question, words, parts, progress)
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
        task = self.checkpoint.task
        logits: Tensor = model.outputs(ids)["logits"].double()
        known = task is not None and len(task.classes) == logits.shape[1]
        return log_odds(logits / (task.temperature if task and known else 1.0), self.target, self.each)


def _each(checkpoint: Checkpoint, run: AnyRun) -> bool:
    return classes_of(checkpoint, run.outputs["logits"]).each


@torch.inference_mode(mode=False)
def integrated(
    question: ClassQuestion,
    words: tuple[str, ...],
    parts: Sequence[Sequence[int]],
    progress: Heard | None = None,
) -> Reasons:
    """Integrated gradients of `words`, whose tokens are `parts`, from the mean row of the table.

    At as many points of the straight line as bring the gap to at most `CLOSE` of the difference.

    Raises:
        AttributionError: the model embeds its tokens elsewhere.
    """
    twin: Any = share_weights_clone(question.checkpoint.model)
    table: nn.Module = twin.embedding
    moves = torch.zeros(len(question.ids), dtype=torch.bool)
    moves[[i for part in parts for i in part]] = True
    with torch.no_grad():
        end = table(question.ids)
        start = torch.where(moves[:, None], mean_row(table)[0], end)

    def at(places: Float[Tensor, " point"]) -> Float[Tensor, "point token width"]:
        return torch.lerp(start, end, places[:, None, None].to(end.dtype))

    def values(places: Float[Tensor, " point"]) -> Float[Tensor, "point 1"]:
        with run_of(question.checkpoint), torch.inference_mode(mode=False), torch.no_grad():
            each = [_embedded(question, twin, table, some) for some in at(places).split(question.at_once)]
            return torch.cat(each)[:, None]

    def slopes(places: Float[Tensor, " point"], told: Heard) -> Float[Tensor, "point 1 word"]:
        with run_of(question.checkpoint), torch.inference_mode(mode=False), torch.enable_grad():
            moved = at(places).requires_grad_()
            (slope,) = torch.autograd.grad(_embedded(question, twin, table, moved).sum(), moved)
        told(1.0)
        added = (slope.double() * (end - start).double()).sum(-1)
        return torch.stack([added[:, list(part)].sum(1) for part in parts], dim=1)[:, None]

    found = integral(slopes, values, CLOSE, LEAST, None, question.at_once, progress)
    return Reasons(words, found.added[0].numpy(), float(found.difference[0]), found.points, bool(found.converged[0]))


def _embedded(
    question: ClassQuestion, twin: Any, table: nn.Module, moved: Float[Tensor, "row token width"]
) -> Float[Tensor, " row"]:
    """The answer where tokens are embedded like this."""
    fed = Fed([moved])
    hook = table.register_forward_hook(fed)
    try:
        found = question.answer(twin, question.ids.expand(len(moved), -1))
    finally:
        hook.remove()
    if fed.left:
        raise NotDefinedError("attribution_embeds_elsewhere", found=type(twin).__name__)
    return found


def _deleted(
    question: ClassQuestion, parts: Sequence[Sequence[int]], unknown: int | None, progress: Heard
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
