"""What the axes of a function's result come from: views, joins and element-wise functions of PyTorch carry it along."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .axes import (
    AxisFactors,
    Fact,
    Factor,
    Facts,
    LazyFact,
    Origin,
    Softmax,
    axis_of,
    broadcast,
    is_made,
    length,
    of_shape,
    viewed,
)

Run = partial[Any]
"""One call of a function of torch, which calling it runs."""


def given(run: Run, place: int, name: str, default: Any = None) -> Any:
    """An argument of a call."""
    return run.args[place] if len(run.args) > place else run.keywords.get(name, default)


def again(run: Run, *first: Tensor) -> Any:
    """The same call with other first tensors."""
    return run.func(*first, *run.args[len(first) :], **run.keywords)


def functions(names: str) -> list[Any]:
    """The functions and methods of these names, which are divided by spaces."""
    holders = (torch, torch.Tensor, F, torch.special, torch.functional)
    return [getattr(holder, name) for name in names.split() for holder in holders if hasattr(holder, name)]


def _getters(names: str) -> list[Any]:
    return [getattr(torch.Tensor, name).__get__ for name in names.split()]


CONSTANTS = frozenset(functions("arange linspace logspace eye tensor"))
"""Functions that make tensors of nothing that was read; zeros and the like are mostly filled later."""

OF_SEVERAL = frozenset(functions("meshgrid broadcast_tensors"))
"""Functions from several tensors to as many."""

KEEPING = frozenset(functions("to float double half type_as contiguous clone detach"))
"""Functions that change no number."""

EXPONENTIAL = frozenset(functions("exp"))

ELEMENTWISE = KEEPING | frozenset(
    functions(
        "add __add__ __radd__ __iadd__ add_ sub __sub__ __rsub__ sub_ mul __mul__ __rmul__ __imul__ mul_ multiply "
        "div __truediv__ __itruediv__ div_ true_divide neg masked_fill masked_fill_ where nan_to_num clamp clamp_min "
        "tanh exp sigmoid normalize dropout dropout_ alpha_dropout feature_dropout type cpu cuda bfloat16"
    )
)
"""Functions of each number by itself."""

ALIKE = "layer_norm rms_norm group_norm batch_norm gelu relu silu"
"""Norms and activations, whose results have the axes of what they read."""

STAY, VIEW, IN_ORDER = "", "view", "view in order"
"""What functions do to axes: nothing, any view, or a view that keeps the order of numbers and may copy them."""

MOVES: dict[Any, str] = {
    **dict.fromkeys(functions("view reshape flatten unflatten view_as reshape_as"), IN_ORDER),
    **dict.fromkeys(functions("transpose swapaxes swapdims permute movedim moveaxis t squeeze unsqueeze"), VIEW),
    **dict.fromkeys([*functions("expand expand_as broadcast_to"), *_getters("T mT")], VIEW),
    **dict.fromkeys(functions(f"dropout dropout_ contiguous clone detach {ALIKE}"), STAY),
}
"""Functions of one tensor, which move its axes or leave them as they are: the commonest of a model."""


def elementwise(facts: Facts, run: Run, result: Any) -> None:
    """Any other function: where its result has the shape of what it was given, its axes are the same."""
    func = run.func
    tensors = [one for one in (*run.args, *run.keywords.values()) if isinstance(one, Tensor)]
    if not isinstance(result, Tensor):
        if func in OF_SEVERAL and all(facts.entry(one) is not None and facts.of(one).parameter for one in tensors):
            for one in result:
                facts.note(one, of_shape(one.shape, Origin.PARAMETER))
        return
    if not tensors and func in CONSTANTS:
        facts.note(result, of_shape(result.shape, Origin.PARAMETER))
    entries = [facts.entry(one) for one in tensors]
    if not result.dim() or not any(entries):
        return
    is_alike, first = result.shape == tensors[0].shape, entries[0]
    if len(tensors) == 1 and first is not None and not first.of_softmax and is_alike:
        facts.keep(result, first)
    elif result is tensors[0] and func not in ELEMENTWISE:
        _written_to(facts, run, result)
    elif func in KEEPING:  # a second tensor tells its type alone
        kept = partial(again, run) if first is not None and first.of_softmax else None
        facts.follow(result, _each_number, tensors[:1], result.shape, False, kept)
    elif func in ELEMENTWISE and all(one.dim() <= result.dim() for one in tensors):
        facts.follow(result, _each_number, tensors, result.shape, func in EXPONENTIAL)
    else:
        facts.follow(result, _alike, tensors, result.shape, is_alike and func not in ELEMENTWISE)


def _each_number(
    given: Sequence[Fact], shape: Sequence[int], is_exponential: bool, again: Callable[..., Tensor] | None = None
) -> Fact:
    """What comes of a function of each number by itself: a softmax's result stays one, masked or scaled."""
    softmax = next((fact.softmax for fact in given if fact.softmax is not None), None)
    if softmax is not None:
        softmax = replace(softmax.moved(again), logged=softmax.logged and not is_exponential)
    is_parameter, dotted = all(fact.parameter for fact in given), any(fact.dotted for fact in given)
    return Fact(broadcast(given, shape), is_parameter, dotted, softmax, any(fact.picked for fact in given))


