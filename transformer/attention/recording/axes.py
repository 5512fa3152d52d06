"""What the axes of a tensor come from.

An axis is a tuple of factors, each with its size and its origin; `(batch * head, query, d)` of a fused projection has
a first axis of two factors. That tells the heads of a written-out attention, and its keys from the experts of a router.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from math import prod
from typing import Any, NamedTuple, cast
from weakref import ref

from torch import Tensor, nn

from .paths import Paths


class Origin(Enum):
    """Where an axis comes from: a softmax itself, a parameter (features, heads, experts), copies, or what was read.

    SPREAD is an axis along which parameters are repeated: learned queries have one for each of the batch. In this
    order, what a later one says of an axis that two tensors share counts more.
    """

    SPREAD = auto()
    INPUT = auto()
    COPY = auto()
    PARAMETER = auto()
    KEY = auto()


class Factor(NamedTuple):
    """A part of an axis: its size, and where it comes from."""

    size: int
    origin: Origin = Origin.INPUT


AxisFactors = tuple[Factor, ...]
"""One axis, as factors whose sizes multiply to its length; empty for an axis of length 1."""

Axes = tuple[AxisFactors, ...]

MOST_ENTRIES = 4_096
"""So many tensors are remembered before those that are gone are forgotten."""

DEEPEST = 150
"""So many facts wait for one another before they are worked out: thousands of steps must not exhaust the stack."""


@dataclass(frozen=True, slots=True)
class Softmax:
    """A softmax whose result is followed: where it ran, and what is known of the axis it normalised.

    `projected` says that its scores' last product was with a parameter, which made that axis (a router of experts);
    `logged` that these are logarithms still (`log_softmax`); `picked` that its queries or keys were selected.
    `clean` is the result without dropout; `whole` with the column `sink` (0 or -1) that was cut off: an attention sink.
    """

    path: str = ""
    projected: bool = False
    logged: bool = False
    picked: bool = False
    clean: Tensor | None = None
    whole: Tensor | None = None
    sink: int = -1

    def moved(self, again: Callable[[Tensor], Tensor] | None) -> "Softmax":
        """The same with what is kept of it moved as its result was; without `again`, nothing is kept."""
        clean, whole = (None if one is None or again is None else again(one) for one in (self.clean, self.whole))
        return replace(self, clean=clean, whole=whole)


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one tensor: its axes, whether it is made of parameters alone, and the softmax it comes from.

    `dotted` scores are a product of two tensors of which neither is a parameter, or both: latents that look at one
    another. `sides` are those of an element-wise product that a sum may turn into a mixture of values. `picked` says
    that positions were selected by a table of indices.
    """

    axes: Axes
    parameter: bool = False
    dotted: bool = False
    softmax: Softmax | None = None
    picked: bool = False
    sides: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    @property
    def key_axis(self) -> int | None:
        """Which axis the softmax normalised; None where it is no longer an axis by itself."""
        found = [i for i, axis in enumerate(self.axes) if any(part.origin is Origin.KEY for part in axis)]
        return found[0] if len(found) == 1 and len(self.axes[found[0]]) == 1 else None

    def without_softmax(self) -> "Fact":
        """The axes alone."""
        if self.softmax is None and self.sides is None:
            return self
        plain = tuple(tuple(Factor(p.size) if p.origin is Origin.KEY else p for p in axis) for axis in self.axes)
        return replace(self, axes=plain, softmax=None, sides=None)


