"""Products of two tensors: what their axes come from, and which are batch, head, query and key."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import NamedTuple, cast

from torch import Tensor

from .axes import AxisFactors, Fact, Factor, Origin, axis_of, is_made, length, merged

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


def product_fact(given: Sequence[Fact], labels: Labels) -> Fact:
    """What a product's axes come from; a softmax's result stays one where its heads are mixed with one another."""
    one, other = given
    dotted = one.parameter == other.parameter
    sides = [dict(zip(labels[i], fact.axes, strict=False)) for i, fact in enumerate((one, other))]
    axes = [merged(side.get(label, ()) for side in sides) for label in labels[2]]
    found = Fact(tuple(axes), one.parameter and other.parameter, dotted, picked=one.picked or other.picked)
    carried = next((each.softmax for each in (one, other) if each.softmax is not None), None)
    if carried is not None and found.key_axis is not None and not dotted:
        return replace(found, softmax=carried.moved(None))
    return found


def fused_fact(given: Sequence[Fact], shape: Sequence[int]) -> Fact:
    """What the axes of fused attention's result come from: rows of queries, features of values, all else of both."""
    queries, values = (((),) * (len(shape) - len(fact.axes)) + fact.axes for fact in given)
    found = [merged(both) for both in zip(queries[:-2], values[:-2], strict=True)]
    axes = (*found, queries[-2], values[-1])
    axes = tuple(axis if length(axis) == n else axis_of(n) for axis, n in zip(axes, shape, strict=True))
    return Fact(axes, all(fact.parameter for fact in given))


def projection_fact(given: Sequence[Fact], size: int) -> Fact:
    """What a projection by a parameter makes: its last axis is the parameter's. One over heads leaves weights such."""
    before, features = given[0], axis_of(size, Origin.PARAMETER)
    if before.softmax is not None and before.key_axis not in (None, len(before.axes) - 1):
        return replace(before, axes=(*before.axes[:-1], features), softmax=before.softmax.moved(None))
    return Fact((*before.without_softmax().axes[:-1], features), before.parameter)


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
    `is_guessed`: nothing tells that the heads are heads.
    """

    weights: Layout
    output: Layout | None
    values: Layout | None = None
    is_guessed: bool = False


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
            parts[label] = merged((of_mine[label], theirs))
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
    is_guessed = len(batch) > 1 and not head and not any(map(is_made, values.axes))
    if is_guessed:
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
    return Mixture(of_weights, output, mixed, is_guessed)


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
