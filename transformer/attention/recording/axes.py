"""What the axes of a tensor come from, and which of a product's are batch, head, query and key.

An axis is a tuple of factors, each with its size and its origin; `(batch * head, query, d)` of a fused projection has
a first axis of two factors. That tells the heads of a written-out attention, and its keys from the experts of a router.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple, cast
from weakref import ref

from torch import Tensor, nn

from transformer.attention.recording.paths import Paths


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

Axes = tuple[AxisFactors, ...]

MOST_ENTRIES = 4_096
"""So many tensors are remembered before those that are gone are forgotten."""

DEEPEST = 150
"""So many facts wait for one another before they are worked out: thousands of steps must not exhaust the stack."""


@dataclass(frozen=True, slots=True)
class Softmax:
    """A softmax whose result is followed: where it ran, and what is known of the axis it normalised.

    `projected` says that its scores' last product was with a parameter, which made that axis (a router of experts);
    `logged` that these are logarithms still (`log_softmax`).
    `clean` is the result without dropout; `whole` with the column `sink` (0 or -1) that was cut
    off again: an attention sink.
    """

    path: str = ""
    projected: bool = False
    logged: bool = False
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

    `dotted` scores are a product of two tensors of which neither is a parameter. `sides` are those of an
    element-wise product that a sum may turn into a mixture of values.
    """

    axes: Axes
    parameter: bool = False
    dotted: bool = False
    softmax: Softmax | None = None
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
    """What is known of the tensors that live; buffers count as parameters. `paths` say where the run is."""

    def __init__(self, paths: Paths) -> None:
        self.paths, self._most = paths, MOST_ENTRIES
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
            axis = (Factor(size, Origin.PARAMETER if fact.parameter else Origin.COPY),)
        elif size > 1:
            end, part = spans.get(stride, (0, Factor(0)))
            axis = (part,) if end == stride * size else _of_spans(size, stride, spans)
        axes.append(axis)
    return Fact(tuple(axes), fact.parameter, fact.dotted, None if fact.softmax is None else fact.softmax.moved(again))


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
            finest = tuple(
                Factor(several[0].size, Origin.PARAMETER if is_made(several) else Origin.INPUT)
                for several in zip(*parts, strict=True)
            )
        found.append(finest if length(finest) == shape[place] else axis_of(shape[place]))
    return tuple(found)


Labels = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The axes of two factors and of their product, by label: an axis that two of them share has one label."""


@lru_cache(64)
def matmul_labels(n_left: int, n_right: int) -> Labels:
    """The labels of `left @ right`."""
    row, column = "i" * (n_left > 1), "k" * (n_right > 1)
    return cast(Labels, einsum_labels(f"...{row}j,...j{column}->...{row}{column}", n_left, n_right))


def einsum_labels(equation: str, n_left: int, n_right: int) -> Labels | None:
    """The labels of an einsum of two tensors; None where it has more of them, or a diagonal.

    Letters are labelled by their numbers; axes that `...` stands for are negative, counted from the right.
    """
    given, arrow, result = equation.replace(" ", "").partition("->")
    if given.count(",") != 1:
        return None
    terms = given.split(",")
    more = [n - len(term.replace("...", "")) for term, n in zip(terms, (n_left, n_right), strict=True)]

    def spelled(term: str, n_dots: int) -> tuple[int, ...]:
        before, dots, after = term.partition("...")
        return (*map(ord, before), *(range(-n_dots, 0) if dots else ()), *map(ord, after))

    left, right = (spelled(term, n) for term, n in zip(terms, more, strict=True))
    if any(len(set(side)) < len(side) for side in (left, right)):
        return None
    if not arrow:
        result = "..." + "".join(chr(label) for label in sorted(set(left) ^ set(right)) if label >= 0)
    return left, right, spelled(result, max(more))


@dataclass(frozen=True)
class Layout:
    """How a tensor becomes (batch, head, query, last), and back: its factors, their new order, the four sizes."""

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def arranged(self, tensor: Tensor) -> Tensor:
        """The tensor as (batch, head, query, key), or (batch, head, query, d_v) of what the heads give on."""
        return tensor.reshape(self.sizes).permute(self.order).reshape(self.shape)

    def wider(self) -> "Layout":
        """The same with one key more."""
        sizes = tuple(size + (i == self.order[-1]) for i, size in enumerate(self.sizes))
        return Layout(sizes, self.order, (*self.shape[:3], self.shape[3] + 1))

    def restored(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """A tensor of four axes in the original's shape."""
        spread = tensor.reshape([self.sizes[place] for place in self.order])
        back = [self.order.index(place) for place in range(len(self.order))]
        return spread.permute(back).reshape(tuple(shape))


