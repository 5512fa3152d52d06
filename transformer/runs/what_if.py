"""What an intervention does to a translation: on the same target, step by step; and when the model decodes again.

Two ways to run, which are never mixed: *same target* reads what the unchanged model wrote (teacher forced), so that
steps can be compared; *decode again* searches anew under the interventions. Measures: Heimersheim and Nanda 2024.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.decoding.search import DecodingOptions
from transformer.interventions.active import intervening
from transformer.interventions.value import Intervention
from transformer.models.common import log_probs
from transformer.pictures.axes import Axis
from transformer.pictures.picture import Picture
from transformer.pictures.quantity import Quantity
from transformer.runs.changed import run_of
from transformer.runs.translate import Translation, reread, translate
from transformer.sites import Site

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


@dataclass(frozen=True)
class Interaction:
    """Two heads of one sentence: the change of log p of its target (nats) with one off, the other, and both.

    Where both cost much more than the two together do alone, either one stands in for the other: `surplus` is low.
    """

    first: tuple[Site, int]
    second: tuple[Site, int]
    alone: tuple[float, float]
    both: float

    @property
    def surplus(self) -> float:
        """What both change beyond the sum of each alone: effects would add if the heads had nothing to do together."""
        return self.both - sum(self.alone)


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
    odds = []
    for probabilities in (before, after):
        others = np.array([np.delete(probabilities, i).sum() for i in range(len(probabilities))])  # exact next to p = 1
        odds.append(np.log(probabilities) - np.log(others))
    rows = zip(names, before.tolist(), after.tolist(), (odds[1] - odds[0]).tolist(), strict=True)
    return tuple(ClassEffect(name, (first, then), change) for name, first, then, change in rows)


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
    """Where a longest common subsequence stands in both. O(words x words)."""
    longest = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]  # of what follows in both
    for i in reversed(range(len(first))):
        for j in reversed(range(len(second))):
            same = first[i] == second[j]
            longest[i][j] = longest[i + 1][j + 1] + 1 if same else max(longest[i + 1][j], longest[i][j + 1])
    found: tuple[set[int], set[int]] = (set(), set())
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] == second[j]:
            found[0].add(i)
            found[1].add(j)
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
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


def interactions(checkpoint: Checkpoint, before: Translation, action: str, quiet: float) -> Iterator[Interaction]:
    """Every pair of heads that alone change log p of the target by less than `quiet` nats, off together.

    Heads that back one another up are found so, which no sweep of single heads shows. Each pair is a forward pass,
    computed when it is asked for.

    Raises:
        InputError: the checkpoint brings no mean outputs.
    """
    alone = {(site, head): change for site, head, change in head_sweep(checkpoint, before, action)}
    clean = _written(checkpoint, before, ()).sum()
    for first, second in combinations([one for one, change in alone.items() if abs(change) < quiet], 2):
        off = [Intervention(site, action, heads=(head,)) for site, head in (first, second)]
        both = float(_written(checkpoint, before, off).sum() - clean)
        yield Interaction(first, second, (alone[first], alone[second]), both)


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