def _alike(given: Sequence[Fact], shape: Sequence[int], has_axes_of_first: bool) -> Fact:
    is_parameter = all(fact.parameter for fact in given)
    if has_axes_of_first:
        return replace(given[0].without_softmax(), parameter=is_parameter)
    return of_shape(shape, Origin.PARAMETER if is_parameter else Origin.INPUT)


def _written_to(facts: Facts, run: Run, result: Any) -> None:  # noqa: ARG001
    """`x[i] = y`: what a tensor of zeros, or a cache, is filled with; what was known of it holds no more."""
    facts.entries.pop(id(run.args[0]), None)


def _dropped(facts: Facts, run: Run, result: Any) -> None:
    """Dropout of a softmax's result, which is kept as it was before."""
    before = facts.of_softmax(run.args[0])
    if before is not None and before.softmax is not None and result is not run.args[0]:
        softmax = before.softmax
        if given(run, 2, "training", True) and softmax.clean is None:
            softmax = replace(softmax, clean=run.args[0])
        facts.note(result, replace(before, softmax=softmax))


def _multiplied(facts: Facts, run: Run, result: Any) -> None:
    """A product of each number by itself; where one is a softmax's result, both are kept for a sum that may follow."""
    elementwise(facts, run, result)
    sides = run.args[:2]
    if len(sides) == 2 and all(isinstance(one, Tensor) for one in sides) and any(map(facts.of_softmax, sides)):
        facts.note(result, replace(facts.of(result), sides=(_narrow(facts, sides[0]), _narrow(facts, sides[1]))))


def _narrow(facts: Facts, tensor: Tensor) -> Tensor:
    """A softmax's result without the axes that it was expanded along, which are copies."""
    fact = facts.of(tensor)
    copies = [i for i, axis in enumerate(fact.axes) if axis and all(part.origin is Origin.COPY for part in axis)]
    if fact.softmax is None or not copies:
        return tensor
    for place in copies:
        tensor = tensor.narrow(place, 0, 1)
    kept = tuple(() if i in copies else axis for i, axis in enumerate(fact.axes))
    facts.note(tensor, replace(fact, axes=kept, softmax=fact.softmax.moved(None)))
    return tensor


def _normalised(facts: Facts, run: Run, result: Any) -> None:
    """A softmax."""
    if not isinstance(result, Tensor) or not result.dim():
        return
    axis = given(run, 1, "dim")
    dim = (axis if isinstance(axis, int) else 0 if result.dim() in (1, 3) else 1) % result.dim()
    before = facts.of(given(run, 0, "input")).without_softmax()
    axes = (*before.axes[:dim], (Factor(result.shape[dim], Origin.KEY),), *before.axes[dim + 1 :])
    projected = is_made(before.axes[dim]) and not before.dotted
    is_logged, path = getattr(run.func, "__name__", "") == "log_softmax", facts.paths.current.path
    if not before.parameter:
        facts.softmaxes[path] = None
    softmax = Softmax(path, projected, is_logged, before.picked)
    facts.note(result, Fact(axes, before.parameter, softmax=softmax))