class Mixture(NamedTuple):
    """The layouts of the weights, and of what they make; None for the latter where heads are summed over in it.

    `values` is that of the mixed values (batch, head, key, d_v) with the keys as their first axis, where they have one.
    """

    weights: Layout
    output: Layout | None
    values: Layout | None = None


Place = tuple[int, int]
"""A factor: the label of its axis, and its number there."""


def mixture(labels: Labels, weights: Fact, values: Fact, sizes: tuple[Sequence[int], Sequence[int]]) -> Mixture | None:
    """The layout of a product that mixes values by weights; None where it does not: keys are no axis that is summed.

    `sizes` are the shapes of weights and values, whose axes of length 1 are the other side's own.
    """
    here, there, out = labels
    at = weights.key_axis
    if at is None:
        return None
    key, of_mine = here[at], dict(zip(here, weights.axes, strict=True))
    of_theirs = dict(zip(there, values.axes, strict=True))
    wide = {label for label, size in zip(there, sizes[1], strict=True) if size > 1 or label not in here}
    narrow = {label for label, size in zip(here, sizes[0], strict=True) if size == 1 and label in wide}
    own = [label for label in there if label != key and (label not in here or label in narrow)]
    if key in out or key not in there or not own:
        return None
    batch, head, query, rows = list[Place](), list[Place](), list[Place](), list[Place]()
    parts: dict[int, AxisFactors] = {key: of_mine[key]}
    mine_alone = [label for label in here if label not in narrow]
    for label in mine_alone:
        if label != key:
            theirs = of_theirs.get(label, ())
            parts[label] = max((of_mine[label], theirs), key=detail)
            for i, part in enumerate(parts[label]):
                (rows if not theirs else head if _is_head(part, parts[label]) else batch).append((label, i))
    # Of axes that values lack, the last is the queries; heads that share values, and a batch that does, come before it.
    made = [(label, i) for label, i in rows if _is_head(parts[label][i], parts[label])]
    others = [place for place in rows if place not in made]
    if not others:
        made, others = made[:-1], made[-1:]
    if len(others) > 1 and not batch:
        batch.append(others.pop(0))
    head += made
    query += others
    if len(batch) > 1 and not head and not any(map(is_made, values.axes)):
        head = [batch.pop()]  # of axes of unknown origin that queries share with keys, the last
    of_values = {label: tuple(Factor(part.size) for part in of_theirs[label]) for label in own}
    last = _places(own, of_values)
    of_weights = _layout(_places(mine_alone, parts), parts, batch, head, query, [(key, 0)])
    output, mixed, whole = None, None, parts | of_values
    flat = _places(out, whole)
    if {*batch, *head, *query} <= set(flat):
        output = _layout(flat, whole, batch, head, query, [place for place in flat if place in last])
    carried = {label: axis and parts[label] for label, axis in of_theirs.items() if label in parts} | of_values
    if not any(carried.get(label) for label, _ in query):  # else each query has values of its own
        order = (key, *(label for label in there if label != key))
        mixed = _layout(_places(order, carried), carried, batch, head, [(key, 0)], last)
    return Mixture(of_weights, output, mixed)


def _places(order: Iterable[int], of: Mapping[int, AxisFactors]) -> list[Place]:
    return [(label, i) for label in order for i in range(len(of.get(label, ())))]


def _is_head(part: Factor, axis: AxisFactors) -> bool:
    """Whether a part of an axis counts heads: a parameter made it, or it holds copies of what one made."""
    made = any(one.origin is Origin.PARAMETER for one in axis)
    return part.origin is Origin.PARAMETER or (part.origin is Origin.COPY and made)


def _layout(flat: list[Place], parts: Mapping[int, AxisFactors], *groups: Sequence[Place]) -> Layout:
    """The layout of a tensor of these factors whose four axes are the groups, as far as they are there."""
    sizes = tuple(parts[label][i].size for label, i in flat)
    axes = [[flat.index(place) for place in group if place in flat] for group in groups]
    order = tuple(place for group in axes for place in group)
    return Layout(sizes, order, tuple(prod(sizes[place] for place in group) for group in axes))


def detail(axis: AxisFactors) -> tuple[int, bool]:
    """How much is known of an axis."""
    return len(axis), any(part.origin is not Origin.INPUT for part in axis)
