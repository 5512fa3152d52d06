"""Which heads a translator needs, measured on a corpus: each head off, gradients, and more and more heads removed.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?". The gradient importance is that of its code and
not of its formula: the absolute value is taken at each token and not once an example, then averaged over tokens; each
layer's values are divided by their L2 norm.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ...attention.capture import recording
from ...attention.interventions.edits import intervening
from ...attention.interventions.value import Intervention
from ...checkpoint.checkpoint import Checkpoint
from ...errors import CheckpointError
from ...messages import Message
from ...nn.protocols import written_pad
from ...nn.search import DecodingOptions
from ...sites import Site
from ..corpus import Pairs, bleu, losses_of, mean_loss, translate_lines
from .files import MeasureFile

SHARES = tuple(range(0, 100, 10))
"""Percent of the heads that are removed."""

RANDOM_ORDERS = 3
"""Orders that are drawn, to be compared with."""

GREEDY = DecodingOptions(beam=1)

Head = tuple[Site, int]
"""One head: its site and its number, from 0."""


@dataclass(frozen=True)
class HeadImportance:
    """One head: by how much the mean NLL of a token (nats) rises when it is off, by zero and by its mean output.

    `gradient` is its gradient importance, in shares of its layer's L2 norm.
    """

    site: Site
    head: int
    zero: float
    mean: float
    gradient: float


@dataclass(frozen=True)
class Removal:
    """What is left when the first `removed` heads of an `order` are off (zero): the mean NLL (nats a token), and BLEU.

    BLEU is NaN where it was not measured.

    `order` is `gradient`, `zero`, `random 1` ...; `group` is `all`, or the type of attention that alone loses heads.
    """

    order: str
    group: str
    share: int
    removed: int
    nll: float
    bleu: float


WHOLE = "final"
"""What the checkpoint itself is called among its snapshots."""


@dataclass(frozen=True)
class CorpusInfo:
    """What was measured on: files of pairs, how many, how many were left out, whose means; each snapshot's mean NLL."""

    source: str
    reference: str
    pairs: int
    left_out: int
    means: str
    nll: dict[str, float]


@dataclass(frozen=True)
class Importance:
    """Heads and removals of a checkpoint and of the snapshots of its training, by name (`final`, `000400`)."""

    about: CorpusInfo
    heads: dict[str, tuple[HeadImportance, ...]]
    removals: dict[str, tuple[Removal, ...]]


HOW = {"decoding": "greedy", "removed_by": "zero"}
FILE = MeasureFile("importance.json", "importance", Importance, besides=HOW, digits=7)


def heads_of(model: Any) -> tuple[Head, ...]:
    """Every head of a Transformer of ours, in the order they run."""
    n_heads = model.config.block.attention.n_heads
    return tuple((site, head) for site in model.attention_sites() for head in range(n_heads))


def off(heads: Iterable[Head], action: str = "zero") -> list[Intervention]:
    """The interventions that switch heads off."""
    by_site: dict[Site, list[int]] = {}
    for site, head in heads:
        by_site.setdefault(site, []).append(head)
    return [Intervention(site, action, heads=tuple(numbers)) for site, numbers in by_site.items()]


def each_head_off(checkpoint: Checkpoint, pairs: Pairs, heads: Iterable[Head]) -> dict[Head, tuple[float, float]]:
    """By how much the mean NLL (nats a token) rises with one head off: by zero, and by the mean that it brings.

    Raises:
        CheckpointError: the checkpoint brings no means.
    """
    if checkpoint.means is None:
        raise CheckpointError("means_needed", name=checkpoint.name)
    base, found = mean_loss(checkpoint, pairs), {}
    for head in heads:
        rises = []
        for action in ("zero", "mean"):
            with intervening(off([head], action)):
                rises.append(mean_loss(checkpoint, pairs) - base)
        found[head] = (rises[0], rises[1])
    return found


def gradient_importance(checkpoint: Checkpoint, pairs: Pairs) -> dict[Head, float]:
    """E |z_h . dL/dz_h| over the real queries of each site, L a sentence's NLL; by layer in shares of its L2 norm."""
    model: Any = checkpoint.model
    totals: dict[Site, Tensor] = {}
    for source, target in pairs.batches:
        with torch.enable_grad(), recording(mixing=True) as seen:
            losses, _ = losses_of(model(source, target[:, :-1]), target, written_pad(model.config))
            outputs = [seen.mixed(site)[0].output for site in seen.sites]
            gradients = torch.autograd.grad(losses.sum(), outputs)
        for site, z, gradient in zip(seen.sites, outputs, gradients, strict=True):
            alone = (z.detach() * gradient).sum(-1).abs().double()  # (batch, head, query)
            totals[site] = totals.get(site, 0) + alone.sum((0, 2))
    return {
        (site, head): float(value) for site, total in totals.items() for head, value in enumerate(total / total.norm())
    }


