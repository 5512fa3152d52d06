"""The sum of slopes along a straight line, at as many points as bring it to what it has to sum to.

Integrated gradients sum, row by row, to the difference of the answer at both ends of the line (completeness), and on
every part of the line to the difference over that part. So each part tells how far its own points miss it: the parts
that miss it by most are halved, until the whole is close enough. Where a net has kinks (ReLU), this needs a fraction of
the points that one rule over the whole line needs. Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep
Networks", section 3 (completeness, and how many points); the points of a part are those of Gauss and Legendre.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer.errors import AttributionError
from transformer.explain.attribution.deletion import Progress

Slopes = Callable[[Float[Tensor, " point"], Progress], Float[Tensor, "point row part"]]
"""Slopes times the way at some places between 0 and 1 of the line, for each row of the answer and each part."""

Values = Callable[[Float[Tensor, " point"]], Float[Tensor, "point row"]]
"""The answer itself at some places."""

MOST_POINTS = 1_024
"""Points after which no part is halved any more: about three times what a caption of the shipped translator needs."""

_PARTS, _POINTS = 4, 4
"""Parts of the line that are tried first, and points of each part."""

FIRST_POINTS = _PARTS * _POINTS
"""Points that are tried first: enough for a net whose slopes change slowly."""

_AS_BAD = 0.25
"""Parts are halved together that miss their difference by this share of what the worst misses it by."""


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
    slopes: Slopes,
    values: Values,
    close: float,
    least: float,
    points: int | None = None,
    at_once: int = MOST_POINTS,
    progress: Progress | None = None,
) -> Integral:
    """Integrate from 0 to 1 until each row misses its difference by at most the share `close` of it.

    A difference below `least` nats counts as `least`, so that a row that hardly depends on its input can be close, too.
    `points` places these and no others, over the whole line. If None, parts are halved until every row is close, or
    there are about `MOST_POINTS`; so that gaps of parts do not cancel by luck, the root of their summed squares has to
    be as small too. At most `at_once` points share a call of `slopes`.

    Raises:
        AttributionError: `points` is below 1.
    """
    if points is not None and points < 1:
        raise AttributionError("attribution_points_too_few", points=points)
    each = _POINTS if points is None else points
    first = np.linspace(0.0, 1.0, (_PARTS if points is None else 1) + 1)
    known = dict(zip(first.tolist(), values(torch.tensor(first)), strict=True))
    difference = known[1.0] - known[0.0]
    allowed = close * difference.abs().clamp(min=least)
    fresh, kept = list(zip(first[:-1].tolist(), first[1:].tolist(), strict=True)), list[_Part]()
    used, before = 0, 0.0
    while True:
        left = (1.0 - before) / 2

        def told(done: float, before: float = before, left: float = left) -> None:
            if progress:
                progress(before + left * done)

        for (begin, end), added in zip(fresh, _integrated(slopes, fresh, each, at_once, told), strict=True):
            kept.append(_Part(begin, end, added, added.sum(1) - (known[end] - known[begin])))
        used += each * len(fresh)
        missed = torch.stack([part.missed for part in kept])
        off = torch.maximum(missed.sum(0).abs(), missed.norm(dim=0)) / allowed
        if points is not None or not (off > 1).any() or used + 2 * each > MOST_POINTS:
            if progress:
                progress(1.0)
            return Integral(sum((part.added for part in kept), torch.zeros(())), difference, off <= 1, used)
        worst = (missed.abs() / allowed)[:, off > 1].max(1).values
        order = worst.argsort(descending=True).tolist()[: (MOST_POINTS - used) // (2 * each)]
        halved = [kept[i] for i in order if worst[i] >= _AS_BAD * worst[order[0]]]
        kept = [part for part in kept if part not in halved]
        middles = [(part.begin + part.end) / 2 for part in halved]
        known |= zip(middles, values(torch.tensor(middles, dtype=torch.float64)), strict=True)
        fresh = [half for part, at in zip(halved, middles, strict=True) for half in ((part.begin, at), (at, part.end))]
        before += left


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the line: what its points add, and by how much their sum misses the difference over it."""

    begin: float
    end: float
    added: Float[Tensor, "row part"]
    missed: Float[Tensor, " row"]


def _integrated(
    slopes: Slopes, parts: list[tuple[float, float]], points: int, at_once: int, told: Progress
) -> list[Float[Tensor, "row part"]]:
    """The sum over each part of the line, by the rule of Gauss and Legendre with so many points in each."""
    places, shares = np.polynomial.legendre.leggauss(points)
    begins, ends = np.array(parts).T[..., None]
    where = torch.tensor(begins + (places + 1) / 2 * (ends - begins)).flatten()
    by = torch.tensor(shares / 2 * (ends - begins)).flatten()
    found: list[Tensor] = [torch.zeros(())] * len(parts)
    for first in range(0, len(where), at_once):
        some = where[first : first + at_once]

        def told_here(done: float, first: int = first, some: Tensor = some) -> None:
            told((first + done * len(some)) / len(where))

        answered = slopes(some, told_here)
        for i, one in enumerate(answered, first):
            found[i // points] = found[i // points] + by[i] * one
    return found