class LazyFact:
    """A fact that is worked out when somebody asks for it: most tensors are never asked about.

    Facts of a softmax's result are worked out at once. `made_by` tells tensors of several projections, or several parts
    of one tensor, from one another. `depth` is how many entries wait for one another to be worked out.
    """

    __slots__ = ("_fact", "_make", "depth", "made_by", "of_softmax")

    def __init__(
        self,
        fact: Fact | None = None,
        make: Callable[[], Fact] | None = None,
        made_by: object = None,
        depth: int = 0,
    ) -> None:
        self._fact, self._make, self.made_by, self.depth = fact, make, made_by, depth
        self.of_softmax = fact is not None and (fact.softmax is not None or fact.sides is not None)
        if depth >= DEEPEST:
            self.fact  # noqa: B018 - works it out

    @property
    def fact(self) -> Fact:
        """What is known."""
        if self._make is not None:
            self._fact = self._make()
            self._make, self.depth = None, 0
        return cast(Fact, self._fact)


class Facts:
    """What is known of the tensors that live; buffers count as parameters. `paths` say where the run is.

    `softmaxes` are the paths of those of what was read.
    """

    def __init__(self, paths: Paths) -> None:
        self.paths, self._most, self.softmaxes = paths, MOST_ENTRIES, dict[str, None]()
        self.entries = {id(one): (ref(one), LazyFact(of_shape(one.shape, Origin.PARAMETER))) for one in paths.buffers}

    def entry(self, tensor: Any) -> LazyFact | None:
        """What is known of a tensor, not worked out yet; None where nothing is."""
        found = self.entries.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        if type(tensor) is Tensor or not isinstance(tensor, nn.Parameter):
            return None
        return LazyFact(of_shape(tensor.shape, Origin.PARAMETER))

    def of_softmax(self, tensor: Any) -> Fact | None:
        """What is known of a softmax's result, or a product with one; None of every other tensor."""
        entry = self.entry(tensor)
        return entry.fact if entry is not None and entry.of_softmax else None

    def of(self, tensor: Tensor) -> Fact:
        """What is known of a tensor, or assumed: it comes from the input."""
        entry = self.entry(tensor)
        return of_shape(tensor.shape) if entry is None else entry.fact

    def note(self, tensor: Tensor, fact: Fact) -> None:
        """Remember a fact as long as its tensor lives."""
        if len(fact.axes) == tensor.dim():
            self.keep(tensor, LazyFact(fact))

    def follow(
        self,
        result: Tensor,
        make: Callable[..., Fact],
        tensors: Sequence[Tensor],
        *options: Any,
        made_by: object = None,
    ) -> None:
        """Remember a result of some tensors: `make` tells its fact of theirs and of what is `options`.

        A run works out few facts, so that waits until somebody asks, but for a softmax's result. `options` holds no
        tensor then.
        """
        entries, depth, at_once = [self.entry(one) for one in tensors], 0, False
        for entry in entries:
            if entry is not None:
                at_once, depth = at_once or entry.of_softmax, max(depth, entry.depth)
        if at_once:
            self.note(result, make([self.of(one) for one in tensors], *options))
            return
        make = partial(_worked_out, make, entries, [one.shape for one in tensors], options)
        self.keep(result, LazyFact(None, make, made_by, depth + 1))

    def keep(self, tensor: Tensor, entry: LazyFact) -> None:
        """Remember an entry as long as its tensor lives."""
        self.entries[id(tensor)] = ref(tensor), entry
        if len(self.entries) > self._most:
            for key in [key for key, each in self.entries.items() if each[0]() is None]:
                del self.entries[key]
            self._most = MOST_ENTRIES + len(self.entries)


def _worked_out(
    make: Callable[..., Fact], entries: list[LazyFact | None], shapes: list[Sequence[int]], options: tuple[Any, ...]
) -> Fact:
    given = [of_shape(shape) if entry is None else entry.fact for entry, shape in zip(entries, shapes, strict=True)]
    return make(given, *options)


def of_shape(shape: Sequence[int], origin: Origin = Origin.INPUT) -> Fact:
    """What is assumed of a tensor of a shape."""
    return Fact(tuple(axis_of(size, origin) for size in shape), parameter=origin is Origin.PARAMETER)


def axis_of(size: int, origin: Origin = Origin.INPUT) -> AxisFactors:
    """An axis of one factor."""
    return () if size == 1 else (Factor(size, origin),)


