"""What functions of each number by itself do to the axes of tensors, and to a softmax's result."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from transformer.attention.recording.axes import Entry, Fact, Facts, broadcast, length, parameter, plain
from transformer.attention.recording.functions import CONSTANTS, ELEMENTWISE, KEEPING, OF_SEVERAL


def dropout(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A softmax's result is kept as it was before numbers were dropped."""
    before, result = facts.known(args[0]), func(*args, **kwargs)
    if before is None or before.softmax is None or result is args[0]:
        return result
    softmax = before.softmax
    drops = kwargs.get("training", args[2] if len(args) > 2 else True)
    if drops and softmax.clean is None:
        softmax = replace(softmax, clean=args[0])
    return facts.note(result, replace(before, softmax=softmax))


def elementwise(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any other function: where its result has the shape of what it was given, its axes are the same."""
    result = func(*args, **kwargs)
    tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]
    if func in OF_SEVERAL and all(_is_parameter(facts, one) for one in tensors):
        for one in result:
            facts.note(one, parameter(one))
    if isinstance(result, Tensor) and result.dim():
        _note_elementwise(facts, func, args, kwargs, result, tensors)
    return result


def _note_elementwise(
    facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor, tensors: list[Tensor]
) -> None:
    entries = [facts.entry(one) for one in tensors]
    if not tensors and func in CONSTANTS:
        facts.note(result, parameter(result))
    if not any(entries):
        return
    same_shape = result.shape == tensors[0].shape
    if len(tensors) == 1 and entries[0] is not None and not entries[0].of_softmax and same_shape:
        facts.keep(result, entries[0])
        return
    if result is tensors[0] and func not in ELEMENTWISE:
        facts.forget(result)  # written to in place
        return
    known = [None if one is None else one.fact for one in entries]
    every = [fact or plain(one) for fact, one in zip(known, tensors, strict=True)]
    all_parameters = all(fact.parameter for fact in every)
    if func in ELEMENTWISE and all(len(fact.axes) <= result.dim() for fact in every):
        facts.note(result, _each_number(func, args, kwargs, result, every))
    elif same_shape and func not in ELEMENTWISE:
        facts.note(result, replace(every[0].without_softmax(), parameter=all_parameters))
    elif all_parameters:
        facts.note(result, parameter(result))


def _is_parameter(facts: Facts, tensor: Tensor) -> bool:
    known = facts.known(tensor)
    return known is not None and known.parameter


def _each_number(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor, every: Sequence[Fact]
) -> Fact:
    """What comes of a function of each number by itself: a softmax's result stays one, masked or scaled."""
    softmax = next((fact.softmax for fact in every if fact.softmax is not None), None)
    after = broadcast(every, result.shape)
    dotted = any(fact.dotted for fact in every)
    if softmax is not None and func not in KEEPING:
        softmax = replace(softmax, clean=None, whole=None)
    elif softmax is not None:
        again = [None if one is None else func(one, *args[1:], **kwargs) for one in (softmax.clean, softmax.whole)]
        softmax = replace(softmax, clean=again[0], whole=again[1])
    return Fact(after, all(fact.parameter for fact in every), dotted, softmax)


def unfollowed(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    """Functions that make no tensor, and norms of a softmax's result: nothing is followed further."""
    return func(*args, **kwargs)


def added(facts: Facts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A sum of two tensors of one shape (a residual stream) is the commonest function of all."""
    if len(args) == 2:
        left, right = args
        if isinstance(left, Tensor) and isinstance(right, Tensor) and left.shape == right.shape:
            one, other = facts.entry(left), facts.entry(right)
            if one is None or other is None:
                if (one is None or not one.of_softmax) and (other is None or not other.of_softmax):
                    return func(*args, **kwargs)
            elif not one.of_softmax and not other.of_softmax:
                return facts.later(func(*args, **kwargs), max(one.depth, other.depth), _sum_fact, one, other)
    return elementwise(facts, func, args, kwargs)


def _sum_fact(one: Entry, other: Entry) -> Fact | None:
    left, right = one.fact, other.fact
    if left is None or right is None:
        return None
    known = left, right
    shape = [length(axis) for axis in known[0].axes]
    return Fact(broadcast(known, shape), all(each.parameter for each in known), any(each.dotted for each in known))
