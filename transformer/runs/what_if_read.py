"""What interventions do to a model that reads one text: its classes, the tokens that it scores, or its last states.

Both runs read the same text, so positions stand for each other. Which of them a model ends with is `ends_with`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.decoding.steps import Candidate, Step
from transformer.interventions.active import intervening
from transformer.interventions.value import Intervention
from transformer.models.common import log_probs, readable
from transformer.runs.any_model import MAX_POSITIONS, AnyRun, run_any
from transformer.runs.changed import run_of
from transformer.runs.what_if import ClassEffect

End = Literal["next", "positions", "classes", "numbers", "states"]
"""What a run ends with: scores of the next token, scores at each position, scores of the whole text, numbers that are
no probabilities, or states.
"""


@dataclass(frozen=True)
class StateEffect:
    """What interventions do to the last state of one position: its length before and after, and how far it moved.

    Lengths are Euclidean, in the model's own units; `moved` is the length of the difference.
    """

    text: str
    lengths: tuple[float, float]
    moved: float


def read_under(checkpoint: Checkpoint, text: str, interventions: Sequence[Intervention]) -> AnyRun:
    """Read a text under interventions; its record names them.

    Raises:
        InputError: nothing to read, too much, or an intervention that does not fit.
        CheckpointError: the model's attention cannot be changed.
    """
    with intervening(interventions):
        return with_words(checkpoint, run_any(checkpoint, text, longest=MAX_POSITIONS))


def with_words(checkpoint: Checkpoint, run: AnyRun) -> AnyRun:
    """A run of a model that fills hidden words in, with its `logits` of the word at each position; any other as it is.

    They take another pass, under what is changed; nothing of it is recorded.
    """
    model: Any = checkpoint.model
    if getattr(model.config, "head", "") != "words":
        return run
    with run_of(checkpoint):
        logits = model.word_scores(torch.tensor([list(run.ids)]))[0]
    return replace(run, outputs={**run.outputs, "logits": readable(logits).numpy()})


def ends_with(run: AnyRun) -> End:
    """What a run of a model without a separate target ends with, which says what can be measured of a change."""
    if "log_probs" in run.outputs:
        return "next"
    if "scores" in run.outputs:
        return "numbers"
    logits = run.outputs.get("logits")
    if logits is None or (logits.ndim == 2 and logits.shape[1] < 2 and "hidden" in run.outputs):
        return "states"
    if logits.ndim == 1:
        return "classes"
    return "positions"


def scores(run: AnyRun) -> Float[Tensor, "position width"]:
    """Log-probabilities (natural) at each position, of a run that ends with `next` or `positions`."""
    named = "log_probs" if "log_probs" in run.outputs else "logits"
    return log_probs(torch.from_numpy(np.asarray(run.outputs[named])).double())


def asked_about(run: AnyRun, end: End, following: int | None = None) -> list[int]:
    """The id at each position whose log-probability is followed.

    Of `next` the text's own next token, and at its end `following` (the likeliest, if None); of `positions` what the
    run itself holds likeliest.
    """
    likeliest: list[int] = scores(run).argmax(1).tolist()
    if end == "positions":
        return likeliest
    return [*run.ids[1:], likeliest[-1] if following is None else following]


def step_at(row: Float[Tensor, " width"], token: int, names: Sequence[str], likeliest: Sequence[int]) -> Step:
    """One position's log-probabilities as a step that writes `token`; `names` are those of `token` and `likeliest`."""
    chances = row.exp()
    candidates = tuple(Candidate(name, float(chances[i])) for i, name in zip(likeliest, names[1:], strict=True))
    return Step(names[0], float(chances[token]), int((row > row[token]).sum()), candidates)


def logit_effects(
    names: Sequence[str],
    before: Float[np.ndarray, " classes"],
    after: Float[np.ndarray, " classes"],
    each: bool = False,
) -> tuple[ClassEffect, ...]:
    """Each class of a head over the whole text, from its logits: log-odds are exact however sure the model is.

    A single logit is the log-odds of a yes, and so is every one where `each` class is a yes or no of its own;
    otherwise those of one class are its logit minus ln sum exp of the others.
    """
    logits = [torch.from_numpy(np.asarray(one)).double() for one in (before, after)]
    odds = logits if each else [_log_odds(one) for one in logits]
    chances = [one.sigmoid().tolist() for one in odds]
    rows = zip(names, *chances, (odds[1] - odds[0]).tolist(), strict=True)
    return tuple(ClassEffect(name, (first, then), change) for name, first, then, change in rows)


def state_effects(before: AnyRun, after: AnyRun) -> tuple[StateEffect, ...]:
    """The last states of both runs of one text, position by position."""
    was, now = (np.asarray(run.outputs["hidden"], dtype=np.float64) for run in (before, after))
    lengths = [np.linalg.norm(states, axis=1).tolist() for states in (was, now)]
    moved = np.linalg.norm(now - was, axis=1).tolist()
    labels = next(each.keys for each in before.record.values()).labels
    rows = zip(labels, *lengths, moved, strict=True)
    return tuple(StateEffect(text, (first, then), far) for text, first, then, far in rows)


def _log_odds(logits: Float[Tensor, " classes"]) -> Float[Tensor, " classes"]:
    if len(logits) == 1:
        return logits
    others = [torch.cat((logits[:i], logits[i + 1 :])).logsumexp(0) for i in range(len(logits))]
    return logits - torch.stack(others)