def removals(
    checkpoint: Checkpoint,
    pairs: Pairs,
    sources: Sequence[str],
    references: Sequence[str],
    plans: Sequence[tuple[str, str, Sequence[Head]]],
    translating: bool = True,
) -> Iterator[Removal]:
    """NLL and greedy BLEU with 0, 10 ... 90 % of the heads off, for each plan (order's name, group, heads in order).

    BLEU is NaN unless `translating`, which takes most of the time: a model without its heads does not end.
    """
    model, reader, writer = checkpoint.translator()
    known: dict[frozenset[Head], tuple[float, float]] = {}
    for order, group, heads in plans:
        for share in SHARES:
            removed = heads[: round(len(heads) * share / 100)]
            key = frozenset(removed)
            if key not in known:
                with intervening(off(removed)):
                    loss = mean_loss(checkpoint, pairs)
                    lines = translate_lines(model, reader, sources, GREEDY, writer=writer) if translating else []
                score = bleu([line.text for line in lines], references).score if translating else math.nan
                known[key] = (loss, score)
            yield Removal(order, group, share, len(removed), *known[key])


def plans_of(heads: Sequence[HeadImportance], everything: bool = True) -> list[tuple[str, str, list[Head]]]:
    """What is removed in which order, the least important first: by gradient, by zeroing, at random, and by type.

    Without `everything`, by gradient and in one random order alone.
    """

    def ordered(names: Iterable[HeadImportance], key: Callable[[HeadImportance], float]) -> list[Head]:
        return [(one.site, one.head) for one in sorted(names, key=key)]

    plans = [("gradient", "all", ordered(heads, lambda one: one.gradient))]
    for number in range(1, (RANDOM_ORDERS if everything else 1) + 1):
        shuffled = [(one.site, one.head) for one in heads]
        Random(number).shuffle(shuffled)
        plans.append((f"random {number}", "all", shuffled))
    if everything:
        plans.append(("zero", "all", ordered(heads, lambda one: one.zero)))
        for group in dict.fromkeys(one.site.group for one in heads):
            alone = [one for one in heads if one.site.group == group]
            plans.append(("gradient", group, ordered(alone, lambda one: one.gradient)))
    return plans


class Costs(NamedTuple):
    """Of so many heads off by zero and by their mean: for how many the mean, or zero, costs more; the means of both."""

    heads: int
    mean_more: int
    zero_more: int
    mean: float
    zero: float


def mean_against_zero(heads: Iterable[HeadImportance]) -> Costs | None:
    """What the two ways to switch a head off cost (rise of the NLL, nats a token), of the heads measured both ways."""
    both = [(one.mean, one.zero) for one in heads if not math.isnan(one.mean) and not math.isnan(one.zero)]
    if not both:
        return None
    more, less = (sum(sign * mean > sign * zero for mean, zero in both) for sign in (1, -1))
    return Costs(len(both), more, less, *(sum(column) / len(both) for column in zip(*both, strict=True)))


Lines = tuple[list[int], dict[str, list[float]]]
"""The shares of heads that are off (percent), and the values at each of them by the line's name."""


def removal_lines(rows: Sequence[Removal], measure: Literal["nll", "bleu"]) -> Lines:
    """One line for each order and group, in the order in which they were measured."""
    lines: dict[str, list[float]] = {}
    for one in rows:
        word, _, number = one.order.partition(" ")
        of_all = one.group == "all"
        name = Message(f"plan_{word}", number=number) if of_all else Message("plan_of_type", group=one.group)
        lines.setdefault(name, []).append(getattr(one, measure))
    return sorted({one.share for one in rows}), lines


def beats_random(rows: Sequence[Removal], order: str, measure: Literal["nll", "bleu"]) -> tuple[int, ...]:
    """The shares (percent of all heads) at which an order leaves more than every random order does."""
    sign = 1 if measure == "bleu" else -1
    at: dict[int, dict[str, float]] = {}
    for one in rows:
        if one.group == "all":
            at.setdefault(one.share, {})[one.order] = sign * getattr(one, measure)
    return tuple(
        share
        for share, left in at.items()
        if share and left[order] > max(value for name, value in left.items() if name.startswith("random"))
    )


def steepest(rows: Sequence[Removal], measure: Literal["nll", "bleu"]) -> tuple[str, int]:
    """The type of attention that leaves least when most of its heads are off, and how many percent these are."""
    sign = 1 if measure == "bleu" else -1
    most = max(one.share for one in rows)
    alone = {one.group: sign * getattr(one, measure) for one in rows if one.group != "all" and one.share == most}
    return min(alone, key=alone.__getitem__), most
