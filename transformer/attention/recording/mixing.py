"""Which axes of a product are batch, head, query and key: the layout of a written-out attention."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from torch import Tensor

from transformer.attention.recording.axes import AxisFactors, Fact, Factor, Origin, is_made, length

Labels = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The axes of two factors and of their product, by label: an axis that two of them share has one label."""


def matmul_labels(n_left: int, n_right: int) -> Labels:
    """The labels of `left @ right`."""
    new = count(1)
    key = 0
    left, right = ([next(new)] if n_left > 1 else []), ([next(new)] if n_right > 1 else [])
    shared = [next(new) for _ in range(max(n_left, n_right) - 2)]
    first = (*shared[len(shared) - max(0, n_left - 2) :], *left, key)
    second = (*shared[len(shared) - max(0, n_right - 2) :], key, *right)
    return first, second, (*shared, *left, *right)


def einsum_labels(equation: str, n_left: int, n_right: int) -> Labels | None:
    """The labels of an einsum of two tensors; None where it has more of them, or a diagonal."""
    given, arrow, told = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if len(terms) != 2:
        return None
    rest = max(n_left - len(terms[0].replace("...", "")), n_right - len(terms[1].replace("...", "")), 0)
    sides = [_spelled(term, n, rest) for term, n in zip(terms, (n_left, n_right), strict=True)]
    if arrow:
        out = _spelled(told, len(told.replace("...", "")) + rest * ("..." in told), rest)
    else:
        letters = sorted(label for label in set(sides[0]) ^ set(sides[1]) if label >= 0)
        out = (*range(-rest, 0), *letters)
    if any(len(set(side)) < len(side) for side in sides):
        return None
    return sides[0], sides[1], out


def broadcast_labels(left: Sequence[int], right: Sequence[int], axes: Sequence[int]) -> Labels:
    """The labels of `(left * right).sum(axes)` from the two shapes; an axis that one side lacks is the other's own."""
    n = max(len(left), len(right))
    whole = tuple(range(n))
    one = tuple(i for i in whole if i >= n - len(left))
    other = tuple(i for i in whole if i >= n - len(right))
    return one, other, tuple(i for i in whole if i not in axes)


def product_axes(labels: Labels, left: Fact, right: Fact) -> tuple[AxisFactors, ...]:
    """The axes of a product."""
    found = []
    for label in labels[2]:
        parts = [
            fact.axes[side.index(label)]
            for side, fact in zip(labels[:2], (left, right), strict=True)
            if label in side and fact.axes[side.index(label)]
        ]
        found.append(max(parts, key=_detail, default=()))
    return tuple(found)


