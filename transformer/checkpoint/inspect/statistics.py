"""One tensor in numbers, a slice at a time: memory stays flat, and whoever waits can stop it between two slices."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.messages import Message
from transformer.safe.contents import Shape

BINS = 40
"""Bars of a tensor's histogram."""

SLICE = 2**20
"""Numbers that are looked at in one go: about 10 ms."""


def go_on() -> None:
    """What happens between two slices unless a caller says otherwise: nothing."""


@dataclass(frozen=True, eq=False)
class TensorSummary:
    """One tensor in numbers. Statistics are over its finite numbers; `norm` is the root of the sum of squares.

    `counts` are the bars of a histogram between `edges`. `dead` marks a tensor whose numbers are all the same, so
    that it says nothing (a bias of zeros, a gain of ones: untrained, or never used).
    """

    name: str
    shape: Shape
    dtype: str
    n_bytes: int
    norm: float
    mean: float
    deviation: float
    smallest: float
    largest: float
    n_not_finite: int
    dead: bool
    counts: Int[np.ndarray, " bin"]
    edges: Float[np.ndarray, " edge"]

    @property
    def numel(self) -> int:
        """How many numbers it holds."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def flags(self) -> tuple[str, ...]:
        """What you should know of it: NaN or infinity in it, or all numbers alike."""
        bad = (Message("flag_not_finite", count=self.n_not_finite),) if self.n_not_finite else ()
        return (*bad, *((Message("flag_all_alike"),) if self.dead else ()))


def summary(name: str, tensor: Tensor, between: Callable[[], None] = go_on) -> TensorSummary:
    """One tensor in numbers. `between` is called before each slice; what it raises ends the work."""
    tensor = tensor.detach()
    found = _Running()
    for numbers in slices(tensor):
        between()
        found.take(numbers.double())
    counts, edges = _histogram(tensor, found, between)
    return TensorSummary(
        name=name,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        n_bytes=tensor.numel() * tensor.element_size(),
        norm=found.squares**0.5,
        mean=found.mean,
        deviation=(found.spread / max(found.count, 1)) ** 0.5,
        smallest=found.smallest if found.count else 0.0,
        largest=found.largest if found.count else 0.0,
        n_not_finite=tensor.numel() - found.count,
        dead=tensor.numel() > 1 and all_alike(tensor, between),
        counts=counts,
        edges=edges,
    )


def slices(tensor: Tensor) -> Iterator[Tensor]:
    """The numbers of a tensor in their order, in flat pieces of at most `SLICE`; a view is not copied as a whole."""
    waiting = [tensor.reshape(-1) if tensor.is_contiguous() else tensor]
    while waiting:
        piece = waiting.pop()
        if piece.numel() > SLICE:
            axis = next(axis for axis, size in enumerate(piece.shape) if size > 1)
            half = piece.shape[axis] // 2
            waiting += reversed(piece.split([half, piece.shape[axis] - half], dim=axis))
        elif piece.numel():
            yield piece.reshape(-1)


def all_alike(tensor: Tensor, between: Callable[[], None] = go_on) -> bool:
    """Whether all numbers are the same one; a tensor of none is. `between` as in `summary`."""
    if not tensor.numel():
        return True
    first = tensor[(0,) * tensor.dim()]
    for numbers in slices(tensor):
        between()
        if not bool((numbers == first).all()):
            return False
    return True


@dataclass(eq=False)
class _Running:
    """Statistics of the finite numbers seen so far. `spread` is the sum of squared distances from the mean.

    Source: Chan, Golub and LeVeque 1983, for putting means and spreads together.
    """

    count: int = 0
    mean: float = 0.0
    spread: float = 0.0
    squares: float = 0.0
    smallest: float = float("inf")
    largest: float = float("-inf")

    def take(self, numbers: Float[Tensor, " number"]) -> None:
        finite = numbers[numbers.isfinite()]
        if not finite.numel():
            return
        n, mean = finite.numel(), float(finite.mean())
        total, apart = self.count + n, mean - self.mean
        self.spread += _squares(finite - mean) + apart * (apart * self.count * n / total)
        self.mean += apart * n / total
        self.squares += _squares(finite)
        self.count = total
        self.smallest = min(self.smallest, float(finite.min()))
        self.largest = max(self.largest, float(finite.max()))


def _squares(numbers: Float[Tensor, " number"]) -> float:
    return float(torch.dot(numbers, numbers))


def _histogram(
    tensor: Tensor, found: _Running, between: Callable[[], None]
) -> tuple[Int[np.ndarray, " bin"], Float[np.ndarray, " edge"]]:
    """Bars of the finite numbers; none where they lie so far apart, or so close, that no bar can hold them."""
    edges = _edges(found.smallest, found.largest) if found.count else np.linspace(0.0, 1.0, BINS + 1)
    counts = np.zeros(BINS, dtype=np.int64)
    if edges is None:
        return counts, np.linspace(0.0, 1.0, BINS + 1)
    if found.count:
        for numbers in slices(tensor):
            between()
            wide = numbers.double()
            finite = wide[wide.isfinite()].numpy()
            counts += np.histogram(finite, bins=BINS, range=(found.smallest, found.largest))[0]
    return counts, edges


def _edges(smallest: float, largest: float) -> Float[np.ndarray, " edge"] | None:
    """The edges of the bars, as `np.histogram` sets them, or None where it cannot."""
    if not np.isfinite(largest - smallest):
        return None
    first, last = (smallest - 0.5, largest + 0.5) if smallest == largest else (smallest, largest)
    edges = np.linspace(first, last, BINS + 1)
    return edges if bool((np.diff(edges) > 0).all()) else None
