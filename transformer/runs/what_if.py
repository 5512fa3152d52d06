"""What interventions do: to a translation, or to a text that a model reads.

Two ways to run a translation, never mixed: *same target* reads what the unchanged model wrote (teacher forced), so that
steps can be compared; or it is translated anew under the interventions. A text is read twice, so positions stand for
each other; `output_kind` says what can be compared. Attention of another sentence, the donor, may be put into a run;
the answer is measured where the two targets part, which both reach with the same tokens read. Measures: Heimersheim and
Nanda 2024.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..attention.capture import recording
from ..attention.interventions.edits import intervening
from ..attention.interventions.value import Donor, Intervention
from ..attention.record import Record
from ..checkpoint.checkpoint import Checkpoint
from ..errors import InputError
from ..nn.common import log_probs, readable
from ..plots.axes import Axis
from ..plots.picture import Picture, Quantity
from ..sites import Site
from ..text.beams import Candidate, Step
from .any_model import MAX_POSITIONS, ModelRun, log_odds, run_any
from .concurrency import run_of
from .translate import Translation, reread

OF_SOURCE = ("encoder.self", "decoder.cross")
"""The kinds of attention whose keys are the source."""


LEAST_DIFFERENCE = 0.1
"""Logits between base and donor below which a share of the way from one to the other says nothing."""


@dataclass(frozen=True)
class StepEffect:
    """What interventions do to one step of the same target.

    `change` is that of log p of the written token (nats). `margins` are its logit minus that of the best other token of
    the same run, before and after; `rivals` are these other tokens. `divergence` is KL(unchanged || changed) over all
    tokens (nats), `ranks` are the written token's, 0 the likeliest.
    """

    text: str
    change: float
    margins: tuple[float, float]
    rivals: tuple[str, str]
    divergence: float
    ranks: tuple[int, int]


@dataclass(frozen=True, eq=False)
class SameTarget:
    """One target read twice: as the model is, and under interventions. `after` has the record of the changed run."""

    before: Translation
    after: Translation
    steps: tuple[StepEffect, ...]

    @property
    def total(self) -> float:
        """Change of the log-probability of the whole target (nats)."""
        return sum(step.change for step in self.steps)


@dataclass(frozen=True)
class ClassEffect:
    """What interventions do to one class: its probability before and after, and the change of its log-odds (nats)."""

    name: str
    probabilities: tuple[float, float]
    change: float


OutputKind = Literal["next", "positions", "classes", "numbers", "states"]
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


@dataclass(frozen=True)
class Word:
    """A word of one of two texts, whether the other one lacks it there, and whether no space stands before it.

    Punctuation is a word of its own, as on the axes of a map.
    """

    text: str
    changed: bool
    attached: bool = False


def same_target(checkpoint: Checkpoint, before: Translation, interventions: Sequence[Intervention]) -> SameTarget:
    """Read the target of `before` once more under interventions."""
    clean, changed = _logits(checkpoint, before), _logits(checkpoint, before, interventions)
    with intervening(interventions):
        after = reread(checkpoint, before)
    _, _, writer = checkpoint.translator()
    steps = step_effects([step.text for step in before.steps], before.target_ids, clean, changed, writer.labels)
    return SameTarget(before, after, steps)


def step_effects(
    texts: Sequence[str],
    ids: Sequence[int],
    clean: Float[Tensor, "step vocab"],
    changed: Float[Tensor, "step vocab"],
    names: Callable[[list[int]], Sequence[str]],
) -> tuple[StepEffect, ...]:
    """What became of one token a step: logits of the unchanged and of the changed model (log-probabilities do too).

    `names` says what ids are called.
    """
    asked = torch.tensor(ids)[:, None]
    first, then = log_probs(clean.double()), log_probs(changed.double())
    changes = (then - first).gather(1, asked)[:, 0].tolist()
    weighted = torch.where(first.isfinite(), first.exp() * (first - then), 0.0)
    divergences, both = weighted.sum(1).clamp(min=0.0).tolist(), []
    for logits in (clean.double(), changed.double()):
        own, (best, others) = logits.gather(1, asked), logits.scatter(1, asked, -torch.inf).max(1)
        ranks = (logits > own).sum(1).tolist()
        both.append(zip((own[:, 0] - best).tolist(), names(others.tolist()), ranks, strict=True))
    found = []
    for text, change, divergence, *pair in zip(texts, changes, divergences, *both, strict=True):
        margins, rivals, rank = zip(*pair, strict=True)
        found.append(StepEffect(text, change, margins, rivals, divergence, rank))
    return tuple(found)


def aligned_words(before: str, after: str) -> tuple[list[Word], list[Word]]:
    """Both texts in words; those that the longest common subsequence leaves out are changed."""
    axes = [Axis.of_text("", text) for text in (before, after)]
    texts = [axis.merged().texts for axis in axes]
    kept = _common(*texts)
    first, second = (
        [Word(word, i not in same, joins) for i, (word, joins) in enumerate(zip(words, axis.attached, strict=True))]
        for words, axis, same in zip(texts, axes, kept, strict=True)
    )
    return first, second


def _common(first: Sequence[str], second: Sequence[str]) -> tuple[set[int], set[int]]:
    """Where a longest common subsequence stands in both: of several, one that needs the fewest edits.

    An edit puts in, takes out or exchanges a word. O(words x words).
    """
    below: list[tuple[int, int, Any]] = [(0, j - len(second), ()) for j in range(len(second) + 1)]
    for i in reversed(range(len(first))):  # of what follows in both: words in common, edits (negative), and where
        row: list[tuple[int, int, Any]] = [(0, i - len(first), ())] * (len(second) + 1)
        for j in reversed(range(len(second))):
            moves = [(common, edits - 1, found) for common, edits, found in (below[j + 1], below[j], row[j + 1])]
            if first[i] == second[j]:
                common, edits, found = below[j + 1]
                moves.insert(0, (common + 1, edits, (i, j, found)))
            row[j] = max(moves, key=lambda one: one[:2])
        below = row
    pairs, (_, _, found) = list[tuple[int, int]](), below[0]
    while found:
        pairs.append(found[:2])
        found = found[2]
    return {i for i, _ in pairs}, {j for _, j in pairs}


def map_difference(before: Record, after: Record, site: str, head: int | Literal["mean"]) -> Picture:
    """Weights of one head (or their mean) after the change, minus those before, on the same positions: -1 to 1."""
    was, now = (record[site].picture(head) for record in (before, after))
    return replace(now, values=now.values - was.values, quantity=Quantity.DIFFERENCE, notes=())


def head_sweep(checkpoint: Checkpoint, before: Translation, action: str) -> Iterator[tuple[Site, int, float]]:
    """Every head off, one at a time (`zero` or `mean`): site, head, and the change of log p of the whole target, nats.

    Each is computed when it is asked for, so that whoever asks can stop.
    """
    clean = _written(checkpoint, before)
    for site in before.record.sites:
        for head in range(before.record[site].n_heads):
            changed = _written(checkpoint, before, [Intervention(site, action, heads=(head,))])
            yield site, head, float((changed - clean).sum())


def source_sweep(checkpoint: Checkpoint, before: Translation) -> Iterator[Float[np.ndarray, " step"]]:
    """Every source word for nobody, one at a time: the change of log p of each written token, in nats."""
    clean = _written(checkpoint, before)
    for word in range(len(before.axes.source.membership)):
        yield _written(checkpoint, before, for_nobody(before, word)) - clean


def for_nobody(run: Translation, word: int) -> list[Intervention]:
    """Knock the positions of one source word out of every attention that could see them."""
    keys = tuple(int(i) for i in np.flatnonzero(run.axes.source.membership[word]))
    sites = [site for site in run.record.sites if site.group in OF_SOURCE]
    return [Intervention(site, "knock_out", keys=keys) for site in sites]


def _written(
    checkpoint: Checkpoint, run: Translation, interventions: Sequence[Intervention] = ()
) -> Float[np.ndarray, " step"]:
    """Log p of each token of the run's target, in nats."""
    ids = torch.tensor(run.target_ids)[:, None]
    return log_probs(_logits(checkpoint, run, interventions)).gather(1, ids)[:, 0].numpy()


