"""What interventions do: to a translation, or to a text that a model reads.

Two ways to run a translation, which are never mixed: *same target* reads what the unchanged model wrote (teacher
forced), so that steps can be compared; *decode again* searches anew under the interventions. A text is read twice, so
positions stand for each other; `ends_with` says what can be compared. Measures: Heimersheim and Nanda 2024.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attention.interventions.active import intervening
from transformer.attention.interventions.value import Intervention
from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.nn.common import log_probs, readable
from transformer.nn.search import DecodingOptions
from transformer.plots.axes import Axis
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity
from transformer.runs.any_model import MAX_POSITIONS, ModelRun, run_any
from transformer.runs.changed import run_of
from transformer.runs.class_reasons import log_odds
from transformer.runs.translate import Translation, reread, translate
from transformer.sites import Site
from transformer.text.steps import Candidate, Step

OF_SOURCE = ("encoder.self", "decoder.cross")
"""The kinds of attention whose keys are the source."""


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


@dataclass(frozen=True)
class Word:
    """A word of one of two texts, whether the other one lacks it there, and whether no space stands before it.

    Punctuation is a word of its own, as on the axes of a map.
    """

    text: str
    changed: bool
    attached: bool = False


def same_target(checkpoint: Checkpoint, before: Translation, interventions: Sequence[Intervention]) -> SameTarget:
    """Read the target of `before` once more under interventions.

    Raises:
        InputError: an intervention does not fit this checkpoint or sentence.
        CheckpointError: the checkpoint's attention cannot be changed.
    """
    changed, _ = target_logits(checkpoint, before, interventions)
    clean, _ = target_logits(checkpoint, before, ())
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
    margins, rivals = [], []
    for logits in (clean.double(), changed.double()):
        best, others = logits.scatter(1, asked, -torch.inf).max(1)
        margins.append((logits.gather(1, asked)[:, 0] - best).tolist())
        rivals.append(names(others.tolist()))
    weighted = torch.where(first.isfinite(), first.exp() * (first - then), 0.0)
    divergences = weighted.sum(1).clamp(min=0.0).tolist()
    ranks = [(logits > logits.gather(1, asked)).sum(1).tolist() for logits in (clean, changed)]
    return tuple(
        StepEffect(
            text, changes[i], (margins[0][i], margins[1][i]), (rivals[0][i], rivals[1][i]), divergences[i],
            (ranks[0][i], ranks[1][i]),
        )
        for i, text in enumerate(texts)
    )  # fmt: skip


def decoded_again(
    checkpoint: Checkpoint, text: str, options: DecodingOptions, interventions: Sequence[Intervention]
) -> Translation:
    """Search for a target anew under interventions: those of a decoder's row t act on the step that writes token t.

    Raises:
        InputError: an intervention does not fit this checkpoint or sentence.
        CheckpointError: the checkpoint's attention cannot be changed.
    """
    with intervening(interventions):
        return translate(checkpoint, text, options)


def class_effects(
    names: Sequence[str], before: Float[np.ndarray, " classes"], after: Float[np.ndarray, " classes"]
) -> tuple[ClassEffect, ...]:
    """Each class before and after; log-odds are ln(p / (1 - p)), of probabilities that sum to 1."""
    found = zip(logit_effects(names, np.log(before), np.log(after)), before.tolist(), after.tolist(), strict=True)
    return tuple(replace(one, probabilities=(first, then)) for one, first, then in found)


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
    best = [[(0, -(len(first) - i) - (len(second) - j)) for j in range(len(second) + 1)] for i in range(len(first) + 1)]
    for i in reversed(range(len(first))):  # of what follows in both: words in common, and edits, negative
        for j in reversed(range(len(second))):
            moves = [best[i + 1][j + 1], best[i + 1][j], best[i][j + 1]]
            best[i][j] = max((common, edits - 1) for common, edits in moves)
            if first[i] == second[j]:
                common, edits = moves[0]
                best[i][j] = max(best[i][j], (common + 1, edits))
    found: tuple[set[int], set[int]] = (set(), set())
    i = j = 0
    while i < len(first) and j < len(second):
        common, edits = best[i][j]
        if first[i] == second[j] and best[i + 1][j + 1] == (common - 1, edits):
            found[0].add(i)
            found[1].add(j)
            i, j = i + 1, j + 1
            continue
        down, right = next(
            step for step in ((1, 1), (1, 0), (0, 1)) if best[i + step[0]][j + step[1]] == (common, edits + 1)
        )
        i, j = i + down, j + right
    return found


def map_difference(before: Record, after: Record, site: str, head: int | Literal["mean"]) -> Picture:
    """Weights of one head (or their mean) after the change, minus those before, on the same positions: -1 to 1."""
    was, now = (record[site].picture(head) for record in (before, after))
    return replace(now, values=now.values - was.values, quantity=Quantity.DIFFERENCE, notes=())


def head_sweep(checkpoint: Checkpoint, before: Translation, action: str) -> Iterator[tuple[Site, int, float]]:
    """Every head off, one at a time (`zero` or `mean`): site, head, and the change of log p of the whole target, nats.

    Each is computed when it is asked for, so that whoever asks can stop.

    Raises:
        InputError: the checkpoint brings no mean outputs.
    """
    clean = _written(checkpoint, before, ())
    for site in before.record.sites:
        for head in range(before.record[site].n_heads):
            changed = _written(checkpoint, before, [Intervention(site, action, heads=(head,))])
            yield site, head, float((changed - clean).sum())


def source_sweep(checkpoint: Checkpoint, before: Translation) -> Iterator[Float[np.ndarray, " step"]]:
    """Every source word for nobody, one at a time: the change of log p of each written token, in nats."""
    clean = _written(checkpoint, before, ())
    for word in range(len(before.axes.source.membership)):
        yield _written(checkpoint, before, for_nobody(before, word)) - clean


def for_nobody(run: Translation, word: int) -> list[Intervention]:
    """Knock the positions of one source word out of every attention that could see them."""
    keys = tuple(int(i) for i in np.flatnonzero(run.axes.source.membership[word]))
    sites = [site for site in run.record.sites if site.group in OF_SOURCE]
    return [Intervention(site, "knock_out", keys=keys) for site in sites]


def _written(
    checkpoint: Checkpoint, run: Translation, interventions: Sequence[Intervention]
) -> Float[np.ndarray, " step"]:
    """Log p of each token of the run's target, in nats."""
    logits, ids = target_logits(checkpoint, run, interventions)
    return log_probs(logits).gather(1, ids)[:, 0].numpy()


def target_logits(
    checkpoint: Checkpoint, run: Translation, interventions: Sequence[Intervention]
) -> tuple[Float[Tensor, "step vocab"], Tensor]:
    """Logits of each step of the run's target under interventions, and the ids that were written (step, 1)."""
    model, _, _ = checkpoint.translator()
    read = torch.tensor([[model.config.bos_id, *run.target_ids[:-1]]])
    with intervening(interventions), run_of(checkpoint):
        logits = model(torch.tensor([run.source_ids]), read)[0]
    return logits, torch.tensor(run.target_ids)[:, None]


def read_under(checkpoint: Checkpoint, text: str, interventions: Sequence[Intervention]) -> ModelRun:
    """Read a text under interventions; its record names them.

    Raises:
        InputError: nothing to read, too much, or an intervention that does not fit.
        CheckpointError: the model's attention cannot be changed.
    """
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


def ends_with(run: ModelRun) -> End:
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


def asked_about(run: ModelRun, end: End, following: int | None = None) -> list[int]:
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