@dataclass(frozen=True)
class Layout:
    """How a tensor becomes (batch, head, query, last), and back: its factors, their new order, the four sizes."""

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, int, int, int]

    def arranged(self, tensor: Tensor) -> Tensor:
        """The tensor as (batch, head, query, key), or (batch, head, query, d_v) of what the heads give on."""
        return tensor.reshape(self.sizes).permute(self.order).reshape(self.shape)

    def wider(self) -> "Layout":
        """The same with one key more."""
        key = self.order[-1]
        sizes = (*self.sizes[:key], self.sizes[key] + 1, *self.sizes[key + 1 :])
        return Layout(sizes, self.order, (*self.shape[:3], self.shape[3] + 1))

    def restored(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """A tensor of four axes in the original's shape."""
        spread = tensor.reshape([self.sizes[place] for place in self.order])
        back = [self.order.index(place) for place in range(len(self.order))]
        return spread.permute(back).reshape(tuple(shape))


@dataclass(frozen=True)
class Mixture:
    """The layouts of the weights, and of what they make; None for the latter where heads are summed over in it.

    `values` is that of the mixed values (batch, head, key, d_v) with the keys as their first axis, where they have one.
    """

    weights: Layout
    output: Layout | None
    values: Layout | None = None


def mixture(labels: Labels, weights: Fact, values: Fact, sizes: tuple[Sequence[int], Sequence[int]]) -> Mixture | None:
    """The layout of a product that mixes values by weights; None where it does not: keys are no axis that is summed.

    `sizes` are the shapes of weights and values, whose axes of length 1 are the other side's own.
    """
    here, there, out = labels
    place = weights.key_axis
    if place is None:
        return None
    key = here[place]
    own = {label for label, size in zip(there, sizes[1], strict=True) if size > 1 or label not in here}
    narrow = {label for label, size in zip(here, sizes[0], strict=True) if size == 1 and label in own}
    if (
        key in out
        or key not in there
        or not [label for label in there if (label != key and label not in here) or label in narrow]
    ):
        return None
    groups: dict[str, list[tuple[int, int]]] = {"batch": [], "head": [], "query": [], "key": [(key, 0)]}
    pieces: dict[int, AxisFactors] = {key: weights.axes[place]}
    rows: list[tuple[int, int]] = []
    for label in here:
        if label == key or label in narrow:
            continue
        mine = weights.axes[here.index(label)]
        theirs = values.axes[there.index(label)] if label in there else ()
        pieces[label] = max((mine, theirs), key=_detail)
        for i, part in enumerate(pieces[label]):
            if not theirs:
                rows.append((label, i))
            else:
                groups["head" if _is_head(part, pieces[label]) else "batch"].append((label, i))
    _rows(groups, pieces, rows)
    _settle(groups, pieces, any(is_made(axis) for axis in values.axes))
    output = _output(labels, groups, pieces, values, narrow)
    mixed = _mixed(labels, groups, pieces, values, narrow)
    return Mixture(_layout(here, groups, pieces, narrow, ("batch", "head", "query", "key")), output, mixed)


def _is_head(part: Factor, axis: AxisFactors) -> bool:
    """Whether a part of an axis counts heads: a parameter made it, or it holds copies of what one made."""
    made = any(one.origin is Origin.PARAMETER for one in axis)
    return part.origin is Origin.PARAMETER or (part.origin is Origin.COPY and made)


def _rows(
    groups: dict[str, list[tuple[int, int]]], pieces: dict[int, AxisFactors], rows: list[tuple[int, int]]
) -> None:
    """The axes that values lack: the last is the queries; heads that share values, and a batch that does, before it."""
    made = [(label, i) for label, i in rows if _is_head(pieces[label][i], pieces[label])]
    others = [place for place in rows if place not in made]
    if not others:
        made, others = made[:-1], made[-1:]
    if len(others) > 1 and not groups["batch"]:
        groups["batch"].append(others.pop(0))
    groups["head"] += made
    groups["query"] += others


def _settle(groups: dict[str, list[tuple[int, int]]], pieces: dict[int, AxisFactors], known: bool) -> None:
    """Of several axes that queries share with keys: heads where nothing is known of them, rows where there are none."""
    batch = groups["batch"]
    rows = length(tuple(pieces[label][i] for label, i in groups["query"]))
    if len(batch) < 2:
        return
    if rows == 1 and (known or groups["head"]):
        groups["query"] = batch[1:]
        groups["batch"] = batch[:1]
    elif not known and not groups["head"]:
        groups["head"], groups["batch"] = batch[-1:], batch[:-1]


def _output(
    labels: Labels,
    groups: dict[str, list[tuple[int, int]]],
    pieces: dict[int, AxisFactors],
    values: Fact,
    narrow: set[int],
) -> Layout | None:
    """The layout of what a mixture makes."""
    here, there, out = labels
    rest = [(label, i) for label in out for i in range(len(pieces.get(label, ()))) if label in here]
    if any(place not in rest for kind in ("batch", "head", "query") for place in groups[kind]):
        return None
    own = [label for label in out if label in there and (label not in here or label in narrow)]
    parts = dict(pieces)
    for label in own:
        parts[label] = tuple(Factor(part.size) for part in values.axes[there.index(label)])
    kinds = {**groups, "value": [(label, i) for label in own for i in range(len(parts[label]))]}
    return _layout(out, kinds, parts, set(), ("batch", "head", "query", "value"))


def _mixed(
    labels: Labels,
    groups: dict[str, list[tuple[int, int]]],
    pieces: dict[int, AxisFactors],
    values: Fact,
    narrow: set[int],
) -> Layout | None:
    """The layout of the values, keys first; None where each query has values of its own."""
    here, there, _ = labels
    key = groups["key"][0][0]
    parts: dict[int, AxisFactors] = {}
    own = [label for label in there if label not in here or label in narrow]
    for label, axis in zip(there, values.axes, strict=True):
        parts[label] = tuple(Factor(part.size) for part in axis) if label in own or not axis else pieces[label]
    kinds = {kind: [place for place in groups[kind] if parts.get(place[0])] for kind in ("batch", "head")}
    kinds |= {"key": [(key, 0)], "value": [(label, i) for label in own for i in range(len(parts[label]))]}
    if any(parts.get(label) for label, _ in groups["query"] if label in there):
        return None
    order = (key, *(label for label in there if label != key))
    return _layout(order, kinds, parts, set(), ("batch", "head", "key", "value"))


def _layout(
    order: Sequence[int],
    groups: dict[str, list[tuple[int, int]]],
    pieces: dict[int, AxisFactors],
    narrow: set[int],
    kinds: tuple[str, str, str, str],
) -> Layout:
    flat = [(label, i) for label in order if label not in narrow for i in range(len(pieces.get(label, ())))]
    sizes = tuple(pieces[label][i].size for label, i in flat)
    places = [[flat.index(place) for place in groups[kind] if place in flat] for kind in kinds]
    shape = [1, 1, 1, 1]
    for i, group in enumerate(places):
        for place in group:
            shape[i] *= sizes[place]
    return Layout(sizes, tuple(place for group in places for place in group), (shape[0], shape[1], shape[2], shape[3]))


def split_heads(layout: Layout, n_heads: int) -> Layout:
    """The layout where the first axis holds `n_heads` heads of each batch element, side by side."""
    batch, head, query, last = layout.shape
    if head != 1 or batch % n_heads or batch == 1:
        return layout
    return replace(layout, shape=(batch // n_heads, n_heads, query, last))


def _detail(axis: AxisFactors) -> tuple[int, bool]:
    return len(axis), any(part.origin is not Origin.INPUT for part in axis)


def _spelled(term: str, n_axes: int, rest: int) -> tuple[int, ...]:
    """The letters of one term as numbers; those that `...` stands for are negative, counted from the right."""
    before, dots, after = term.partition("...")
    n_more = n_axes - len(before) - len(after) if dots else 0
    more = range(-min(n_more, rest), 0)
    return (*(ord(letter) for letter in before), *more, *(ord(letter) for letter in after))
