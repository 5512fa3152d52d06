"""Looking into a checkpoint without running it: the tree of its modules, and each tensor in numbers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from transformer.checkpoint.inspect.statistics import TensorSummary, go_on, summary
from transformer.checkpoint.inspect.ties import tied_groups
from transformer.checkpoint.load import find_files, read
from transformer.messages import say
from transformer.safe.contents import Contents, shape_text
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits

__all__ = [
    "Inspection",
    "TensorSummary",
    "inspect",
    "inspect_contents",
    "summaries",
    "summary",
    "tied_groups",
]


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

    def lines(self) -> Iterator[str]:
        """The tree as text, a module or tensor a line: what stands before a dot holds what comes after it."""
        numbers, order = Counter[str](), dict[str, int]()
        for tensor in self.tensors:
            for module in ("", *_modules(tensor.name)):
                numbers[module] += tensor.numel
                order.setdefault(module, len(order))
        yield f"(checkpoint)  {numbers['']:,}"
        told = set[str]()
        for tensor in sorted(self.tensors, key=lambda one: [order[module] for module in _modules(one.name)]):
            modules = _modules(tensor.name)
            for depth, module in enumerate(modules, 1):
                if module not in told:
                    yield f"{'  ' * depth}{module.split('.')[-2]}  {numbers[module]:,}"
            told.update(modules)
            flags = "".join(f"  [{say(flag)}]" for flag in tensor.flags)
            about = f"{shape_text(tensor.shape)}  {tensor.dtype}  norm {tensor.norm:.4g}{flags}"
            yield f"{'  ' * (len(modules) + 1)}{tensor.name.rpartition('.')[2]}  {about}"

    @property
    def text(self) -> str:
        """The inspection in words."""
        size = f"{self.file_bytes:,} bytes, {len(self.tensors):,} tensors, {self.n_parameters:,} numbers"
        tied = [f"tied: {' = '.join(group)}" for group in self.tied]
        return "\n".join([f"{self.source} ({self.format}): {size}", *tied, *self.lines()])


def inspect(path: str | Path, limits: ReadLimits = DEFAULT_LIMITS) -> Inspection:
    """Look into the file or folder at `path`. Costs a few passes over its numbers.

    Raises:
        CheckpointError: it is missing, cannot be read, or is refused.
    """
    path = Path(path)
    return inspect_contents(read(path, limits), sum(file.stat().st_size for file in find_files(path).values()))


def inspect_contents(contents: Contents, file_bytes: int, between: Callable[[], None] = go_on) -> Inspection:
    """As `inspect`, for what was read already (an upload).

    `between` is called between slices of `statistics.SLICE` numbers; what it raises ends the work.
    """
    return Inspection(
        source=contents.source,
        format=contents.format,
        file_bytes=file_bytes,
        tensors=tuple(summaries(contents.tensors, between)),
        tied=tied_groups(contents.tensors, between),
    )


def summaries(tensors: Mapping[str, Tensor], between: Callable[[], None] = go_on) -> Iterator[TensorSummary]:
    """The tensors in numbers, one after the other, each worked out when it is asked for; `between` as above."""
    for name, tensor in tensors.items():
        yield summary(name, tensor, between)


def _modules(name: str) -> list[str]:
    """The modules that a tensor lies in, told from its name, the outermost first, each with a dot behind."""
    parts = name.split(".")[:-1]
    return [".".join([*parts[:count], ""]) for count in range(1, len(parts) + 1)]
