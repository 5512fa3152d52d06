"""Looking into a checkpoint without running it: the tree of its modules, and each tensor in numbers."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.checkpoint.load import read
from transformer.checkpoint.safe.contents import Contents, Shape, shape_text
from transformer.checkpoint.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.checkpoint.weight_files import find_files

BINS = 40
"""Bars of a tensor's histogram."""


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
        """What a reader should know: NaN or infinity in it, or all numbers alike."""
        bad = (f"{self.n_not_finite:,} NaN or infinite",) if self.n_not_finite else ()
        return (*bad, *(("all numbers alike",) if self.dead else ()))


@dataclass(frozen=True, eq=False)
class ModuleNode:
    """One module of the tree, told from names: what stands before a dot holds what comes after it."""

    name: str
    n_parameters: int
    modules: tuple["ModuleNode", ...]
    tensors: tuple[TensorSummary, ...]

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The tree as text, a module or tensor a line."""
        yield f"{'  ' * depth}{self.name or '(checkpoint)'}  {self.n_parameters:,}"
        for tensor in self.tensors:
            shape = shape_text(tensor.shape)
            flags = "".join(f"  [{flag}]" for flag in tensor.flags)
            last = tensor.name.rpartition(".")[2]
            yield f"{'  ' * (depth + 1)}{last}  {shape}  {tensor.dtype}  norm {tensor.norm:.4g}{flags}"
        for module in self.modules:
            yield from module.lines(depth + 1)


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

    @cached_property
    def tree(self) -> ModuleNode:
        """The modules, one inside the other."""
        return _node("", [(tensor.name.split("."), tensor) for tensor in self.tensors])

    @property
    def text(self) -> str:
        """The inspection for a reader."""
        size = f"{self.file_bytes:,} bytes, {len(self.tensors):,} tensors, {self.n_parameters:,} numbers"
        tied = [f"tied: {' = '.join(group)}" for group in self.tied]
        return "\n".join([f"{self.source} ({self.format}): {size}", *tied, *self.tree.lines()])


def inspect(path: str | Path, limits: ReadLimits = DEFAULT_LIMITS) -> Inspection:
    """Look into the file or folder at `path`. Costs a few passes over its numbers.

    Raises:
        CheckpointError: it is missing, cannot be read, or is refused.
    """
    path = Path(path)
    return inspect_contents(read(path, limits), sum(file.stat().st_size for file in find_files(path).values()))


def inspect_contents(contents: Contents, file_bytes: int) -> Inspection:
    """As `inspect`, for what was read already (an upload)."""
    return Inspection(
        source=contents.source,
        format=contents.format,
        file_bytes=file_bytes,
        tensors=tuple(summary(name, tensor) for name, tensor in contents.tensors.items()),
        tied=tied_groups(contents.tensors),
    )


def summary(name: str, tensor: Tensor) -> TensorSummary:
    """One tensor in numbers."""
    numbers = tensor.detach().double().flatten()
    finite = numbers[numbers.isfinite()]
    known = finite if finite.numel() else torch.zeros(1, dtype=torch.float64)
    smallest, largest = float(known.min()), float(known.max())
    counts, edges = np.histogram(finite.numpy(), bins=BINS) if np.isfinite(largest - smallest) else _no_histogram()
    return TensorSummary(
        name=name,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        n_bytes=tensor.numel() * tensor.element_size(),
        norm=float(torch.linalg.vector_norm(known)),
        mean=float(known.mean()),
        deviation=float(known.std(correction=0)),
        smallest=smallest,
        largest=largest,
        n_not_finite=numbers.numel() - finite.numel(),
        dead=numbers.numel() > 1 and bool((numbers == numbers[0]).all()),
        counts=counts,
        edges=edges,
    )


def tied_groups(tensors: Mapping[str, Tensor]) -> tuple[tuple[str, ...], ...]:
    """Names that hold the same numbers in the same shape: one matrix in two places. All numbers alike do not count."""
    groups: dict[tuple[Shape, torch.dtype, str], list[str]] = defaultdict(list)
    for name, tensor in tensors.items():
        flat = tensor.detach().flatten()
        if flat.numel() > 1 and not bool((flat == flat[0]).all()):
            content = hashlib.sha256(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
            groups[tuple(tensor.shape), tensor.dtype, content].append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)


def _no_histogram() -> tuple[Int[np.ndarray, " bin"], Float[np.ndarray, " edge"]]:
    """Numbers so far apart that no bar can hold them."""
    return np.zeros(BINS, dtype=np.int64), np.linspace(0, 1, BINS + 1)


def _node(name: str, inside: list[tuple[list[str], TensorSummary]]) -> ModuleNode:
    modules: dict[str, list[tuple[list[str], TensorSummary]]] = defaultdict(list)
    for parts, tensor in inside:
        if len(parts) > 1:
            modules[parts[0]].append((parts[1:], tensor))
    return ModuleNode(
        name=name,
        n_parameters=sum(tensor.numel for _, tensor in inside),
        modules=tuple(_node(child, tensors) for child, tensors in modules.items()),
        tensors=tuple(tensor for parts, tensor in inside if len(parts) == 1),
    )
