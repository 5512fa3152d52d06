"""Looking into a checkpoint without running it: each tensor in numbers, and shared matrices.

Tensors are looked through once, a slice at a time: memory stays flat, and whoever waits can stop it between two slices.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..messages import Message, say
from ..safe.contents import Contents, Shape, shape_text
from ..safe.limits import DEFAULT_LIMITS, ReadLimits
from .load import find_files, read

SLICE = 2**20
"""Numbers that are looked at in one go: about 15 ms."""


@dataclass(frozen=True, eq=False)
class TensorSummary:
    """One tensor in numbers. Statistics are over its finite numbers; `norm` is the root of the sum of squares.

    `dead` marks a tensor whose numbers are all the same, so that it says nothing (a bias of zeros, a gain of ones:
    untrained, or never used). `digest` is a fingerprint of its numbers.
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
    digest: bytes

    @property
    def numel(self) -> int:
        """How many numbers it holds."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def flags(self) -> tuple[str, ...]:
        """What you should know of it: NaN or infinity in it, or all numbers alike."""
        bad = (Message("flag_not_finite", count=self.n_not_finite),) if self.n_not_finite else ()
        return (*bad, *((Message("flag_all_alike"),) if self.dead else ()))


@dataclass(frozen=True, eq=False)
class Inspection:
    """What a checkpoint holds. `tied` lists groups of names that hold the same numbers."""

    source: str
    format: str
    file_bytes: int
    tensors: tuple[TensorSummary, ...]
    tied: tuple[tuple[str, ...], ...]

    @property
    def n_parameters(self) -> int:
        """All numbers, tied ones counted once."""
        copies = {name for group in self.tied for name in group[1:]}
        return sum(tensor.numel for tensor in self.tensors if tensor.name not in copies)

    @property
    def text(self) -> str:
        """The inspection in words, a tensor a line."""
        size = f"{self.file_bytes:,} bytes, {len(self.tensors):,} tensors, {self.n_parameters:,} numbers"
        lines = [f"{self.source} ({self.format}): {size}", *(f"tied: {' = '.join(group)}" for group in self.tied)]
        for tensor in self.tensors:
            flags = "".join(f"  [{say(flag)}]" for flag in tensor.flags)
            lines.append(f"{tensor.name}  {shape_text(tensor.shape)}  {tensor.dtype}  norm {tensor.norm:.4g}{flags}")
        return "\n".join(lines)


def inspect(path: str | Path, limits: ReadLimits = DEFAULT_LIMITS) -> Inspection:
    """Look into the file or folder at `path`. Costs a pass over its numbers.

    Raises:
        CheckpointError: it is missing, cannot be read, or is refused.
    """
    path = Path(path)
    return inspect_contents(read(path, limits), sum(file.stat().st_size for file in find_files(path)))


def inspect_contents(
    contents: Contents, file_bytes: int, progress: Callable[[float], None] = lambda _: None
) -> Inspection:
    """As `inspect`, for what was read already (an upload).

    `progress` hears the share that is done after each slice of `SLICE` numbers; what it raises ends the work.
    """
    total, done = sum(tensor.numel() for tensor in contents.tensors.values()), 0

    def looked(count: int) -> None:
        nonlocal done
        done += count
        progress(done / total)

    tensors = tuple(summary(name, tensor, looked) for name, tensor in contents.tensors.items())
    groups: dict[object, list[str]] = {}
    for one in tensors:
        if one.numel > 1 and not one.dead:
            groups.setdefault((one.shape, one.dtype, one.digest), []).append(one.name)
    tied = tuple(tuple(names) for names in groups.values() if len(names) > 1)
    return Inspection(contents.source, contents.format, file_bytes, tensors, tied)


def summary(name: str, tensor: Tensor, looked: Callable[[int], None] = lambda _: None) -> TensorSummary:
    """One tensor in numbers; `looked` hears after each slice how many were looked at.

    Source: Chan, Golub and LeVeque 1983, for putting the means and spreads of slices together.
    """
    tensor, digest = tensor.detach(), hashlib.sha256()
    count, mean, spread, squares, smallest, largest = 0, 0.0, 0.0, 0.0, np.inf, -np.inf
    for numbers in slices(tensor):
        digest.update(numbers.contiguous().as_strided([len(numbers)], [1]).view(torch.uint8).numpy().data)
        finite: Float[Tensor, " number"] = numbers[numbers.isfinite()].double()
        if finite.numel():
            known, count, own = count, count + len(finite), float(finite.mean())
            spread += float((finite - own).square().sum()) + (own - mean) ** 2 * known * len(finite) / count
            mean += (own - mean) * len(finite) / count
            squares += float(finite @ finite)
            smallest, largest = min(smallest, float(finite.min())), max(largest, float(finite.max()))
        looked(len(numbers))
    return TensorSummary(
        name=name,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        n_bytes=tensor.numel() * tensor.element_size(),
        norm=squares**0.5,
        mean=mean,
        deviation=(spread / max(count, 1)) ** 0.5,
        smallest=smallest if count else 0.0,
        largest=largest if count else 0.0,
        n_not_finite=tensor.numel() - count,
        dead=1 < count == tensor.numel() and smallest == largest,
        digest=digest.digest(),
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
