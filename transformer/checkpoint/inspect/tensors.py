"""Looking into a checkpoint without running it: the tree of its modules, and each tensor in numbers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
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
    "ModuleNode",
    "TensorSummary",
    "inspect",
    "inspect_contents",
    "summaries",
    "summary",
    "tied_groups",
]


@dataclass(frozen=True, eq=False)
class ModuleNode:
    """One module of the tree, told from names: what stands before a dot holds what comes after it."""

    name: str
    n_parameters: int
    modules: tuple["ModuleNode", ...]
    tensors: tuple[TensorSummary, ...]

    def lines(self) -> Iterator[str]:
        """The tree as text, a module or tensor a line."""
        waiting: list[tuple[ModuleNode, int]] = [(self, 0)]
        while waiting:
            node, depth = waiting.pop()
            yield f"{'  ' * depth}{node.name or '(checkpoint)'}  {node.n_parameters:,}"
            for tensor in node.tensors:
                shape = shape_text(tensor.shape)
                flags = "".join(f"  [{say(flag)}]" for flag in tensor.flags)
                last = tensor.name.rpartition(".")[2]
                yield f"{'  ' * (depth + 1)}{last}  {shape}  {tensor.dtype}  norm {tensor.norm:.4g}{flags}"
            waiting.extend((module, depth + 1) for module in reversed(node.modules))


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
        return _tree(self.tensors)

    @property
    def text(self) -> str:
        """The inspection in words."""
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


@dataclass(eq=False, slots=True)
class _Module:
    """A module while the tree grows: its parent's place in the list of all, and what lies in it."""

    name: str
    parent: int
    n_parameters: int
    tensors: list[TensorSummary]
    modules: list[ModuleNode]


def _tree(tensors: tuple[TensorSummary, ...]) -> ModuleNode:
    """The tree of modules. Takes room for each module once, and no recursion, however the names are nested."""
    grown = [_Module("", -1, 0, [], [])]
    places: dict[tuple[int, str], int] = {}  # (parent, name) -> place
    for tensor in tensors:
        here = 0
        grown[here].n_parameters += tensor.numel
        for part in tensor.name.split(".")[:-1]:
            step = (here, part)
            here = places.setdefault(step, len(grown))
            if here == len(grown):
                grown.append(_Module(part, step[0], 0, [], []))
            grown[here].n_parameters += tensor.numel
        grown[here].tensors.append(tensor)
    for module in reversed(grown):  # a module stands behind its parent, so its own modules are whole by now
        module.modules.reverse()
        node = ModuleNode(module.name, module.n_parameters, tuple(module.modules), tuple(module.tensors))
        if module.parent >= 0:
            grown[module.parent].modules.append(node)
    return node
