"""Watching PyTorch's functions: fused attention, multi-head attention, and softmaxes that a product mixes values by.

Source of the mechanism: `torch.overrides.TorchFunctionMode`, which sees each function of torch that the caller's
thread calls, before it runs. What a function gives is what it would give anyway; only where an intervention names a
site is something else given on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer.attention.recording import axes
from transformer.attention.recording.axes import Entry, Fact, Facts, Origin, Softmax
from transformer.attention.recording.elementwise import elementwise
from transformer.attention.recording.functions import functions
from transformer.attention.recording.mixing import (
    Labels,
    broadcast_labels,
    einsum_labels,
    matmul_labels,
    mixture,
    product_axes,
)
from transformer.attention.recording.multihead import Inside, Sink
from transformer.attention.recording.views import MOVES, VIEWS

Handler = Callable[["Watching", Any, tuple[Any, ...], dict[str, Any]], Any]


class Watching(TorchFunctionMode):
    """Tell a sink of each attention that this thread runs, and follow what every tensor's axes come from."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self.sink = sink
        self.facts = Facts(sink.paths.buffers, sink.paths.maker)
        self._calls = sink.paths.calls

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of torch, and see what it means for attention."""
        if not self._calls:  # outside of the module's own calls nothing is its attention
            return func(*args, **(kwargs or {}))
        kwargs = kwargs or {}
        move = MOVES.get(func)  # the commonest first: this code runs between all functions of a model
        if move is not None and args:
            first, entries = args[0], self.facts.entries
            found = entries.get(id(first))
            entry = found[1] if found is not None and found[0]() is first else self.facts.entry(first)
            if entry is None:
                return func(*args, **kwargs)
            if not entry.of_softmax:
                result = func(*args, **kwargs)
                if result is not first:
                    entries[id(result)] = ref(result), move.entry(entry, result, func, args, kwargs)
                return result
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(self, func, args, kwargs)
        return VIEWS.get(func, elementwise)(self.facts, func, args, kwargs)

    def mix(
        self, labels: Labels, left: Tensor, right: Tensor, run: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor | None:
        """A product of two tensors, if one is a softmax's result and the other what it mixes; None if not."""
        for flipped, (weights, values) in enumerate(((left, right), (right, left))):
            entry = self.facts.entry(weights)
            known = entry.fact if entry is not None and entry.of_softmax else None
            if known is None or known.softmax is None or known.softmax.logged:
                continue
            given = self.facts.of(values)
            sides = (labels[flipped], labels[1 - flipped], labels[2])
            layout = mixture(sides, known, given, (weights.shape, values.shape))
            if layout is None:
                continue
            at = sides[1].index(sides[0][known.key_axis or 0])
            if given.parameter or known.parameter or (known.softmax.projected and axes.is_made(given.axes[at])):
                self.sink.idle(self.sink.paths.current.path, known.softmax)
                return None
            again = (lambda w: run(w, right)) if not flipped else (lambda w: run(left, w))
            return self.sink.written(layout, known.softmax, weights, values.movedim(at, 0), again)
        return None

    def product(self, labels: Labels, left: Tensor, right: Tensor, run: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """A matrix product: an attention, or what its axes come from."""
        if torch._C._functorch.is_functorch_wrapped_tensor(left):
            self.sink.mapped()
            return run(left, right)
        mixed = self.mix(labels, left, right, run)
        result = run(left, right) if mixed is None else mixed
        entries = [self.facts.entry(each) for each in (left, right)]
        if any(entry is not None and entry.of_softmax for entry in entries):
            return self.facts.note(result, _product(labels, self.facts.of(left), self.facts.of(right)))
        shapes = left.shape, right.shape
        depth = max((0 if entry is None else entry.depth) for entry in entries)
        return self.facts.later(result, depth, _later_product, labels, entries, shapes)


def _later_product(labels: Labels, entries: Sequence[Entry | None], shapes: Sequence[Sequence[int]]) -> Fact:
    given = [None if entry is None else entry.fact for entry in entries]
    one, other = (fact or axes.of_shape(shape) for fact, shape in zip(given, shapes, strict=True))
    return _product(labels, one, other)


def _product(labels: Labels, one: Fact, other: Fact) -> Fact:
    """What a product's axes come from; a softmax's result stays one where its heads are mixed with one another."""
    dotted = not (one.parameter or other.parameter)
    found = Fact(product_axes(labels, one, other), one.parameter and other.parameter, dotted)
    carried = next((each.softmax for each in (one, other) if each.softmax is not None), None)
    if carried is not None and found.key_axis is not None and not dotted:
        return replace(found, softmax=replace(carried, clean=None, whole=None))
    return found.without_softmax()


def _softmax(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    scores = args[0] if args else kwargs["input"]
    told = kwargs.get("dim", args[1] if len(args) > 1 and isinstance(args[1], int) else None)
    if not isinstance(result, Tensor) or not result.dim():
        return result
    dim = (told if told is not None else (0 if result.dim() in (0, 1, 3) else 1)) % result.dim()
    before = mode.facts.of(scores).without_softmax()
    size = result.shape[dim]
    axes_now = list(before.axes)
    axes_now[dim] = (axes.Factor(size, Origin.KEY),)
    projected = axes.is_made(before.axes[dim]) and not before.dotted
    softmax = Softmax(mode.sink.paths.current.path, projected, getattr(func, "__name__", "") == "log_softmax")
    return mode.facts.note(result, Fact(tuple(axes_now), before.parameter, softmax=softmax))


def _fused(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    q, k, v = (given.pop(name) for name in names[:3])
    if torch._C._functorch.is_functorch_wrapped_tensor(q):
        mode.sink.mapped()
        return func(*args, **kwargs)
    result = mode.sink.fused(q, k, v, given, lambda: func(*args, **kwargs))
    entry = mode.facts.entry(q)
    return result if entry is None else mode.facts.keep(result, entry)


def _multihead(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    query = args[0] if args else kwargs["query"]
    n_heads = args[4] if len(args) > 4 else kwargs["num_heads"]
    with Inside(mode.sink, int(n_heads), query.shape[1] if query.dim() == 3 else 1):
        return func(*args, **kwargs)


def _linear(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, weight = args[0] if args else kwargs["input"], args[1] if len(args) > 1 else kwargs["weight"]
    if not isinstance(weight, nn.Parameter):
        labels = matmul_labels(x.dim(), 2)
        return mode.product(labels, x, weight.T, lambda a, b: func(a, b.T, *args[2:], **kwargs))
    result = func(*args, **kwargs)
    entry, shape = mode.facts.entry(x), result.shape
    if entry is None or not entry.of_softmax:
        depth = 0 if entry is None else entry.depth
        return mode.facts.later(result, depth, _projected, entry, shape, made_by=id(weight))
    before, ends = mode.facts.of(x), axes.axis_of(shape[-1], Origin.PARAMETER)
    if before.softmax is not None and before.key_axis not in (None, x.dim() - 1):
        after = replace(before, axes=(*before.axes[:-1], ends), softmax=replace(before.softmax, clean=None, whole=None))
        return mode.facts.note(result, after)
    plain = before.without_softmax()
    return mode.facts.note(result, Fact((*plain.axes[:-1], ends), plain.parameter))


def _projected(entry: Entry | None, shape: Sequence[int]) -> Fact:
    """What a projection by a parameter makes: its last axis is the parameter's."""
    ends = axes.axis_of(shape[-1], Origin.PARAMETER)
    before = None if entry is None else entry.fact
    if before is None:
        return Fact((*(axes.axis_of(size) for size in shape[:-1]), ends))
    return Fact((*before.axes[:-1], ends), before.parameter)


def _matmul(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    left, right = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if getattr(func, "__name__", "") == "__rmatmul__":
        return mode.product(matmul_labels(right.dim(), left.dim()), right, left, lambda a, b: a @ b)
    return mode.product(
        matmul_labels(left.dim(), right.dim()), left, right, lambda a, b: func(a, b, *args[2:], **kwargs)
    )


def _added_product(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) < 3:
        return func(*args, **kwargs)
    labels = matmul_labels(args[1].dim(), args[2].dim())
    return mode.product(labels, args[1], args[2], lambda a, b: func(args[0], a, b, **kwargs))


def _einsum(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    if isinstance(args[0], str) and len(operands) == 2:
        labels = einsum_labels(args[0], operands[0].dim(), operands[1].dim())
        if labels is not None:
            return mode.product(labels, operands[0], operands[1], lambda a, b: func(args[0], a, b, **kwargs))
    return func(*args, **kwargs)


def _exponential(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = elementwise(mode.facts, func, args, kwargs)
    fact = mode.facts.known(result)
    if fact is not None and fact.softmax is not None:
        mode.facts.note(result, replace(fact, softmax=replace(fact.softmax, logged=False)))
    return result


def _tensordot(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    left, right = args[:2]
    told = kwargs.get("dims", args[2] if len(args) > 2 else 2)
    if isinstance(told, Tensor):
        return func(*args, **kwargs)
    ends = (range(left.dim() - told, left.dim()), range(told)) if isinstance(told, int) else told
    summed = {axis % right.dim(): other % left.dim() for other, axis in zip(*ends, strict=True)}
    here = tuple(range(left.dim()))
    there = tuple(summed.get(axis, 100 + axis) for axis in range(right.dim()))
    labels = here, there, tuple(axis for axis in (*here, *there) if axis not in summed.values())
    return mode.product(labels, left, right, lambda a, b: func(a, b, *args[2:], **kwargs))


def _multiply(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = elementwise(mode.facts, func, args, kwargs)
    left, right = args[0], args[1] if len(args) > 1 else None
    if isinstance(left, Tensor) and isinstance(right, Tensor) and isinstance(result, Tensor):
        entries = mode.facts.entry(left), mode.facts.entry(right)
        if any(entry is not None and entry.of_softmax for entry in entries):
            left, right = (_narrow(mode.facts, each) for each in (left, right))
            sides = (left, mode.facts.of(left), right, mode.facts.of(right))
            mode.facts.note(result, replace(mode.facts.of(result), sides=sides))
    return result


def _narrow(facts: Facts, tensor: Tensor) -> Tensor:
    """A softmax's result without the axes that it was expanded along, which are copies."""
    fact = facts.of(tensor)
    copies = [i for i, axis in enumerate(fact.axes) if axis and all(part.origin is Origin.COPY for part in axis)]
    if fact.softmax is None or not copies:
        return tensor
    for place in copies:
        tensor = tensor.narrow(place, 0, 1)
    kept = tuple(() if i in copies else axis for i, axis in enumerate(fact.axes))
    facts.note(tensor, replace(fact, axes=kept, softmax=replace(fact.softmax, clean=None, whole=None)))
    return tensor


def _sum(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    entry = mode.facts.entry(args[0])
    before = entry.fact if entry is not None and entry.of_softmax else None
    told = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if before is None or before.sides is None or told is None:
        return func(*args, **kwargs)
    left, _, right, _ = before.sides
    dims = {one % args[0].dim() for one in ((told,) if isinstance(told, int) else told)}
    labels = broadcast_labels(left.shape, right.shape, sorted(dims))
    mixed = mode.mix(labels, left, right, lambda a, b: func(a * b, *args[1:], **kwargs))
    return func(*args, **kwargs) if mixed is None else mixed


HANDLERS: dict[Any, Handler] = {
    function: handler
    for handler, names in (
        (_softmax, "softmax gumbel_softmax log_softmax"),
        (_exponential, "exp"),
        (_tensordot, "tensordot"),
        (_fused, "scaled_dot_product_attention"),
        (_multihead, "multi_head_attention_forward"),
        (_linear, "linear"),
        (_matmul, "matmul __matmul__ __rmatmul__ bmm mm mv"),
        (_added_product, "baddbmm addmm"),
        (_einsum, "einsum"),
        (_multiply, "mul __mul__ __rmul__ multiply"),
        (_sum, "sum"),
    )
    for function in functions(names)
}
"""Functions that attention is made of."""
