"""Watching PyTorch's functions: fused attention, multi-head attention, and softmaxes that a product mixes values by.

Source of the mechanism: `torch.overrides.TorchFunctionMode`, which sees each function of torch that the caller's
thread calls, before it runs. What a function gives is what it would give anyway; only where an intervention names a
site is something else given on.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from transformer.recording import axes
from transformer.recording.axes import Fact, Origin, Softmax
from transformer.recording.mixing import (
    Labels,
    Mixture,
    broadcast_labels,
    einsum_labels,
    matmul_labels,
    mixture,
    product_axes,
)
from transformer.recording.multihead import Inside
from transformer.recording.paths import Paths

Handler = Callable[["Watching", Any, tuple[Any, ...], dict[str, Any]], Any]


class Sink(Protocol):
    """Who is told of attentions."""

    paths: Paths

    def fused(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], run: Callable[[], Tensor]) -> Tensor:
        """A call of `scaled_dot_product_attention`: what it gives on."""

    def mixed(
        self, layout: Mixture, softmax: Softmax, weights: Tensor, values: Tensor, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """A product of a softmax's result and values: what it gives on."""

    def idle(self, path: str, softmax: Softmax) -> None:
        """A softmax whose result mixes what is no value."""


class Watching(TorchFunctionMode):
    """Tell a sink of each attention that this thread runs, and follow what every tensor's axes come from."""

    def __init__(self, module: nn.Module, sink: Sink) -> None:
        super().__init__()
        self.sink = sink
        self._constant = {id(one): ref(one) for one in module.buffers()}
        self._facts: dict[int, tuple[ref[Tensor], Fact]] = {}

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of torch, and see what it means for attention."""
        if func in QUIET:
            return func(*args, **(kwargs or {}))
        handler = HANDLERS.get(func, _elementwise)
        return handler(self, func, args, kwargs or {})

    def known(self, tensor: Any) -> Fact | None:
        """What is known of a tensor; None where nothing is."""
        found = self._facts.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        if isinstance(tensor, nn.Parameter) or (id(tensor) in self._constant):
            return axes.parameter(tensor)
        return None

    def fact(self, tensor: Tensor) -> Fact:
        """What is known or assumed of a tensor."""
        return self.known(tensor) or axes.plain(tensor)

    def note(self, tensor: Any, fact: Fact | None) -> Any:
        """Remember a fact as long as its tensor lives; gives the tensor."""
        if fact is not None and isinstance(tensor, Tensor) and len(fact.axes) == tensor.dim():
            key, facts = id(tensor), self._facts
            facts[key] = ref(tensor, lambda _: facts.pop(key, None)), fact
        return tensor

    def mix(
        self, labels: Labels, left: Tensor, right: Tensor, run: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor | None:
        """A product of two tensors, if one is a softmax's result and the other what it mixes; None if not."""
        for flipped, (weights, values) in enumerate(((left, right), (right, left))):
            known = self.known(weights)
            if known is None or known.softmax is None:
                continue
            given = self.fact(values)
            sides = (labels[flipped], labels[1 - flipped], labels[2])
            layout = mixture(sides, known, given, (weights.shape, values.shape))
            if layout is None:
                continue
            at = sides[1].index(sides[0][known.key_axis or 0])
            if given.parameter or (known.softmax.projected and axes.is_made(given.axes[at])):
                self.sink.idle(self.sink.paths.current.path, known.softmax)
                return None
            again = (lambda w: run(w, right)) if not flipped else (lambda w: run(left, w))
            return self.sink.mixed(layout, known.softmax, weights, values.movedim(at, 0), again)
        return None

    def product(
        self, labels: Labels, left: Tensor, right: Tensor, run: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """A matrix product: an attention, or what its axes come from."""
        mixed = self.mix(labels, left, right, run)
        result = run(left, right) if mixed is None else mixed
        one, other = self.known(left), self.known(right)
        if one is None and other is None:
            self.note(result, Fact(axes.plain(result).axes, dotted=True))
            return result
        one, other = one or axes.plain(left), other or axes.plain(right)
        dotted = not (one.parameter or other.parameter)
        found = Fact(product_axes(labels, one, other), one.parameter and other.parameter, dotted)
        carried = next((each.softmax for each in (one, other) if each.softmax is not None), None)
        if carried is not None and found.key_axis is not None and not dotted:
            found = replace(found, softmax=replace(carried, clean=None, whole=None))  # heads mixed with one another
        else:
            found = found.without_softmax()
        return self.note(result, found)


def _softmax(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    scores = args[0] if args else kwargs["input"]
    told = kwargs.get("dim", args[1] if len(args) > 1 and isinstance(args[1], int) else None)
    if not isinstance(result, Tensor) or not result.dim():
        return result
    dim = (told if told is not None else (0 if result.dim() in (0, 1, 3) else 1)) % result.dim()
    before = mode.fact(scores).without_softmax()
    size = result.shape[dim]
    axes_now = list(before.axes)
    axes_now[dim] = (axes.Factor(size, Origin.KEY),)
    projected = axes.is_made(before.axes[dim]) and not before.dotted
    softmax = Softmax(mode.sink.paths.current.path, projected)
    return mode.note(result, Fact(tuple(axes_now), softmax=softmax))


def _fused(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    q, k, v = (given.pop(name) for name in names[:3])
    result = mode.sink.fused(q, k, v, given, lambda: func(*args, **kwargs))
    return mode.note(result, replace(mode.fact(q).without_softmax(), parameter=False, dotted=False))


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
    before = mode.known(x)
    ends = axes.axis_of(result.shape[-1], Origin.PARAMETER)
    if before is None:
        return mode.note(result, Fact((*(axes.axis_of(size) for size in result.shape[:-1]), ends)))
    if before.softmax is not None and before.key_axis not in (None, x.dim() - 1):
        after = replace(before, axes=(*before.axes[:-1], ends), softmax=replace(before.softmax, clean=None, whole=None))
        return mode.note(result, after)
    plain = before.without_softmax()
    return mode.note(result, Fact((*plain.axes[:-1], ends), plain.parameter))


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
            return mode.product(labels, *operands, lambda a, b: func(args[0], a, b, **kwargs))
    return func(*args, **kwargs)


def _multiply(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = _elementwise(mode, func, args, kwargs)
    left, right = args[0], args[1] if len(args) > 1 else None
    if isinstance(left, Tensor) and isinstance(right, Tensor) and isinstance(result, Tensor):
        facts = mode.known(left), mode.known(right)
        if any(fact is not None and fact.softmax is not None for fact in facts):
            sides = (left, facts[0] or axes.plain(left), right, facts[1] or axes.plain(right))
            mode.note(result, replace(mode.fact(result), sides=sides))
    return result


def _sum(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before = mode.known(args[0])
    told = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if before is None or before.sides is None or told is None:
        return func(*args, **kwargs)
    left, _, right, _ = before.sides
    dims = {one % args[0].dim() for one in ((told,) if isinstance(told, int) else told)}
    labels = broadcast_labels(left.shape, right.shape, sorted(dims))
    mixed = mode.mix(labels, left, right, lambda a, b: func(a * b, *args[1:], **kwargs))
    return func(*args, **kwargs) if mixed is None else mixed


def _reshaped(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    before = mode.known(args[0])
    if before is None or not isinstance(result, Tensor):
        return result
    after = axes.regrouped(before.axes, result.shape)
    return result if after is None else _moved(mode, before, result, after, lambda one: func(one, *args[1:], **kwargs))


def _moved(
    mode: Watching, before: Fact, result: Tensor, after: tuple[axes.AxisFactors, ...], again: Callable[[Tensor], Tensor]
) -> Tensor:
    """A view: the fact with its axes moved, and what is kept of a softmax moved with it."""
    softmax = before.softmax
    if softmax is not None:
        clean, whole = (None if one is None else again(one) for one in (softmax.clean, softmax.whole))
        softmax = replace(softmax, clean=clean, whole=whole)
    return mode.note(result, Fact(after, before.parameter, before.dotted, softmax))


def _permuted(order: Callable[[Any, int, tuple[Any, ...], dict[str, Any]], list[int]]) -> Handler:
    def handle(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        before = mode.known(args[0])
        if before is None or not isinstance(result, Tensor) or args[0].dim() < 2:
            return result
        places = order(func, args[0].dim(), args, kwargs)
        after = tuple(before.axes[place] for place in places)
        return _moved(mode, before, result, after, lambda one: func(one, *args[1:], **kwargs))

    return handle


def _transpose(func: Any, n: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:  # noqa: ARG001
    one, other = (*args[1:], *(kwargs[name] for name in ("dim0", "dim1", "axis0", "axis1") if name in kwargs))
    order = list(range(n))
    order[one], order[other] = order[other], order[one]
    return order


def _permute(func: Any, n: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:  # noqa: ARG001
    told = args[1:] or (kwargs["dims"],)
    return [place % n for place in (told if isinstance(told[0], int) else told[0])]


def _movedim(func: Any, n: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:  # noqa: ARG001
    told = (*args[1:], *kwargs.values())
    source, target = ([one % n] if isinstance(one, int) else [each % n for each in one] for one in told)
    order = [place for place in range(n) if place not in source]
    for place, to in sorted(zip(source, target, strict=True), key=lambda pair: pair[1]):
        order.insert(to, place)
    return order


def _flipped(func: Any, n: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:  # noqa: ARG001
    return list(range(n))[::-1]


def _last_two(func: Any, n: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:  # noqa: ARG001
    return [*range(n - 2), n - 1, n - 2]


def _expanded(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    before = mode.known(args[0])
    if before is None or not isinstance(result, Tensor):
        return result
    padded = ((),) * (result.dim() - len(before.axes)) + before.axes
    origin = Origin.PARAMETER if before.parameter else Origin.INPUT
    after = tuple(
        axis if axes.length(axis) == size else axes.axis_of(size, origin)
        for axis, size in zip(padded, result.shape, strict=True)
    )
    return _moved(mode, before, result, after, lambda one: func(one, *args[1:], **kwargs))


def _repeated(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`repeat_interleave`, `repeat`: an axis that is longer than before has more of the same origin."""
    result = func(*args, **kwargs)
    before = mode.known(args[0])
    if before is None or not isinstance(result, Tensor) or result.dim() < len(before.axes):
        return result
    padded = ((),) * (result.dim() - len(before.axes)) + before.without_softmax().axes
    after = tuple(
        axis if axes.length(axis) == size else axes.axis_of(size, axis[0].origin if axis else Origin.INPUT)
        for axis, size in zip(padded, result.shape, strict=True)
    )
    return mode.note(result, Fact(after, before.parameter))


def _indexed(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    before = mode.known(args[0])
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if before is None or any(not (one is None or one is Ellipsis or isinstance(one, (int, slice))) for one in index):
        return result
    n_named = sum(one is not None and one is not Ellipsis for one in index)
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    after: list[axes.AxisFactors] = []
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
            if place == before.key_axis and size == axes.length(axis) - 1:
                sink = one.start not in (None, 0)
            after.append(axis if axes.length(axis) == size else axes.axis_of(size, _origin(axis)))
            place += 1
    if sink is not None and before.softmax is not None and all(one in (Ellipsis, slice(None)) or i == len(index) - 1 - index[::-1].index(one) for i, one in enumerate(index)):
        before = replace(before, softmax=replace(before.softmax, whole=args[0], clean=None, sink_first=bool(sink)))
        return mode.note(result, Fact(tuple(after), before.parameter, before.dotted, before.softmax))
    return _moved(mode, before, result, tuple(after), lambda each: func(each, *args[1:], **kwargs))


def _origin(axis: axes.AxisFactors) -> Origin:
    found = {part.origin for part in axis}
    return found.pop() if len(found) == 1 else Origin.INPUT


def _parted(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`chunk`, `split`, `unbind`: several parts of one tensor."""
    results = func(*args, **kwargs)
    before = mode.known(args[0])
    if before is None:
        return results
    for i, part in enumerate(results):
        if part.dim() == len(before.axes):
            after = tuple(
                axis if axes.length(axis) == size else axes.axis_of(size, _origin(axis))
                for axis, size in zip(before.axes, part.shape, strict=True)
            )
        else:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % len(before.axes)
            after = before.axes[:dim] + before.axes[dim + 1 :]
        _moved(mode, before, part, after, lambda one, i=i: func(one, *args[1:], **kwargs)[i])
    return results


def _squeezed(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`squeeze`, `unsqueeze`: axes of length 1 have no factors, so the others move together."""
    return _reshaped(mode, func, args, kwargs)


def _joined(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`cat`: each axis keeps its origin where all agree."""
    result = func(*args, **kwargs)
    parts = args[0] if args else kwargs["tensors"]
    facts = [mode.known(part) for part in parts]
    if all(fact is None for fact in facts) or any(part.dim() != result.dim() for part in parts):
        return result
    every = [(fact or axes.plain(part)).without_softmax() for fact, part in zip(facts, parts, strict=True)]
    joined = axes.broadcast(every, result.shape)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % result.dim()
    made = all(axes.is_made(fact.axes[dim]) for fact in every)
    own = axes.axis_of(result.shape[dim], Origin.PARAMETER if made else Origin.INPUT)
    after = (*joined[:dim], own, *joined[dim + 1 :])
    parameter = all(fact.parameter for fact in every)
    return mode.note(result, Fact(after, parameter, any(fact.dotted for fact in every)))


def _stacked(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`stack`: an axis of the outputs of several modules of one list is made by these modules, as experts are."""
    result = func(*args, **kwargs)
    parts = args[0] if args else kwargs["tensors"]
    makers = {mode.sink.paths.maker(part) for part in parts}
    siblings = None not in makers and len(makers) == len(parts) > 1
    facts = [mode.known(part) for part in parts]
    if not siblings and all(fact is None for fact in facts):
        return result
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % result.dim()
    every = [(fact or axes.plain(part)).without_softmax() for fact, part in zip(facts, parts, strict=True)]
    shape = [size for i, size in enumerate(result.shape) if i != dim]
    found = axes.broadcast(every, shape)
    own = axes.axis_of(result.shape[dim], Origin.PARAMETER if siblings else Origin.INPUT)
    return mode.note(result, Fact((*found[:dim], own, *found[dim:]), all(fact.parameter for fact in every)))


def _dropout(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = _elementwise(mode, func, args, kwargs)
    before = mode.known(args[0])
    if result is not args[0] and before is not None and before.softmax is not None and isinstance(result, Tensor):
        clean = before.softmax.clean if before.softmax.clean is not None else args[0]
        mode.note(result, replace(before, softmax=replace(before.softmax, clean=clean)))
    return result


def _elementwise(mode: Watching, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any other function: where its result has the shape of what it was given, its axes are the same."""
    result = func(*args, **kwargs)
    if not isinstance(result, Tensor) or not result.dim():
        return result
    tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]
    facts = [mode.known(one) for one in tensors]
    if all(fact is None for fact in facts):
        return result
    every = [fact or axes.plain(one) for fact, one in zip(facts, tensors, strict=True)]
    first = every[0]
    if func not in ELEMENTWISE:
        if tensors[0].shape != result.shape:
            return result
        return mode.note(result, replace(first.without_softmax(), parameter=all(fact.parameter for fact in every)))
    if any(fact.axes and len(fact.axes) > result.dim() for fact in every):
        return result
    softmax = next((fact.softmax for fact in every if fact.softmax is not None), None)
    after = axes.broadcast(every, result.shape)
    dotted = any(fact.dotted for fact in every)
    if softmax is not None and func not in KEEPING:
        softmax = replace(softmax, clean=None, whole=None)
    elif softmax is not None and (softmax.clean is not None or softmax.whole is not None) and tensors[0] is args[0]:
        again = [None if one is None else func(one, *args[1:], **kwargs) for one in (softmax.clean, softmax.whole)]
        softmax = replace(softmax, clean=again[0], whole=again[1])
    return mode.note(result, Fact(after, all(fact.parameter for fact in every), dotted, softmax))


def _functions(*names: str) -> list[Any]:
    holders = (torch, torch.Tensor, F, torch.special, torch.functional)
    return [getattr(holder, name) for name in names for holder in holders if hasattr(holder, name)]


def _getters(*names: str) -> list[Any]:
    return [getattr(torch.Tensor, name).__get__ for name in names]


QUIET = frozenset(
    [
        *_getters("shape", "device", "dtype", "requires_grad", "is_leaf", "layout", "ndim", "is_cuda", "grad"),
        *_functions("size", "dim", "numel", "is_floating_point", "stride", "__len__", "item", "tolist", "data_ptr"),
    ]
)
"""Functions that make no tensor."""

KEEPING = frozenset(_functions("to", "float", "double", "half", "type_as", "contiguous", "clone", "detach"))
"""Functions that change no number."""

ELEMENTWISE = KEEPING | frozenset(
    _functions(
        "add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__", "__rsub__", "sub_", "mul", "__mul__",
        "__rmul__", "__imul__", "mul_", "div", "__truediv__", "__itruediv__", "div_", "true_divide", "neg",
        "masked_fill", "masked_fill_", "where", "nan_to_num", "clamp", "clamp_min", "tanh", "exp", "dropout", "dropout_",
        "alpha_dropout", "feature_dropout", "type", "cpu", "cuda", "bfloat16", "relu", "gelu", "silu", "sigmoid",
    )  # fmt: skip
)
"""Functions of each number by itself."""


def _table(*pairs: tuple[Handler, tuple[str, ...]]) -> dict[Any, Handler]:
    return {function: handler for handler, names in pairs for function in _functions(*names)}


HANDLERS: dict[Any, Handler] = {
    **_table(
        (_softmax, ("softmax", "gumbel_softmax")),
        (_fused, ("scaled_dot_product_attention",)),
        (_multihead, ("multi_head_attention_forward",)),
        (_linear, ("linear",)),
        (_matmul, ("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "mv")),
        (_added_product, ("baddbmm", "addmm")),
        (_einsum, ("einsum",)),
        (_multiply, ("mul", "__mul__", "__rmul__", "multiply")),
        (_sum, ("sum",)),
        (_reshaped, ("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as")),
        (_squeezed, ("squeeze", "unsqueeze")),
        (_permuted(_transpose), ("transpose", "swapaxes", "swapdims")),
        (_permuted(_permute), ("permute",)),
        (_permuted(_movedim), ("movedim", "moveaxis")),
        (_permuted(_flipped), ("t",)),
        (_expanded, ("expand", "expand_as", "broadcast_to")),
        (_repeated, ("repeat", "repeat_interleave", "tile")),
        (_indexed, ("__getitem__",)),
        (_parted, ("chunk", "split", "unbind", "tensor_split")),
        (_joined, ("cat", "concat", "concatenate")),
        (_stacked, ("stack",)),
        (_dropout, ("dropout", "dropout_")),
    ),
    torch.Tensor.T.__get__: _permuted(_flipped),  # type: ignore[attr-defined]
    torch.Tensor.mT.__get__: _permuted(_last_two),  # type: ignore[attr-defined]
}
