"""What the axes of a tensor come from, followed through views, products and element-wise functions.

An axis is a tuple of factors, each with its size and its origin; `(batch * head, query, d)` of a fused projection has
a first axis of two factors. That tells the heads of a written-out attention, and its keys from the experts of a router.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, NamedTuple
from weakref import ref

from torch import Tensor, nn


class Origin(Enum):
    """Where an axis comes from: what was read, a parameter (features, heads, experts), a copy, or a softmax itself."""

    INPUT = auto()
    PARAMETER = auto()
    COPY = auto()
    KEY = auto()


class Factor(NamedTuple):
    """A part of an axis: its size, and where it comes from."""

    size: int
    origin: Origin = Origin.INPUT


AxisFactors = tuple[Factor, ...]
"""One axis, as factors whose sizes multiply to its length; empty for an axis of length 1."""


MOST_ENTRIES = 4_096
"""So many tensors are remembered before those that are gone are forgotten."""

DEEPEST = 150
"""So many facts wait for one another before they are worked out: thousands of steps must not exhaust the stack."""


@dataclass(frozen=True, slots=True)
class Softmax:
    """A softmax whose result is followed: where it ran, and what is known of the axis it normalised.

    `projected` says that its scores' last product was with a parameter, which made that axis (a router of experts);
    `logged` that these are logarithms still (`log_softmax`).
    `clean` is the result without dropout; `whole` with the columns that were cut off again (attention sinks).
    """

    path: str
    projected: bool
    logged: bool = False
    clean: Tensor | None = None
    whole: Tensor | None = None
    sink_first: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one tensor: its axes, whether it is made of parameters alone, and the softmax it comes from.

    `dotted` scores are a product of two tensors of which neither is a parameter. `factors` are the two sides of an
    element-wise product that a sum may turn into a mixture of values.
    """

    axes: tuple[AxisFactors, ...]
    parameter: bool = False
    dotted: bool = False
    softmax: Softmax | None = None
    sides: tuple[Tensor, "Fact", Tensor, "Fact"] | None = field(default=None, repr=False)

    @property
    def key_axis(self) -> int | None:
        """Which axis the softmax normalised; None where it is no longer an axis by itself."""
        found = [i for i, axis in enumerate(self.axes) if any(part.origin is Origin.KEY for part in axis)]
        return found[0] if len(found) == 1 and len(self.axes[found[0]]) == 1 else None

    def without_softmax(self) -> "Fact":
        """The axes alone."""
        if self.softmax is None and self.sides is None:
            return self
        plain = tuple(tuple(_no_key(part) for part in axis) for axis in self.axes)
        return replace(self, axes=plain, softmax=None, sides=None)


class Entry:
    """A fact that is worked out when somebody asks for it: most tensors are never asked about.

    Facts of a softmax's result are worked out at once. `made_by` tells tensors of several projections, or several parts
    of one tensor, from one another. `depth` is how many entries wait for one another to be worked out.
    """

    __slots__ = ("_fact", "_given", "_make", "depth", "made_by", "of_softmax")

    def __init__(
        self,
        fact: Fact | None = None,
        make: Callable[..., Fact | None] | None = None,
        given: tuple[Any, ...] = (),
        made_by: object = None,
        depth: int = 0,
    ) -> None:
        self._fact, self._make, self._given, self.made_by, self.depth = fact, make, given, made_by, depth
        self.of_softmax = fact is not None and (fact.softmax is not None or fact.sides is not None)

    @property
    def fact(self) -> Fact | None:
        """What is known; None where it cannot be told."""
        if self._make is not None:
            self._fact = self._make(*self._given)
            self._make, self._given, self.depth = None, (), 0
        return self._fact


def pending(depth: int, make: Callable[..., Fact | None], *given: Any, made_by: object = None) -> Entry:
    """A fact that waits: `make` works it out from what holds no tensor; `depth` is that of the entries in `given`."""
    entry = Entry(None, make, given, made_by, depth + 1)
    return entry if depth < DEEPEST else Entry(entry.fact, made_by=made_by)