def _logits(
    checkpoint: Checkpoint, run: Translation, interventions: Sequence[Intervention] = ()
) -> Float[Tensor, "step vocab"]:
    """Logits of each step of the run's target under interventions."""
    with intervening(interventions), run_of(checkpoint):
        found: Tensor = checkpoint.translator()[0](*_ids(checkpoint, run))[0]
    return found


def _ids(checkpoint: Checkpoint, run: Translation) -> tuple[Tensor, Tensor]:
    """What the encoder and the decoder of a run had read."""
    start = checkpoint.translator()[0].config.bos_id
    return torch.tensor([run.source_ids]), torch.tensor([[start, *run.target_ids[:-1]]])


def read_under(checkpoint: Checkpoint, text: str, interventions: Sequence[Intervention]) -> ModelRun:
    """Read a text under interventions; its record names them."""
    with intervening(interventions):
        return with_words(checkpoint, run_any(checkpoint, text, longest=MAX_POSITIONS))


def with_words(checkpoint: Checkpoint, run: ModelRun) -> ModelRun:
    """A run of a model that fills hidden words in, with its `logits` of the word at each position; any other as it is.

    They take another pass, under what is changed; nothing of it is recorded.
    """
    model: Any = checkpoint.model
    if getattr(model.config, "head", "") != "words":
        return run
    with run_of(checkpoint):
        logits = model.word_scores(torch.tensor([list(run.ids)]))[0]
    return replace(run, outputs={**run.outputs, "logits": readable(logits).numpy()})


