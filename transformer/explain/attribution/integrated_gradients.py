"""Integrated gradients: what each token adds to the log-probability of each written token, against no token at all.

Every embedding, of the source and of the target prefix, moves along the straight line from the mean of its table's
rows ("no token in particular") to the one given; gradients along the way, times the way, sum to the difference of the
log-probabilities at both tokens (completeness), and on every part of the line to the difference over that part. So each
part tells how far its own points miss it, and the parts that miss it by most are halved until the whole is close: a
recurrent net needs few points, a Transformer hundreds. A row whose sum is not close has no numbers: it is not what the
method says. Needs of a model only where tokens are embedded and where scores are made, so it is defined for recurrent
nets and for other libraries' models too. Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks",
section 3; the points of a part are those of Gauss and Legendre.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ...errors import AttributionError, NotDefinedError
from ...messages import Message
from ...nn.common import share_weights_clone
from ...nn.protocols import TokenInterface
from ...plots.picture import Quantity
from .deletion import Progress, untold
from .result import POSITIONS_AT_ONCE, Attribution, ScoredSequence, causal_visible

CLOSE, LEAST = 0.05, 1.0
"""The share of the difference by which the sum of a row may miss it, and the nats that a smaller one counts as."""

ROWS_AT_ONCE = 4_096
"""Rows of an embedding table that are averaged together."""

MOST_POINTS = 1_024
"""Points after which no part is halved any more: about three times what a caption of the shipped translator needs."""

_PARTS, _POINTS = 4, 4
"""Parts of the line that are tried first, and points of each part."""

FIRST_POINTS = _PARTS * _POINTS
"""Points that are tried first: enough for a net whose slopes change slowly."""

_AS_BAD = 0.25
"""Parts are halved together that miss their difference by this share of what the worst misses it by."""

Gradients = Callable[[Float[Tensor, " point"], Progress], Float[Tensor, "point row part"]]
"""Gradients times the way at some places between 0 and 1 of the line, for each row of the answer and each part."""

Values = Callable[[Float[Tensor, " point"]], Float[Tensor, "point row"]]
"""The answer itself at some places."""


@torch.inference_mode(mode=False)
def integrated_gradients(
    sequence: ScoredSequence,
    points: int | None = None,
    progress: Progress = untold,
    rows: Sequence[int] | None = None,
) -> Attribution:
    """Nats that each source token and each token of the prefix adds to each written token's log-probability.

    A row sums to log p(y_t | x, y_<t) less that of the baseline, up to at most the share `CLOSE` of it (a difference
    below `LEAST` nats counts as `LEAST`); a note tells the gap. A row for which that was not reached holds no numbers
    (NaN). With `points`, gradients are taken at just so many, and every row holds what they say, close or not. In both
    cases the answer's name says how many rows did not converge. `rows` asks for these written tokens alone; the others
    hold no numbers. Costs a forward pass a point, and a backward pass of them together for each row that is asked. A
    clone that shares the weights runs, so the model itself has no hooks.

    Raises:
        AttributionError: the model does not say where it embeds and scores tokens, or embeds them more than once; or
            `points` is below 1.
    """
    if not hasattr(sequence.model, "token_interface"):
        raise NotDefinedError("attribution_no_embeddings", name=sequence.name)
    model: Any = sequence.model
    clone = share_weights_clone(model)
    tokens: TokenInterface = clone.token_interface()
    asked = [*(range(len(sequence.written)) if rows is None else rows)]
    ids = [torch.tensor([part]) for part in (sequence.source_ids, sequence.read_ids) if part]
    with torch.no_grad():
        given = [table(part) for table, part in zip(tokens.embeddings, ids, strict=True)]
        start = [mean_row(table).expand_as(end) for table, end in zip(tokens.embeddings, given, strict=True)]
    ways = [end - begin for begin, end in zip(start, given, strict=True)]

    def at(places: Float[Tensor, " point"]) -> list[Float[Tensor, "point _ width"]]:
        where = places[:, None, None].to(given[0].dtype)
        return [torch.lerp(begin, end, where) for begin, end in zip(start, given, strict=True)]

    def values(places: Float[Tensor, " point"]) -> Float[Tensor, "point row"]:
        with torch.no_grad():
            return _log_probs(clone, sequence, tokens, at(places), asked)[0]

    found = integral(
        lambda places, progress: _gradients(clone, sequence, tokens, at(places), ways, progress, asked),
        values, CLOSE, LEAST, points, max(1, POSITIONS_AT_ONCE // sum(part.shape[1] for part in ids)), progress,
    )  # fmt: skip
    return _answer(sequence, found, asked, kept=points is not None)


def _answer(sequence: ScoredSequence, found: "Integral", asked: list[int], kept: bool) -> Attribution:
    """The matrix, with what has to be known of its numbers; `kept` keeps those of rows that did not converge."""
    numbers = dict(gap=found.gap.mean(), most=found.gap.max(), difference=found.difference.abs().mean())
    said = {name: f"{float(number):.2g}" for name, number in numbers.items()}
    notes = [Message("note_integrated_gradients", points=found.points, **said)]
    added, failed = found.added, ~found.converged
    setting = None
    if failed.any():
        rows = dict(rows=int(failed.sum()), of=len(failed))
        setting = Message("setting_not_converged", **rows)
        allowed = dict(share=f"{CLOSE:.0%}", least=f"{CLOSE * LEAST:g}")
        notes.append(Message("note_not_converged_kept" if kept else "note_not_converged", **rows, **allowed))
    if not kept:
        added = added.masked_fill(failed[:, None], torch.nan)
    visible = causal_visible(len(sequence.written), len(sequence.source), len(sequence.read))
    values = np.full(visible.shape, np.nan)
    values[asked] = added.numpy()
    return Attribution(
        "integrated_gradients", sequence.written, sequence.source, sequence.read, values, visible,
        Quantity.LOG_PROB_ADDED, setting, tuple(notes),
    )  # fmt: skip


def _gradients(
    clone: nn.Module,
    sequence: ScoredSequence,
    tokens: TokenInterface,
    moved: Sequence[Float[Tensor, "point _ _"]],
    ways: Sequence[Float[Tensor, "1 _ _"]],
    progress: Progress,
    asked: Sequence[int],
) -> Float[Tensor, "point row part"]:
    """Gradients of the log-probability of each written token that is `asked` at some points, times the way."""
    with torch.enable_grad():
        for each in moved:
            each.requires_grad_()
        log_probs, states = _log_probs(clone, sequence, tokens, moved, asked)
        if not log_probs.requires_grad:  # a forced token is certain whatever was read
            n_parts = sum(each.shape[1] for each in moved)
            return torch.zeros(len(moved[0]), len(asked), n_parts, dtype=torch.float64)
        (by_state,) = torch.autograd.grad(log_probs.sum(), states, retain_graph=True)  # positions do not mix after it
    rows = []
    for number, step in enumerate(asked, 1):
        alone = torch.zeros_like(by_state)
        alone[:, step] = by_state[:, step]
        gradients = torch.autograd.grad(states, moved, alone, retain_graph=True)
        added = [(slope.double() * way.double()).sum(-1) for slope, way in zip(gradients, ways, strict=True)]
        rows.append(torch.cat(added, dim=1))
        progress(number / len(asked))
    return torch.stack(rows, dim=1)


def _log_probs(
    clone: nn.Module,
    sequence: ScoredSequence,
    tokens: TokenInterface,
    embedded: Sequence[Float[Tensor, "point _ _"]],
    asked: Sequence[int],
) -> tuple[Float[Tensor, "point row"], Float[Tensor, "point target width"]]:
    """Log-probabilities of some written tokens where tokens are embedded like this, and what scores are made of."""
    left, states = list(embedded), list[Tensor]()

    def fed(module: nn.Module, _: Any, found: Tensor) -> Tensor:
        """What is given, in the place of what a pass looks up, in the order in which it does."""
        given = left.pop(0) if left else None
        if given is None or given.shape != found.shape:
            raise NotDefinedError("attribution_embeds_elsewhere", found=type(module).__name__)
        return given

    hooks = [module.register_forward_hook(fed) for module in dict.fromkeys(tokens.embeddings)]
    hooks.append(tokens.projection.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0])))
    count = len(embedded[0])
    inputs = [torch.tensor([part]).expand(count, -1) for part in (sequence.source_ids, sequence.read_ids) if part]
    try:
        logits: Tensor = clone(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if left or len(states) != 1:
        raise NotDefinedError("attribution_embeds_elsewhere", found=type(clone).__name__)
    logits = logits[:, list(asked)]  # a large vocabulary costs more than the layers
    written = torch.tensor([sequence.written_ids[row] for row in asked]).expand(count, -1)[..., None]
    return logits.gather(-1, written)[..., 0].double() - logits.logsumexp(-1).double(), states[0]


def usual_points(model: Any) -> int:
    """About how many points a sentence needs: measured on captions with the shipped translators."""
    return FIRST_POINTS if model.abilities.recurrent else 256


def mean_row(table: nn.Module) -> Float[Tensor, "1 1 width"]:
    """The mean embedding of a vocabulary."""
    ids = torch.arange(table.num_embeddings)  # type: ignore[call-overload]
    mean = sum((table(some).double().sum(0) for some in ids.split(ROWS_AT_ONCE)), torch.zeros(())) / len(ids)
    return mean.to(next(table.parameters()).dtype)[None, None]


@dataclass(frozen=True, eq=False)
class Integral:
    """What each part of the input adds to each row, and the difference that a row has to sum to, in nats.

    `converged` says of which rows the sum is close enough: off by at most a share of `difference`.
    """

    added: Float[Tensor, "row part"]
    difference: Float[Tensor, " row"]
    converged: Bool[Tensor, " row"]
    points: int

    @property
    def gap(self) -> Float[Tensor, " row"]:
        """How far each row's sum lies from where it must (completeness gap)."""
        return (self.added.sum(1) - self.difference).abs()