def is_made(axis: AxisFactors) -> bool:
    """Whether parameters alone made an axis."""
    return bool(axis) and all(part.origin is Origin.PARAMETER for part in axis)


def length(axis: AxisFactors) -> int:
    """Positions of an axis."""
    return prod(part.size for part in axis)


def viewed(
    entry: LazyFact,
    before: Sequence[int] | None,
    shape: Sequence[int],
    strides: Sequence[int],
    again: Callable[[Tensor], Tensor] | None = None,
) -> Fact:
    """What is known of a view of a tensor, by the strides of both; the tensor's are None where numbers lie in order.

    An axis that is repeated without a copy (its stride is 0) holds copies; one that no factors make up is unknown.
    `again` is the view of what is kept of a softmax.
    """
    fact, step = entry.fact, 1
    spans: dict[int, tuple[int, Factor]] = {}  # of each factor, by its stride: the stride at which it ends
    for place in range(len(fact.axes) - 1, -1, -1):
        step = step if before is None else before[place]
        for part in reversed(fact.axes[place]):
            spans[step] = step * part.size, part
            step *= part.size
    axes = []
    for size, stride in zip(shape, strides, strict=True):
        axis: AxisFactors = ()
        if size > 1 and not stride:
            axis = (Factor(size, Origin.SPREAD if fact.parameter else Origin.COPY),)
        elif size > 1:
            end, part = spans.get(stride, (0, Factor(0)))
            axis = (part,) if end == stride * size else _of_spans(size, stride, spans)
        axes.append(axis)
    softmax = None if fact.softmax is None else fact.softmax.moved(again)
    return Fact(tuple(axes), fact.parameter, fact.dotted, softmax, fact.picked)


def _of_spans(size: int, stride: int, spans: Mapping[int, tuple[int, Factor]]) -> AxisFactors:
    """An axis that is a part of a factor, or several of them; unknown where it is neither."""
    left, group = size, list[Factor]()
    while left > 1:
        end, part = next((one for begin, one in spans.items() if begin <= stride < one[0]), (stride * left, Factor(0)))
        most = min(left, -(-end // stride))
        if left % most:
            return (Factor(size),)
        group.insert(0, Factor(most, part.origin))
        left, stride = left // most, end
    return tuple(group)


def merged(axes: Iterable[AxisFactors]) -> AxisFactors:
    """An axis that tensors of a product share: divided as finely as in any of them, each factor of its best origin."""
    axes = [axis for axis in axes if axis]
    finest = [part.size for part in max(axes, key=len, default=())]
    alike = [axis for axis in axes if [part.size for part in axis] == finest]
    return tuple(max(parts, key=lambda part: part.origin.value) for parts in zip(*alike, strict=True))


def broadcast(facts: Sequence[Fact], shape: Sequence[int]) -> Axes:
    """The axes of an element-wise function of several tensors: a parameter's only where it is every operand's."""
    found: list[AxisFactors] = []
    for place in range(-len(shape), 0):
        parts = [fact.axes[place] for fact in facts if len(fact.axes) >= -place and fact.axes[place]]
        keys = [part for part in parts if any(one.origin is Origin.KEY for one in part)]
        finest = max(parts, key=len, default=())
        if keys:
            finest = keys[0]
        elif len(parts) > 1 and all(len(part) == len(finest) for part in parts):
            finest = tuple(map(_of_all, zip(*parts, strict=True)))
        found.append(finest if length(finest) == shape[place] else axis_of(shape[place]))
    return tuple(found)


def _of_all(several: Sequence[Factor]) -> Factor:
    """A factor of an element-wise result: what its operands agree on, of which repeated parameters have no say."""
    origins = {part.origin for part in several} - {Origin.SPREAD} or {Origin.SPREAD}
    return Factor(several[0].size, origins.pop() if len(origins) == 1 else Origin.INPUT)