def _convolved(facts: Facts, run: Run, result: Any) -> None:
    """A convolution; one of 1 x 1 mixes the heads of a softmax's result (talking heads)."""
    before, weight = facts.of_softmax(run.args[0]), given(run, 1, "weight")
    mixes = weight[0, 0].numel() == 1
    if mixes and before is not None and before.softmax is not None and before.key_axis not in (None, 1):
        axes = (before.axes[0], axis_of(result.shape[1], Origin.PARAMETER), *before.axes[2:])
        facts.note(result, replace(before, axes=axes, softmax=before.softmax.moved(None)))
        return
    axes = tuple(axis_of(size, Origin.PARAMETER if i == 1 else Origin.INPUT) for i, size in enumerate(result.shape))
    facts.keep(result, LazyFact(Fact(axes), made_by=id(weight)))


def _moved(facts: Facts, run: Run, result: Any, same: Any = None, made_by: object = None) -> None:
    """A view; what is kept of a softmax moves with its result."""
    first = run.args[0]
    entry = facts.entry(first)
    if entry is None or not isinstance(result, Tensor):
        return
    if first.layout is not torch.strided:  # sparse ones have no strides
        facts.follow(result, _alike, [first], result.shape, False)
        return
    strides = None if MOVES.get(run.func) is IN_ORDER and result.is_contiguous() else first.stride()
    view = partial(viewed, entry, strides, result.shape, result.stride())
    if entry.of_softmax:
        facts.note(result, view(same or partial(again, run)))
    else:
        facts.keep(result, LazyFact(None, view, made_by, entry.depth + 1))


def _indexed(facts: Facts, run: Run, result: Any) -> None:
    """`x[...]`; of a softmax's result, a key less at one end is an attention sink that is cut off."""
    first, index = run.args
    index = index if isinstance(index, tuple) else (index,)
    if not all(one is Ellipsis or isinstance(one, int | slice | None) for one in index):
        if not (isinstance(index[-1], Tensor) and (len(index) == first.dim() or index[0] is Ellipsis)):  # of features
            _picked(facts, run, result)
        return
    _moved(facts, run, result)
    before, after = facts.of_softmax(first), facts.of_softmax(result)
    if before is None or after is None or before.softmax is None or first.dim() != result.dim():
        return
    was, at = before.key_axis, after.key_axis
    if was is not None and at is not None and result.shape[at] == first.shape[was] - 1:
        whole = first if before.softmax.clean is None else before.softmax.clean
        sink = -1 if result.storage_offset() == first.storage_offset() else 0
        facts.note(result, replace(after, softmax=replace(before.softmax, whole=whole, clean=None, sink=sink)))


def _picked(facts: Facts, run: Run, result: Any) -> None:
    """Positions that a table of indices selects: their axis counts what was selected."""
    before = facts.entry(run.args[0])
    if isinstance(result, Tensor) and result.dim() and not (before is not None and before.fact.parameter):
        facts.note(result, replace(of_shape(result.shape), picked=True))


def _parts(facts: Facts, run: Run, result: Any) -> None:
    """`chunk`, `split`, `unbind`: several parts of one tensor."""
    place = 1 if getattr(run.func, "__name__", "") == "unbind" else 2  # the others are told sizes or a count first
    entry, dim = facts.entry(run.args[0]), given(run, place, "dim", 0)
    for i, part in enumerate(result if entry is not None else ()):
        _moved(facts, run, part, lambda one, i=i: again(run, one)[i], (entry, dim, i))


def _repeated(facts: Facts, run: Run, result: Any) -> None:
    """`repeat_interleave`, `repeat`: an axis that is longer than before has more of the same origin."""
    first = run.args[0]
    if facts.entry(first) is not None and isinstance(result, Tensor) and result.dim() >= first.dim():
        facts.follow(result, _longer, [first], result.shape)


def _longer(given: Sequence[Fact], shape: Sequence[int]) -> Fact:
    before, found = given[0].without_softmax(), []
    for axis, size in zip(((),) * (len(shape) - len(before.axes)) + before.axes, shape, strict=True):
        own = {part.origin for part in axis}
        found.append(axis if length(axis) == size else axis_of(size, own.pop() if len(own) == 1 else Origin.INPUT))
    return Fact(tuple(found), before.parameter)


