"""Watching a module's run: every attention that a function of PyTorch is, seen and changed where it happens.

Source of the mechanism: `torch.overrides.TorchFunctionMode`, which sees each function of torch that the caller's
thread calls, before it runs. What a function gives is what it would give anyway; only where an intervention names a
site is something else given on.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...errors import RecordError
from ...messages import Message
from ...nn.common import in_single
from ..interventions.edits import Region, changed_outputs
from ..interventions.value import OF_WEIGHTS, Intervention
from ..softmax_inputs import Weights, changed_given, with_changes
from .axes import Facts, LazyFact, Softmax, is_made, viewed
from .calls import Attention, MaskForms, four_axes, in_precision, inputs_of, of_one_batch, with_sums
from .functions import IN_ORDER, MOVES, RULES, After, Run, again, elementwise, functions, given
from .inside import Inside
from .paths import Paths
from .products import (
    Labels,
    Layout,
    Mixture,
    einsum_labels,
    fused_fact,
    matmul_labels,
    mixture,
    product_fact,
    projection_fact,
)

is_mapped = torch._C._functorch.is_functorch_wrapped_tensor
"""Whether a tensor is one of `torch.func.vmap`, which cannot be kept."""

SELECTING = frozenset(functions("index_select __getitem__"))
"""How a beam search arranges caches."""

HEADS = ("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads", "h")
"""What modules call their number of heads."""


class Arrival(NamedTuple):
    """What is done at an attention: its first row (None if all run at once), interventions, and how it is kept."""

    first: int | None
    asked: tuple[Intervention, ...]
    keep: Callable[[Attention], None]


class Watching(TorchFunctionMode):
    """Tells of each attention that this thread runs in a module, and follows what every tensor's axes come from.

    `idle` are paths of softmaxes that mix no values, `in_kernels` those of FlexAttention, `mapped` says whether an
    attention ran inside of `vmap`. Written-out weights are kept up to `most_bytes`, then none of their rows.
    """

    keeps_outputs: bool
    keeps_mixing: bool

    def __init__(self, module: nn.Module, most_bytes: int) -> None:
        super().__init__()
        self.paths, self.forms = Paths(module), MaskForms()
        self.facts = Facts(self.paths)
        self._calls = self.paths.calls
        self.idle: list[str] = []
        self.in_kernels: dict[str, None] = {}
        self.mapped, self.kept_bytes, self.most_bytes = False, 0, most_bytes

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See what the module runs inside."""
        self.facts = Facts(self.paths)
        try:
            with self.paths.tracked(), self:
                yield
        finally:
            self.facts.entries.clear()  # which hold tensors

    @abstractmethod
    def arrive(self, rows: Tensor, n_keys: int, values: Tensor, written: bool) -> Arrival:
        """A call begins, which mixes values (keys first); `rows` are its weights, if written out, or its queries."""

    def reordered(self, cache: Tensor, order: Tensor) -> None:
        """The batch of a tensor is selected by an order, between calls of submodules."""

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of torch, and see what it means for attention."""
        kwargs = kwargs or {}
        if len(self._calls) < 2 and func in SELECTING:
            order = args[-1] if len(args) > 1 else None
            if isinstance(order, Tensor) and order.dim() == 1 and not order.is_floating_point():
                self.reordered(args[0], order)
        if not self._calls:  # outside of the module's own calls nothing is its attention
            return func(*args, **kwargs)
        moves = MOVES.get(func)
        if moves is not None and args:  # the commonest first: this code runs between all functions of a model
            first, entries = args[0], self.facts.entries
            found = entries.get(id(first))
            entry = found[1] if found is not None and found[0]() is first else self.facts.entry(first)
            if entry is None:
                return func(*args, **kwargs)
            if not entry.of_softmax and (not moves or first.layout is torch.strided):
                result = func(*args, **kwargs)
                if result is not first:
                    if moves:
                        strides = None if moves is IN_ORDER and result.is_contiguous() else first.stride()
                        make = partial(viewed, entry, strides, result.shape, result.stride())
                        entry = LazyFact(None, make, None, entry.depth + 1)
                    entries[id(result)] = ref(result), entry
                return result
        around, after = HANDLERS.get(func, OTHERS)
        if after is elementwise and getattr(func, "__name__", "") == "flex_attention":
            self.in_kernels[self.paths.current.path] = None
        if around is not None:
            return around(self, partial(func, *args, **kwargs))
        result = func(*args, **kwargs)
        if after is not None:
            after(self.facts, partial(func, *args, **kwargs), result)
        return result

    def product(self, labels: Labels, left: Tensor, right: Tensor, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """A matrix product `of` two tensors: an attention, or what its axes come from."""
        if is_mapped(left):
            self.mapped = True
            return of(left, right)
        mixed = self.attended(labels, left, right, of)
        result = of(left, right) if mixed is None else mixed
        self.facts.follow(result, product_fact, (left, right), labels)
        return result

    def attended(
        self, labels: Labels, left: Tensor, right: Tensor, of: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor | None:
        """A product of two tensors, if one is a softmax's result and the other what it mixes; None if not."""
        for flipped, (weights, values) in enumerate(((left, right), (right, left))):
            known = self.facts.of_softmax(weights)
            if known is None or known.softmax is None or known.softmax.logged:
                continue
            given = self.facts.of(values)
            sides = (labels[flipped], labels[1 - flipped], labels[2])
            layout = mixture(sides, known, given, (weights.shape, values.shape))
            if layout is None:
                continue
            at = sides[1].index(sides[0][known.key_axis or 0])
            if given.parameter != known.parameter or (known.softmax.projected and is_made(given.axes[at])):
                self.idle.append(self.paths.current.path or known.softmax.path)
                return None
            again = (lambda w: of(w, right)) if not flipped else (lambda w: of(left, w))
            return self.written(layout, known.softmax, weights, values.movedim(at, 0), again)
        return None

    def fused(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], run: Callable[[], Tensor]) -> Tensor:
        """A call of fused attention: its result, changed where an intervention names the site."""
        q4, k4, v4, table = of_one_batch(q, k, v, options.get("attn_mask"))
        is_one = (q4.numel(), k4.numel(), v4.numel()) == (q.numel(), k.numel(), v.numel())
        options = options | {"attn_mask": table}
        summed = with_sums(q4, k4, v4, options) if is_one else None
        output = run() if summed is None else summed[0].reshape(*q.shape[:-1], v.shape[-1])
        source = inputs_of(q4, k4, options, self.forms, None if summed is None else summed[1])
        keys, heads = source.k.movedim(2, 0), four_axes(output)
        first, asked, keep = self.arrive(q4, k4.shape[2], keys, False)
        changed = heads
        if asked:
            source = replace(source, interventions=asked, first_row=first)
            changed = with_changes(asked, first, lambda: in_precision(source), v4, heads)
        notes = [Message("note_before_dropout")] if options.get("dropout_p") else []
        if any(entry.fact.picked for entry in map(self.facts.entry, (q, k)) if entry is not None):
            notes.append(Message("note_picked"))
        keep(Attention(tuple(self.paths.calls), source, keys, changed, v4, None, tuple(notes)))
        return output if changed is heads else changed.reshape(output.shape)

    def written(
        self, layout: Mixture, softmax: Softmax, weights: Tensor, values: Tensor, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """A product of a softmax's result and values, keys first: changed where an intervention names the site."""
        arranged = self.with_heads(layout.weights)
        out, mixing = (None if one is None else self.with_heads(one) for one in layout[1:3])
        used, sink, notes = arranged.arranged(weights), None, list[Message]()
        shown = used
        if softmax.clean is not None:
            shown = arranged.arranged(softmax.clean)
            notes.append(Message("note_before_dropout"))
        if softmax.picked:
            notes.append(Message("note_picked"))
        if layout.is_guessed:
            notes.append(Message("note_one_of", count=used.shape[1]))
        if softmax.whole is not None:
            shown, sink = arranged.wider().arranged(softmax.whole), softmax.sink
        first, asked, keep = self.arrive(shown, shown.shape[3], values, True)
        changed = used
        if asked:
            changed = changed_given(asked, first, used, None if sink is None else shown[..., [sink]])
        if changed is used:
            result = run(weights)
        else:
            result, shown, sink = run(arranged.restored(changed, weights.shape)), changed, None
        if any(one.action not in OF_WEIGHTS for one in asked):
            if out is None:
                raise RecordError("heads_are_summed", site=asked[0].site)
            region = Region.of_run(range(used.shape[1]), used.shape[2], first)
            result = out.restored(changed_outputs(out.arranged(result), asked, region), result.shape)
        output = None if out is None or not (self.keeps_outputs or self.keeps_mixing) else out.arranged(result)
        kept = in_single(shown.detach())
        self.kept_bytes += kept.nbytes
        if self.kept_bytes > self.most_bytes:
            kept = kept[:, :, :0]
        mixed = None if mixing is None else mixing.arranged(values)
        keep(Attention(tuple(self.paths.calls), Weights(kept), values, output, mixed, sink, tuple(notes)))
        if out is None or output is None or not self.keeps_mixing:
            return result
        return out.restored(output, result.shape)  # what goes on is made of what is kept

    def with_heads(self, layout: Layout) -> Layout:
        """Heads that lie beside one another in the batch's axis, of a module that says how many it has."""
        n_batch, n_heads, *rest = layout.shape
        if n_heads > 1:
            return layout
        calls = self.paths.calls[::-1][:3]
        counts = (getattr(self.paths.ran.get(call.path), name, None) for call in calls for name in HEADS)
        count = next((one for one in counts if type(one) is int and one > 1), 1)
        given = [one() for call in calls[:1] for one in call.inputs]
        sizes = {size for one in given if one is not None for size in one.shape[:2]}
        if count < 2 or n_batch % count or n_batch in sizes or n_batch // count not in sizes:
            return layout
        return replace(layout, shape=(n_batch // count, count, *rest))


# What follows runs a function, which may be attention.


def _fused(mode: Watching, run: Run) -> Any:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = {**dict(zip(names, run.args, strict=False)), **run.keywords}
    q, k, v = (given.pop(name) for name in names[:3])
    if is_mapped(q):
        mode.mapped = True
        return run()
    result = mode.fused(q, k, v, given, run)
    mode.facts.follow(result, fused_fact, (q, v), result.shape)
    return result


def _multihead(mode: Watching, run: Run) -> Any:
    query = given(run, 0, "query")
    with Inside(mode, int(given(run, 4, "num_heads")), query.shape[1] if query.dim() == 3 else 1):
        return run()


def _sum(mode: Watching, run: Run) -> Any:
    """A sum, which may be that of weights times values."""
    first = run.args[0]
    before, dim, mixed = mode.facts.of_softmax(first), given(run, 1, "dim"), None
    if before is not None and before.sides is not None and dim is not None:
        n, (left, right) = first.dim(), before.sides
        dims = {one % n for one in ((dim,) if isinstance(dim, int) else dim)}
        here, there = range(n - left.dim(), n), range(n - right.dim(), n)  # an axis that one lacks is the other's own
        labels = tuple(here), tuple(there), tuple(i for i in range(n) if i not in dims)
        mixed = mode.attended(labels, left, right, lambda a, b: again(run, a * b))
    return run() if mixed is None else mixed


def _linear(mode: Watching, run: Run) -> Any:
    x, weight = run.args[:2] if len(run.args) > 1 else (given(run, 0, "input"), run.keywords["weight"])
    if not isinstance(weight, nn.Parameter):
        bias = given(run, 2, "bias")
        return mode.product(matmul_labels(x.dim(), 2), x, weight.T, lambda a, b: run.func(a, b.T, bias))
    result = run()
    mode.facts.follow(result, projection_fact, [x], result.shape[-1], made_by=id(weight))
    return result


def _matmul(mode: Watching, run: Run) -> Any:
    left, right = run.args[0], run.args[1] if len(run.args) > 1 else next(iter(run.keywords.values()))
    if getattr(run.func, "__name__", "") == "__rmatmul__":
        return mode.product(matmul_labels(right.dim(), left.dim()), right, left, lambda a, b: a @ b)
    labels = matmul_labels(left.dim(), right.dim())
    return mode.product(labels, left, right, lambda a, b: run.func(a, b, *run.args[2:]))


def _added(mode: Watching, run: Run) -> Any:
    """`baddbmm`, `addmm`: a product is added to their first tensor."""
    if len(run.args) < 3:
        return run()
    added, left, right = run.args[:3]
    return mode.product(matmul_labels(left.dim(), right.dim()), left, right, lambda a, b: again(run, added, a, b))


def _einsum(mode: Watching, run: Run) -> Any:
    equation, *operands = run.args
    if isinstance(operands[0], (list, tuple)):
        operands = [*operands[0]]
    if isinstance(equation, str) and len(operands) == 2:
        left, right = operands
        labels = einsum_labels(equation, left.dim(), right.dim())
        if labels is not None:
            return mode.product(labels, left, right, lambda a, b: run.func(equation, a, b))
    return run()


def _tensordot(mode: Watching, run: Run) -> Any:
    left, right = run.args[:2]
    dims = given(run, 2, "dims", 2)
    if isinstance(dims, Tensor):
        return run()
    summed_axes = (range(left.dim() - dims, left.dim()), range(dims)) if isinstance(dims, int) else dims
    summed = {axis % right.dim(): other % left.dim() for other, axis in zip(*summed_axes, strict=True)}
    here = tuple(range(left.dim()))
    there = tuple(summed.get(axis, 100 + axis) for axis in range(right.dim()))
    labels = here, there, tuple(axis for axis in (*here, *there) if axis not in summed.values())
    return mode.product(labels, left, right, partial(again, run))


HANDLERS: dict[Any, tuple[Callable[[Watching, Run], Any] | None, After | None]] = {
    **{function: (None, rule) for function, rule in RULES.items()},
    **{
        function: (handler, None)
        for handler, names in (
            (_fused, "scaled_dot_product_attention"),
            (_multihead, "multi_head_attention_forward"),
            (_sum, "sum"),
            (_linear, "linear"),
            (_matmul, "matmul __matmul__ __rmatmul__ bmm mm mv"),
            (_added, "baddbmm addmm"),
            (_einsum, "einsum"),
            (_tensordot, "tensordot"),
        )
        for function in functions(names)
    },
}
"""What runs a function that may be attention, or else what is said of its result."""

OTHERS = None, elementwise
