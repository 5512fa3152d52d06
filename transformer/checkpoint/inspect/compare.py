"""Two checkpoints of one architecture: which tensors moved, and by how much."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from transformer.checkpoint.inspect.statistics import aligned_slices
from transformer.checkpoint.load import read
from transformer.safe.contents import Contents, Shape
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits

SHOWN = 20
"""Tensors that the text lists; the comparison itself holds all."""


@dataclass(frozen=True)
class Moved:
    """How far one tensor moved: the norm of the difference, absolute and as a share of the first one's norm.

    `cosine` compares directions: 1 means that it only grew or shrank. `largest` is the biggest change of one number.
    """

    name: str
    shape: Shape
    distance: float
    share: float
    cosine: float
    largest: float


@dataclass(frozen=True)
class TensorComparison:
    """Two checkpoints, tensor by tensor, the one that moved most (by share) first."""

    first: str
    second: str
    moved: tuple[Moved, ...]
    unchanged: tuple[str, ...]
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]
    other_shape: tuple[str, ...]

    @property
    def text(self) -> str:
        """The comparison in words."""
        lines = [f"{self.first} -> {self.second}: {len(self.moved)} moved, {len(self.unchanged)} are the same"]
        lines += [f"  {m.share:9.2%}  cosine {m.cosine:+z.4f}  {m.name}" for m in self.moved[:SHOWN]]
        if len(self.moved) > SHOWN:
            lines.append(f"  and {len(self.moved) - SHOWN} more, which moved less")
        rest = {
            f"only in {self.first}": self.only_in_first,
            f"only in {self.second}": self.only_in_second,
            "of another shape": self.other_shape,
        }
        lines += [f"  {what}: {name}" for what, names in rest.items() for name in names]
        return "\n".join(lines)


def compare(first: str | Path, second: str | Path, limits: ReadLimits = DEFAULT_LIMITS) -> TensorComparison:
    """Which tensors of the checkpoint at `first` moved on the way to the one at `second`.

    Raises:
        CheckpointError: one of them is missing, cannot be read, or is refused.
    """
    paths = Path(first), Path(second)
    names = [path.name for path in paths]
    if names[0] == names[1]:
        names = [str(path) for path in paths]
    before, after = (replace(read(path, limits), source=name) for path, name in zip(paths, names, strict=True))
    return compare_contents(before, after)


def compare_contents(first: Contents, second: Contents) -> TensorComparison:
    """As `compare`, for what was read already."""
    moved, unchanged, other_shape = [], [], []
    for name, before in first.tensors.items():
        after = second.tensors.get(name)
        if after is None:
            continue
        if after.shape != before.shape:
            other_shape.append(name)
        elif torch.equal(before, after):
            unchanged.append(name)
        else:
            moved.append(_moved(name, before, after))
    return TensorComparison(
        first=first.source,
        second=second.source,
        moved=tuple(sorted(moved, key=lambda m: -m.share)),
        unchanged=tuple(unchanged),
        only_in_first=tuple(name for name in first.tensors if name not in second.tensors),
        only_in_second=tuple(name for name in second.tensors if name not in first.tensors),
        other_shape=tuple(other_shape),
    )


def _moved(name: str, before: Tensor, after: Tensor) -> Moved:
    """How far one tensor moved; worked out a slice at a time, so that memory stays flat."""
    apart = norm = new_norm = product = largest = 0.0
    for old, new in aligned_slices(before, after):
        a, b = old.double(), new.double()
        change = b - a
        apart += float(torch.dot(change, change))
        norm += float(torch.dot(a, a))
        new_norm += float(torch.dot(b, b))
        product += float(torch.dot(a, b))
        largest = float(torch.maximum(change.abs().max(), torch.tensor(largest)))  # NaN stays NaN
    lengths = math.sqrt(norm) * math.sqrt(new_norm)
    distance = math.sqrt(apart)
    share = distance / math.sqrt(norm) if norm else float("inf")
    return Moved(name, tuple(before.shape), distance, share, product / lengths if lengths else 0.0, largest)