def _joined(facts: Facts, run: Run, result: Any) -> None:
    """`cat`: each axis keeps its origin where all agree; heads that were split apart are a factor of the new axis."""
    parts = given(run, 0, "tensors")
    entries = [facts.entry(part) for part in parts]
    if len(parts) == 1 and entries[0] is not None:  # what einops.pack does
        facts.keep(result, entries[0])
    elif any(entries) and all(part.dim() == result.dim() for part in parts):
        facts.follow(result, _end_to_end, parts, result.shape, given(run, 1, "dim", 0) % result.dim(), entries)


def _end_to_end(given: Sequence[Fact], shape: Sequence[int], dim: int, entries: Sequence[LazyFact | None]) -> Fact:
    every = [fact.without_softmax() for fact in given]
    axes = broadcast(every, shape)
    made = all(is_made(fact.axes[dim]) for fact in every)
    own = axis_of(shape[dim], Origin.PARAMETER if made else Origin.INPUT)
    are_parts = all(entry is not None and isinstance(entry.made_by, tuple) for entry in entries)
    if len({id(_whole(entry) if are_parts else entry) for entry in entries}) == 1:
        own = (Factor(len(every), Origin.PARAMETER), *every[0].axes[dim])
    after = (*axes[:dim], own, *axes[dim + 1 :])
    dotted, picked = any(fact.dotted for fact in every), any(fact.picked for fact in every)
    return Fact(after, all(fact.parameter for fact in every), dotted, picked=picked)


def _whole(entry: Any) -> LazyFact:
    """The tensor that one was split from along features that a parameter made; else itself."""
    whole, dim, _ = entry.made_by
    axes = whole.fact.axes
    found: LazyFact = whole if axes and is_made(axes[dim % len(axes)]) else entry
    return found


def _stacked(facts: Facts, run: Run, result: Any) -> None:
    """`stack`: an axis of what several modules or projections made of one thing is made by them, as experts are."""
    parts = given(run, 0, "tensors")
    entries = [facts.entry(part) for part in parts]
    made_by = [None if entry is None else entry.made_by for entry in entries]
    makers = [facts.paths.maker(part) or maker for part, maker in zip(parts, made_by, strict=True)]
    # Parts of one tensor are steps of it, no work of several makers.
    names = {"part" if isinstance(maker, tuple) else maker for maker in makers}
    siblings = None not in makers and len(names) == len(parts) > 1
    if siblings or any(entries):
        dim = given(run, 1, "dim", 0) % result.dim()
        own = axis_of(result.shape[dim], Origin.PARAMETER if siblings else Origin.INPUT)
        facts.follow(result, _with_new, parts, result.shape, dim, own)


def _with_new(given: Sequence[Fact], shape: Sequence[int], dim: int, own: AxisFactors) -> Fact:
    every = [fact.without_softmax() for fact in given]
    found = broadcast(every, [size for i, size in enumerate(shape) if i != dim])
    return Fact((*found[:dim], own, *found[dim:]), all(fact.parameter for fact in every))


After = Callable[[Facts, Run, Any], None]

RULES: dict[Any, After | None] = {
    **dict.fromkeys(_getters("shape device dtype requires_grad is_leaf layout ndim is_cuda grad")),
    **{function: _moved for function, moves in MOVES.items() if moves},
} | {
    function: rule
    for rule, names in (
        (None, f"size dim numel is_floating_point stride __len__ item tolist data_ptr {ALIKE}"),
        (_dropped, "dropout dropout_"),
        (_repeated, "repeat repeat_interleave tile"),
        (_indexed, "__getitem__"),
        (_picked, "gather index_select take_along_dim"),
        (_parts, "chunk split unbind tensor_split"),
        (_joined, "cat concat concatenate"),
        (_stacked, "stack"),
        (_written_to, "__setitem__"),
        (_convolved, "conv1d conv2d conv3d"),
        (_normalised, "softmax gumbel_softmax log_softmax"),
        (_multiplied, "mul __mul__ __rmul__ multiply"),
    )
    for function in functions(names)
}
"""What is told of a function's result (None: nothing); all that is not here is element-wise.

`MOVES` are here where they are given a softmax's result.
"""
