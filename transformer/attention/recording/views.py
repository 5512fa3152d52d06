"""What views, joins and element-wise functions do to the axes of tensors."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer.attention.recording.axes import (
    AxisFactors,
    Entry,
    Fact,
    Factor,
    Facts,
    Origin,
    axis_of,
    broadcast,
    is_made,
    length,
    pending,
    regrouped,
)
from transformer.attention.recording.elementwise import added, dropout, unfollowed
from transformer.attention.recording.functions import ALIKE, QUIET, functions

Handler = Callable[[Facts, Any, tuple[Any, ...], dict[str, Any]], Any]
"""Runs a function of torch, and notes what its result's axes come from."""


class Move(NamedTuple):
    """How a function of one tensor moves its axes; `axes` is None where it leaves them as they are.

    `axes` makes them from the fact, the new shape and, where it `reads_arguments`, the function and its arguments.
    """

    axes: Callable[..., tuple[AxisFactors, ...] | None] | None = None
    reads_arguments: bool = False

    def entry(self, before: Entry, result: Tensor, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        """What is known of the result, which is worked out when somebody asks."""
        if self.axes is None:
            return before
        told = (func, args[1:], kwargs) if self.reads_arguments else ()
        return pending(before.depth, _view_fact, self.axes, before, result.shape, told)


def _view_fact(
    axes: Callable[..., tuple[AxisFactors, ...] | None], entry: Entry, shape: Sequence[int], told: tuple[Any, ...]
) -> Fact | None:
    before = entry.fact
    after = None if before is None else axes(before, shape, *told)
    return None if after is None or before is None else Fact(after, before.parameter, before.dotted)


def _followed(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A softmax's result whose axes are moved: what is kept of it moves with it."""
    before, result, move = facts.of(args[0]), func(*args, **kwargs), MOVES[func]
    if not isinstance(result, Tensor) or move.axes is None:
        return result
    after = move.axes(before, result.shape, *((func, args[1:], kwargs) if move.reads_arguments else ()))
    if after is None:
        return result
    return _moved(facts, before, result, after, lambda one: func(one, *args[1:], **kwargs))


def _regrouped(before: Fact, shape: Sequence[int]) -> tuple[AxisFactors, ...] | None:
    """`view`, `flatten`, `squeeze`: axes of length 1 have no factors, so the others move together."""
    return regrouped(before.axes, shape)


def _moved(
    facts: Facts, before: Fact, result: Tensor, after: tuple[AxisFactors, ...], again: Callable[[Tensor], Tensor]
) -> Tensor:
    """A view: the fact with its axes moved, and what is kept of a softmax moved with it."""
    softmax = before.softmax
    if softmax is not None:
        clean, whole = (None if one is None else again(one) for one in (softmax.clean, softmax.whole))
        softmax = replace(softmax, clean=clean, whole=whole)
    return facts.note(result, Fact(after, before.parameter, before.dotted, softmax))


def _permuted(
    before: Fact, shape: Sequence[int], func: Any, told: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[AxisFactors, ...] | None:
    """`transpose`, `permute`: the function is tried on a tensor whose axes are as long as their numbers."""
    if len(shape) < 2:
        return None
    return tuple(
        before.axes[place] for place in func(torch.empty(*range(len(shape)), device="meta"), *told, **kwargs).shape
    )


def _with_copies(before: Fact, shape: Sequence[int]) -> tuple[AxisFactors, ...]:
    """An axis of length 1 that becomes longer holds copies."""
    padded = ((),) * (len(shape) - len(before.axes)) + before.axes
    origin = Origin.PARAMETER if before.parameter else Origin.COPY
    return tuple(
        axis if length(axis) == size else axis_of(size, origin) for axis, size in zip(padded, shape, strict=True)
    )


def _repeated(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`repeat_interleave`, `repeat`: an axis that is longer than before has more of the same origin."""
    result = func(*args, **kwargs)
    before = facts.known(args[0])
    if before is None or not isinstance(result, Tensor) or result.dim() < len(before.axes):
        return result
    padded = ((),) * (result.dim() - len(before.axes)) + before.without_softmax().axes
    after = tuple(
        axis if length(axis) == size else axis_of(size, axis[0].origin if axis else Origin.INPUT)
        for axis, size in zip(padded, result.shape, strict=True)
    )
    return facts.note(result, Fact(after, before.parameter))


def _indexed(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    before = facts.known(args[0])
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if before is None or any(not (one is None or one is Ellipsis or isinstance(one, (int, slice))) for one in index):
        return result
    n_named = sum(one is not None and one is not Ellipsis for one in index)
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    after: list[AxisFactors] = []
    place, sink = 0, None
    for one in index:
        if one is None:
            after.append(())
        elif one is Ellipsis:
            rest = len(before.axes) - n_named
            after.extend(before.axes[place : place + rest])
            place += rest
        elif isinstance(one, int):
            place += 1
        else:
            axis, size = before.axes[place], result.shape[len(after)]
            if place == before.key_axis and size == length(axis) - 1 and args[0].dim() == result.dim():
                sink = one.start not in (None, 0)
            after.append(axis if length(axis) == size else axis_of(size, _origin(axis)))
            place += 1
    if sink is not None and before.softmax is not None:
        whole = args[0] if before.softmax.clean is None else before.softmax.clean
        softmax = replace(before.softmax, whole=whole, clean=None, sink_first=sink)
        return facts.note(result, replace(before, axes=tuple(after), softmax=softmax))
    return _moved(facts, before, result, tuple(after), lambda each: func(each, *args[1:], **kwargs))


def _origin(axis: AxisFactors) -> Origin:
    found = {part.origin for part in axis}
    return found.pop() if len(found) == 1 else Origin.INPUT


def _parted(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`chunk`, `split`, `unbind`: several parts of one tensor."""
    entry = facts.entry(args[0])
    results = func(*args, **kwargs)
    if entry is None:
        return results
    told = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    for i, part in enumerate(results):
        shape = part.shape
        if not entry.of_softmax:
            facts.later(part, entry.depth, _part_fact, entry, shape, told, made_by=(entry, told, i))
            continue
        before = entry.fact
        if before is not None:
            after = _part_axes(before, shape, told)
            _moved(facts, before, part, after, partial(_nth, func, i, args[1:], kwargs))
    return results


def _nth(func: Any, i: int, told: tuple[Any, ...], kwargs: dict[str, Any], one: Tensor) -> Tensor:
    return func(one, *told, **kwargs)[i]


def _part_fact(entry: Entry, shape: Sequence[int], dim: Any) -> Fact | None:
    before = entry.fact
    return None if before is None else Fact(_part_axes(before, shape, dim), before.parameter, before.dotted)


def _part_axes(before: Fact, shape: Sequence[int], dim: Any) -> tuple[AxisFactors, ...]:
    if len(shape) < len(before.axes):
        place = dim % len(before.axes)
        return before.axes[:place] + before.axes[place + 1 :]
    return tuple(
        axis if length(axis) == size else axis_of(size, _origin(axis))
        for axis, size in zip(before.axes, shape, strict=True)
    )


def _joined(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`cat`: each axis keeps its origin where all agree; heads that were split apart are a factor of the new axis."""
    result = func(*args, **kwargs)
    parts = args[0] if args else kwargs["tensors"]
    entries = [facts.entry(part) for part in parts]
    if not any(entries) or any(part.dim() != result.dim() for part in parts):
        return result
    every = [facts.of(part).without_softmax() for part in parts]
    joined = broadcast(every, result.shape)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % result.dim()
    made = all(is_made(fact.axes[dim]) for fact in every)
    own = axis_of(result.shape[dim], Origin.PARAMETER if made else Origin.INPUT)
    if len({id(one) for one in _wholes(entries)}) == 1 and len(parts) > 1:
        own = (Factor(len(parts), Origin.PARAMETER), *every[0].axes[dim])
    after = (*joined[:dim], own, *joined[dim + 1 :])
    parameter = all(fact.parameter for fact in every)
    return facts.note(result, Fact(after, parameter, any(fact.dotted for fact in every)))


def _wholes(entries: Sequence[Entry | None]) -> list[object]:
    """The tensor that each was split from along features that a parameter made; the entries themselves otherwise."""
    found: list[object] = []
    for entry in entries:
        told = None if entry is None else entry.made_by
        if not isinstance(told, tuple):
            return list(entries) if len(entries) > 1 else [None, entries]
        whole, dim, _ = told
        axes = () if whole.fact is None else whole.fact.axes
        found.append(whole if axes and is_made(axes[dim % len(axes)]) else entry)
    return found


def _stacked(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`stack`: an axis of what several modules or projections made of one thing is made by them, as experts are."""
    result = func(*args, **kwargs)
    parts = args[0] if args else kwargs["tensors"]
    entries = [facts.entry(part) for part in parts]
    makers = [
        facts.maker(part) or (None if entry is None else entry.made_by)
        for part, entry in zip(parts, entries, strict=True)
    ]
    siblings = None not in makers and len({_name(one) for one in makers}) == len(parts) > 1
    if not siblings and not any(entries):
        return result
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % result.dim()
    every = [facts.of(part).without_softmax() for part in parts]
    found = broadcast(every, [size for i, size in enumerate(result.shape) if i != dim])
    own = axis_of(result.shape[dim], Origin.PARAMETER if siblings else Origin.INPUT)
    return facts.note(result, Fact((*found[:dim], own, *found[dim:]), all(fact.parameter for fact in every)))


def _name(maker: object) -> object:
    """What tells makers apart: parts of one tensor are steps of it, no work of several makers."""
    return "part" if isinstance(maker, tuple) else maker


def _written_to(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`x[i] = y`: what a tensor of zeros, or a cache, is filled with."""
    facts.forget(args[0])
    return func(*args, **kwargs)


def _convolved(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    axes = [axis_of(size, Origin.PARAMETER if i == 1 else Origin.INPUT) for i, size in enumerate(result.shape)]
    return facts.keep(result, Entry(Fact(tuple(axes)), made_by=id(args[1]))) if len(args) > 1 else result


PERMUTED = Move(_permuted, reads_arguments=True)

MOVES: dict[Any, Move] = {
    function: move
    for move, names in (
        (Move(_regrouped), "view reshape flatten unflatten view_as reshape_as squeeze unsqueeze"),
        (PERMUTED, "transpose swapaxes swapdims permute movedim moveaxis t"),
        (Move(_with_copies), "expand expand_as broadcast_to"),
        (Move(), f"dropout dropout_ contiguous clone detach {ALIKE}"),
    )
    for function in functions(names)
} | {
    torch.Tensor.T.__get__: PERMUTED,  # type: ignore[attr-defined]
    torch.Tensor.mT.__get__: PERMUTED,  # type: ignore[attr-defined]
}
"""Functions of one tensor that move its axes, or leave them as they are: the commonest of a model."""

VIEWS: dict[Any, Handler] = {
    **dict.fromkeys(QUIET, unfollowed),
    **{function: _followed for function, move in MOVES.items() if move.axes is not None},
} | {
    function: handler
    for handler, names in (
        (added, "add __add__ __radd__ __iadd__ add_"),
        (_repeated, "repeat repeat_interleave tile"),
        (_indexed, "__getitem__"),
        (_parted, "chunk split unbind tensor_split"),
        (_joined, "cat concat concatenate"),
        (_stacked, "stack"),
        (dropout, "dropout dropout_"),
        (unfollowed, ALIKE),
        (_written_to, "__setitem__"),
        (_convolved, "conv1d conv2d conv3d"),
    )
    for function in functions(names)
}
"""Functions that move axes, or join tensors; those of `MOVES` where they are given a softmax's result."""