def integral(
    gradients: Gradients,
    values: Values,
    close: float,
    least: float,
    points: int | None = None,
    at_once: int = MOST_POINTS,
    progress: Progress = untold,
) -> Integral:
    """Integrate from 0 to 1 until each row misses its difference by at most the share `close` of it.

    A difference below `least` nats counts as `least`, so that a row that hardly depends on its input can be close, too.
    `points` places these and no others, over the whole line. If None, parts are halved until every row is close, or
    there are about `MOST_POINTS`; so that gaps of parts do not cancel by luck, the root of their summed squares has to
    be as small too. At most `at_once` points share a call of `gradients`.

    Raises:
        AttributionError: `points` is below 1.
    """
    if points is not None and points < 1:
        raise AttributionError("attribution_points_too_few", points=points)
    each = points or _POINTS
    bounds = np.linspace(0.0, 1.0, 2 if points else _PARTS + 1).tolist()
    known = dict(zip(bounds, values(torch.tensor(bounds, dtype=torch.float64)), strict=True))
    difference = known[1.0] - known[0.0]
    allowed = close * difference.abs().clamp(min=least)
    fresh, kept = list(pairwise(bounds)), dict[tuple[float, float], Tensor]()  # what the points of each part add
    used, before = 0, 0.0
    while True:
        left = (1.0 - before) / 2
        kept |= zip(fresh, _integrated(gradients, fresh, each, at_once, _within(progress, before, left)), strict=True)
        used += each * len(fresh)
        missed = torch.stack([added.sum(1) - (known[end] - known[begin]) for (begin, end), added in kept.items()])
        off = torch.maximum(missed.sum(0).abs(), missed.norm(dim=0)) / allowed
        if points or not (off > 1).any() or used + 2 * each > MOST_POINTS:
            progress(1.0)
            return Integral(sum(kept.values(), torch.zeros(())), difference, off <= 1, used)
        worst = (missed.abs() / allowed)[:, off > 1].max(1).values
        order = worst.argsort(descending=True).tolist()[: (MOST_POINTS - used) // (2 * each)]
        halved = [list(kept)[i] for i in order if worst[i] >= _AS_BAD * worst[order[0]]]
        middles = [(begin + end) / 2 for begin, end in halved]
        known |= zip(middles, values(torch.tensor(middles, dtype=torch.float64)), strict=True)
        fresh = [half for part, at in zip(halved, middles, strict=True) for half in ((part[0], at), (at, part[1]))]
        kept = {part: added for part, added in kept.items() if part not in halved}
        before += left


def _integrated(
    gradients: Gradients, parts: list[tuple[float, float]], points: int, at_once: int, progress: Progress
) -> list[Float[Tensor, "row part"]]:
    """The sum over each part of the line, by the rule of Gauss and Legendre with so many points in each."""
    places, shares = np.polynomial.legendre.leggauss(points)
    begins, stops = np.array(parts).T[..., None]
    where = torch.tensor(begins + (places + 1) / 2 * (stops - begins)).flatten()
    by = torch.tensor(shares / 2 * (stops - begins)).flatten()
    found: list[Tensor] = [torch.zeros(())] * len(parts)
    for first in range(0, len(where), at_once):
        some = where[first : first + at_once]
        answered = gradients(some, _within(progress, first / len(where), len(some) / len(where)))
        for i, one in enumerate(answered, first):
            found[i // points] = found[i // points] + by[i] * one
    return found


def _within(progress: Progress, first: float, share: float) -> Progress:
    """Tells of a part of the work, which begins at `first`."""
    return lambda done: progress(first + share * done)