def output_kind(run: ModelRun) -> OutputKind:
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


def scores(run: ModelRun) -> Float[Tensor, "position width"]:
    """Log-probabilities (natural) at each position, of a run that ends with `next` or `positions`."""
    named = "log_probs" if "log_probs" in run.outputs else "logits"
    return log_probs(torch.from_numpy(np.asarray(run.outputs[named])).double())


def asked_about(run: ModelRun, end: OutputKind, following: int | None = None) -> list[int]:
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
    odds = [torch.stack([log_odds(one[None], i, each)[0] for i in range(len(one))]) for one in logits]
    chances = [one.sigmoid().tolist() for one in odds]
    rows = zip(names, *chances, (odds[1] - odds[0]).tolist(), strict=True)
    return tuple(ClassEffect(name, (first, then), change) for name, first, then, change in rows)


def state_effects(before: ModelRun, after: ModelRun) -> tuple[StateEffect, ...]:
    """The last states of both runs of one text, position by position."""
    was, now = (np.asarray(run.outputs["hidden"], dtype=np.float64) for run in (before, after))
    lengths = [np.linalg.norm(states, axis=1).tolist() for states in (was, now)]
    moved = np.linalg.norm(now - was, axis=1).tolist()
    labels = next(each.keys for each in before.record.values()).labels
    rows = zip(labels, *lengths, moved, strict=True)
    return tuple(StateEffect(text, (first, then), far) for text, first, then, far in rows)


@dataclass(frozen=True)
class LogOdds:
    """The donor's token against the base's (logits) where the two targets part: in the base, the donor, and changed."""

    step: int
    tokens: tuple[str, str]
    base: float
    donor: float
    changed: float

    @property
    def share(self) -> float:
        """How much of the way from base (0) to donor (1) the change went; NaN where they hardly differ."""
        way = self.donor - self.base
        return (self.changed - self.base) / way if abs(way) >= LEAST_DIFFERENCE else math.nan


def donor_of(checkpoint: Checkpoint, run: Translation, name: str) -> Donor:
    """What a run weighed and its heads gave on, as the model is: its own target read once more."""
    with intervening(()), run_of(checkpoint), recording(outputs=True) as seen:
        checkpoint.translator()[0](*_ids(checkpoint, run))
    return seen.donor(name)


def parting(base: Translation, donor: Translation) -> int | None:
    """The first step at which two targets have different tokens; None where one begins with the whole other."""
    pairs = zip(base.target_ids, donor.target_ids, strict=False)
    return next((step for step, (first, second) in enumerate(pairs) if first != second), None)


def refuse_other_places(base: Record, donor: Record, name: str, site: str, rows: int | None = None) -> None:
    """Refuse a donor whose positions do not stand for those of the base one to one.

    `rows` patches the first so many rows alone: their number need not be the same then, nor that of the keys of a
    decoder's self-attention, whose rows see none past themselves.

    Raises:
        InputError: names the site and the two lengths.
    """
    here, there = base[site].shape, donor[site].shape
    if rows is None and here[0] != there[0]:
        raise InputError("donor_has_other_rows", site=site, donor=name, found=there[0], needed=here[0])
    if here[1] != there[1] and not (rows is not None and Site(site).group == "decoder.self"):
        raise InputError("donor_has_other_keys", site=site, donor=name, found=there[1], needed=here[1])


def donor_odds(
    checkpoint: Checkpoint, base: Translation, donor: Translation, interventions: Sequence[Intervention]
) -> LogOdds | None:
    """The donor's token against the base's at the step where they part; None where they do not."""
    step = parting(base, donor)
    if step is None:
        return None
    own, other = base.target_ids[step], donor.target_ids[step]
    odds = []
    for run, changes in ((base, ()), (donor, ()), (base, interventions)):
        logits = _logits(checkpoint, run, changes)
        odds.append(float(logits[step, other].double() - logits[step, own].double()))
    return LogOdds(step, (base.steps[step].text, donor.steps[step].text), *odds)