class Facts:
    """What is known of the tensors that live; `constants` are buffers, which count as parameters.

    `maker` gives the path of the module of a list (`experts.3`) that made a tensor.
    """

    def __init__(self, constants: Iterable[Tensor], maker: Callable[[Tensor], str | None]) -> None:
        self.maker = maker
        self.entries = {id(one): (ref(one), Entry(parameter(one))) for one in constants}
        self._most = MOST_ENTRIES

    def entry(self, tensor: Any) -> Entry | None:
        """What is known of a tensor, not worked out yet; None where nothing is."""
        found = self.entries.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        if type(tensor) is Tensor or not isinstance(tensor, nn.Parameter):
            return None
        return Entry(parameter(tensor))

    def known(self, tensor: Any) -> Fact | None:
        """What is known of a tensor; None where nothing is."""
        entry = self.entry(tensor)
        return None if entry is None else entry.fact

    def of(self, tensor: Tensor) -> Fact:
        """What is known or assumed of a tensor."""
        return self.known(tensor) or plain(tensor)

    def note(self, tensor: Any, fact: Fact) -> Any:
        """Remember a fact as long as its tensor lives; gives the tensor."""
        return (
            self.keep(tensor, Entry(fact)) if isinstance(tensor, Tensor) and len(fact.axes) == tensor.dim() else tensor
        )

    def later(
        self, tensor: Tensor, depth: int, make: Callable[..., Fact | None], *given: Any, made_by: object = None
    ) -> Tensor:
        """Remember how a fact is worked out, from what holds no tensor; gives the tensor.

        `depth` is that of the entries in `given`. A run works out few facts, so this does as little as it can.
        """
        return self.keep(tensor, pending(depth, make, *given, made_by=made_by))

    def forget(self, tensor: Tensor) -> None:
        """What was known of a tensor holds no more: it was written to."""
        self.entries.pop(id(tensor), None)

    def keep(self, tensor: Tensor, entry: Entry) -> Tensor:
        """Remember an entry as long as its tensor lives; gives the tensor."""
        self.entries[id(tensor)] = ref(tensor), entry
        if len(self.entries) > self._most:
            self.tidy()
        return tensor

    def tidy(self) -> None:
        """Forget tensors that are gone."""
        gone = [key for key, each in self.entries.items() if each[0]() is None]
        for key in gone:
            del self.entries[key]
        self._most = MOST_ENTRIES + len(self.entries)


def plain(tensor: Tensor) -> Fact:
    """What is assumed of a tensor that nothing is known of: it comes from the input."""
    return of_shape(tensor.shape)


def of_shape(shape: Sequence[int]) -> Fact:
    """What is assumed of a tensor of a shape."""
    return Fact(tuple(axis_of(size) for size in shape))


def parameter(tensor: Tensor) -> Fact:
    """A parameter, or a buffer."""
    return Fact(tuple(axis_of(size, Origin.PARAMETER) for size in tensor.shape), parameter=True)


def axis_of(size: int, origin: Origin = Origin.INPUT) -> AxisFactors:
    """An axis of one factor."""
    return () if size == 1 else (Factor(size, origin),)


def is_made(axis: AxisFactors) -> bool:
    """Whether parameters alone made an axis."""
    return bool(axis) and all(part.origin is Origin.PARAMETER for part in axis)


def length(axis: AxisFactors) -> int:
    """Positions of an axis."""
    found = 1
    for part in axis:
        found *= part.size
    return found


def regrouped(axes: Sequence[AxisFactors], shape: Sequence[int]) -> tuple[AxisFactors, ...] | None:
    """The axes after a reshape; None where the new sizes cut through factors."""
    left = [part for axis in axes for part in axis]
    found = []
    for wanted in shape:
        size, group = wanted, list[Factor]()
        while size > 1:
            if not left:
                return None
            part = left.pop(0)
            if size % part.size == 0:
                group.append(part)
                size //= part.size
            elif part.size % size == 0 and part.origin is not Origin.KEY:
                group.append(Factor(size, part.origin))
                left.insert(0, Factor(part.size // size, part.origin))
                size = 1
            else:
                return None
        found.append(tuple(group))
    return tuple(found) if not left else None


def broadcast(facts: Sequence[Fact], shape: Sequence[int]) -> tuple[AxisFactors, ...]:
    """The axes of an element-wise function of several tensors: a parameter's only where it is every operand's."""
    found: list[AxisFactors] = []
    for place in range(-len(shape), 0):
        parts = [fact.axes[place] for fact in facts if len(fact.axes) >= -place and fact.axes[place]]
        keys = [part for part in parts if any(one.origin is Origin.KEY for one in part)]
        finest = max(parts, key=len, default=())
        if keys:
            finest = keys[0]
        elif len(parts) > 1 and all(len(part) == len(finest) for part in parts):
            finest = tuple(_weakest(several) for several in zip(*parts, strict=True))
        found.append(finest if length(finest) == shape[place] else axis_of(shape[place]))
    return tuple(found)


def _weakest(parts: Sequence[Factor]) -> Factor:
    """One factor of several operands: made by a parameter only if it is so in all of them."""
    origin = Origin.PARAMETER if all(part.origin is Origin.PARAMETER for part in parts) else Origin.INPUT
    return Factor(parts[0].size, origin)


def _no_key(part: Factor) -> Factor:
    return Factor(part.size) if part.origin is Origin.KEY else part
