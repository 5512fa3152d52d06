"""Attentions as they were called, and their sites: steps of a decoder, and heads of a list of modules, are one map."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn import functional as F

from ...nn import fused
from ...nn.common import in_single
from ...nn.masks import Mask
from ...sites import Site
from ..softmax_inputs import AttentionInputs, SoftmaxInputs, Weights
from ..tables import Bias, BiasTable, MaskTable, bias_of, mask_of
from .paths import ModuleCall

CLOSE = 1e-4
"""How far two computations of the same values may lie apart, relative to the largest of them."""

SHARED = 3
"""A tensor that is at least this part of its memory keeps it: queries, keys and values of one projection."""


class MaskForms:
    """The smallest forms of the tables that fused attention is given; layers share that of their mask."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Tensor], int, tuple[Mask, Bias | None]]] = {}
        self._last: tuple[Tensor, tuple[Mask, Bias | None]] | None = None

    def of(self, table: Tensor, n_queries: int, n_keys: int) -> tuple[Mask, Bias | None]:
        """Mask and bias of a table; some layers make their own of the same numbers (T5)."""
        known, version = self._known.get(id(table)), 0 if table.is_inference() else table._version
        if known is not None and known[0]() is table and known[1] == version:
            return known[2]
        plain, last = table.detach(), None if table.dtype == torch.bool else self._last
        if last is not None and last[0].shape == plain.shape and torch.equal(last[0], plain):
            found = last[1]
        else:
            found = _forms(four_axes(plain), n_queries, n_keys)
            if plain.dtype != torch.bool:
                self._last = plain, found
        self._known[id(table)] = ref(table), version, found
        return found


def _forms(whole: Tensor, n_queries: int, n_keys: int) -> tuple[Mask, Bias | None]:
    whole = whole.expand(*whole.shape[:2], n_queries, n_keys)
    visible, added = whole, None
    if whole.dtype != torch.bool:
        visible, added = whole > torch.finfo(whole.dtype).min / 2, whole
        visible = visible | ((whole > -torch.inf) & ~visible.any(-1, keepdim=True))  # such a row spreads, as it ran
        if bool(visible.all()):
            return Mask(), bias_of(whole)
    some = visible[:, :1]
    if visible.shape[1] > 1 and not torch.equal(visible, some.expand_as(visible)):  # heads that see different keys
        some = visible.any(1, keepdim=True)
        base = torch.zeros((), device=whole.device) if added is None else added
        added = base.expand(whole.shape).masked_fill(some & ~visible, -torch.inf)
    return mask_of(some), None if added is None else bias_of(added, some)


def inputs_of(q: Tensor, k: Tensor, options: dict[str, Any], forms: MaskForms, known: Tensor | None) -> AttentionInputs:
    """What a call of fused attention read, of four axes, safe from later writing; `known` are its rows' log-sums."""
    table, causal, n_queries, n_keys = options.get("attn_mask"), bool(options.get("is_causal")), q.shape[2], k.shape[2]
    if table is not None:
        mask, bias = forms.of(table, n_queries, n_keys)
    elif causal and n_queries != n_keys:  # torch aligns the corners at the top left
        mask, bias = mask_of(torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool).tril()), None
    else:
        mask, bias = Mask(causal=causal), None
    return AttentionInputs(_alone(q.detach()), _alone(k.detach()), mask, _scale(q, options), bias, known)


def in_precision(source: AttentionInputs) -> AttentionInputs:
    """The same in single precision at least."""
    return replace(source, q=in_single(source.q), k=in_single(source.k))


def with_sums(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> tuple[Tensor, Tensor | None] | None:
    """What fused attention gives, to the bit, and the log-sum-exp of each row; None where that is not to be had."""
    causal, table = bool(options.get("is_causal")), options.get("attn_mask")
    if k.shape[2] < fused.FROM or options.get("dropout_p") or (causal and q.shape[2] != k.shape[2]):
        return None
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = (one.repeat_interleave(shared, dim=1) for one in (k, v))
    added = None if table is None else four_axes(table)
    if added is not None and added.dtype == torch.bool:  # as torch does: some rows at a time could have other bits
        added = q.new_zeros(added.shape).masked_fill(~added, -torch.inf)
    mixed = fused.summed_attention(q, k, v, causal, _scale(q, options), added)
    sums = fused.row_sums()
    if mixed is None or sums is None:
        return None
    return mixed, sums if bool((sums > torch.finfo(sums.dtype).min / 2).all()) else None  # a row that sees nothing


def _scale(q: Tensor, options: dict[str, Any]) -> float:
    """What fused attention multiplies dot products by."""
    scale = options.get("scale")
    return float(q.shape[-1] ** -0.5 if scale is None else scale)


def four_axes(x: Tensor) -> Tensor:
    """A tensor as (batch, head, position, features): missing axes are of length 1, more of them one batch."""
    if x.dim() == 4:
        return x
    if x.dim() == 3:
        return x[:, None]
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x.flatten(0, x.dim() - 4)


def of_one_batch(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys and values of a call as `four_axes`, and its table: of one batch, as torch broadcasts them.

    Keys have as many heads as they come with, which queries share, and queries at least as many.
    """
    most = max(q.dim(), k.dim(), v.dim())

    def whole(x: Tensor) -> Tensor:
        return four_axes(x) if most < 4 else x[(None,) * (most - x.dim())]

    several = [whole(one) for one in (q, k, v)]
    shown = [] if table is None else [whole(table)]
    batch = torch.broadcast_shapes(*(one.shape[:-3] for one in (*several, *shown)))
    if table is not None and most > 3 and (most > 4 or table.dim() == 3):
        table = shown[0].expand(*batch, *shown[0].shape[-3:])
    several[0] = several[0].expand(*batch, max(one.shape[-3] for one in several), *q.shape[-2:])
    q, k, v = (four_axes(one.expand(*batch, *one.shape[-3:])) for one in several)
    return q, k, v, table


def _alone(x: Tensor) -> Tensor:
    """A small part of a larger tensor (a cache, which goes on changing) by itself."""
    return x.clone() if x.untyped_storage().nbytes() > SHARED * x.nbytes else x


@dataclass(eq=False)
class Attention:
    """One call of an attention: where it ran, what is kept of its softmax, and what its heads gave on.

    `inside` are the calls of modules around it, outermost first. `values` are what was mixed, with the keys as first
    axis: they tell the steps of a decoder from separate runs; `mixed` are these as (batch, head, key, d_v), where that
    is known. `kind` says how it goes on with the map of the call before: `next` adds a row to it, `again` computes all
    rows and a new one. `number` counts calls. `in_place`: what it mixed is the very tensor of the step before. `order`
    is how a beam search arranged the batch anew after it. `read` is the shape of what the outermost call read.
    """

    inside: tuple[ModuleCall, ...]
    kept: SoftmaxInputs = field(repr=False)
    values: Tensor = field(repr=False)
    output: Tensor | None = None
    mixed: Tensor | None = None
    sink: int | None = None
    notes: tuple[str, ...] = ()
    kind: str = ""
    number: int = 0
    in_place: bool = False
    order: Tensor | None = None
    read: tuple[int, ...] = ()

    @cached_property
    def source(self) -> SoftmaxInputs:
        """What is kept, in single precision at least."""
        return in_precision(self.kept) if isinstance(self.kept, AttentionInputs) else self.kept


Steps = list[Attention]
"""Calls of one attention that make one map."""


def kind_of_step(steps: Steps, rows: Tensor, n_keys: int, values: Tensor, written: bool) -> str:
    """How a call with so many keys goes on with a map (`Attention.kind`); empty where it does not.

    `rows` are its weights, where they are kept (`written`), else its queries (batch, head, query, _). A run that began
    anew is told by keys that grow no more, by equal values in another place, or by its first row.
    """
    last, (n_heads, n_queries) = steps[-1], rows.shape[1:3]
    before, more = last.kept, n_keys - last.kept.n_keys
    if isinstance(before, Weights) != written or before.n_heads != n_heads or more not in (0, 1):
        return ""
    kind = "next" if n_queries == 1 else "again" if n_queries == before.n_queries + 1 else ""
    if not kind or last.kind not in ("", kind) or not _begin_with(values, _ordered(last.values, last.order)):
        return ""
    if kind == "next" and not more:
        moved = last.in_place and last.order is None and not is_same(values, last.values)
        if moved or steps[0].kept.n_keys < before.n_keys or _is_first_row(steps[0].kept, rows):
            return ""
    return kind


def _is_first_row(first: SoftmaxInputs, row: Tensor) -> bool:
    """Whether a row is to the bit that of a map, and not one that many have: all keys alike, or one alone."""
    row = in_single(row.detach())
    if isinstance(first, Weights):
        told = bool((row.amax(-1) > torch.where(row > 0, row, torch.inf).amin(-1)).any())
        return told and torch.equal(first.values[:, :, :1], row)
    return torch.equal(in_single(first.q[:, :, :1]), row)


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same place."""
    return one.shape == other.shape and one.data_ptr() == other.data_ptr()


def _ordered(values: Tensor, order: Tensor | None) -> Tensor:
    """What was mixed, keys first, with its batch in another order; heads may lie beside the batch."""
    if order is None or values.shape[1] % len(order):
        return values
    return values.unflatten(1, (len(order), -1))[:, order].flatten(1, 2)


def in_order(call: Attention, order: Tensor) -> Attention:
    """The rows of a step with their batch in another order."""
    return _with_rows(call, lambda table: table[order] if len(table) > 1 else table)


def _with_rows(call: Attention, of: Callable[[Tensor], Tensor]) -> Attention:
    """A call whose tables of rows are made other ones."""
    rows, output = call.source, None if call.output is None else of(call.output)
    if isinstance(rows, Weights):
        return replace(call, kept=replace(rows, values=of(rows.values)), output=output)
    visible, bias = MaskTable(visible=of(_visible(rows))), None if rows.bias is None else BiasTable(of(_bias(rows)))
    return replace(call, kept=replace(rows, q=of(rows.q), mask=visible, bias=bias, known=None), output=output)


def _begin_with(after: Tensor, before: Tensor) -> bool:
    if after.shape[1:] != before.shape[1:]:
        return False
    if is_same(after, before):
        return True
    largest = before.detach().abs().max() if before.numel() else torch.zeros(())
    return bool(((after[: len(before)] - before).detach().abs() <= CLOSE * largest).all())


def new_rows(call: Attention) -> Attention:
    """Of a step, what is not known once the next one brings the keys: the rows that it adds."""
    start = -1 if call.kind == "again" else 0
    found = _with_rows(call, lambda table: table[:, :, start:])
    if isinstance(found.kept, AttentionInputs):
        found.kept = replace(found.kept, k=found.kept.k.new_empty(1).expand_as(found.kept.k))  # lets go its memory
    return replace(found, values=call.values.new_empty(0))


def one_map(steps: Steps) -> Attention:
    """All steps as one call."""
    if len(steps) == 1:
        return steps[0]
    return _joined([*steps[:-1], new_rows(steps[-1])], 2, steps[-1])


def _joined(calls: Sequence[Attention], axis: int, like: Attention) -> Attention:
    """Calls as one like another: heads side by side (axis 1), or rows one below the other (2).

    Keys that a row did not have yet are hidden from it.
    """
    kept, last = [call.source for call in calls], like.source
    outputs = [call.output for call in calls if call.output is not None]
    output = torch.cat(outputs, dim=axis) if len(outputs) == len(calls) else None

    def joined(tables: Sequence[Tensor]) -> Tensor:
        return torch.cat([F.pad(table, (0, last.n_keys - table.shape[3])) for table in tables], dim=axis)

    if isinstance(last, Weights):
        table = joined([one.values for one in kept if isinstance(one, Weights)])
        return replace(like, kept=Weights(table, None, last.notes), output=output)
    bases = [one for one in kept if isinstance(one, AttentionInputs)]
    bias = BiasTable(joined([_bias(one) for one in bases])) if any(one.bias is not None for one in bases) else None
    q = torch.cat([one.q for one in bases], dim=axis)
    whole = replace(last, q=q, bias=bias, known=None, first_row=None)
    if axis == 1:
        changes = [replace(one, heads=(head,)) for head, base in enumerate(bases) for one in base.interventions]
        whole = replace(whole, k=torch.cat([one.k for one in bases], dim=1), interventions=tuple(changes))
    else:
        changes = [one for base in bases for one in base.interventions]
        mask = mask_of(joined([_visible(one) for one in bases]))
        whole = replace(whole, mask=mask, interventions=tuple(dict.fromkeys(changes)))
    return replace(like, kept=whole, output=output)


def _visible(base: AttentionInputs) -> Tensor:
    """Who sees whom, as a table (batch, 1, query, key)."""
    shape = (base.n_sentences, 1, base.n_queries, base.n_keys)
    dense = base.mask.dense(base.n_queries, base.n_keys, torch.device("cpu"))
    return torch.ones(shape, dtype=torch.bool) if dense is None else dense.cpu().expand(shape)


def _bias(base: AttentionInputs) -> Tensor:
    """What is added to the scores, as a table (batch, head, query, key)."""
    if base.bias is None:
        return base.q.new_zeros(base.sizes)
    rows, keys, bias = slice(0, base.n_queries), slice(0, base.n_keys), base.bias
    parts = [[bias.part(b, h, rows, keys) for h in range(base.n_heads)] for b in range(base.n_sentences)]
    return torch.stack([torch.stack(heads).expand(-1, base.n_queries, -1) for heads in parts])


def named(every: Mapping[str, Sequence[Steps]]) -> dict[Site, Attention]:
    """The calls by site: steps joined, heads side by side; `#1`, `#2` where one module attends more than once.

    Where several modules of a list are a head each, they are one map.
    """
    found: dict[str, Attention] = {}
    for path, several in every.items():
        for i, steps in enumerate(several):
            found[path if len(several) == 1 else f"{path}#{i + 1}"] = one_map(steps)
    groups: dict[tuple[str, object], list[tuple[int, str]]] = {}
    for name, call in found.items():
        path, mark, number = name.partition("#")
        for inside in call.inside if call.kept.n_heads == 1 else ():
            container, _, index = inside.path.rpartition(".")
            if inside.side is not None:
                key = (container + path.removeprefix(inside.path) + mark + number, inside.side)
                groups.setdefault(key, []).append((int(index), name))
    together: dict[str, tuple[str, list[str]]] = {}
    for (site, _), members in groups.items():
        names = [name for _, name in sorted(members)]
        shapes = {found[name].kept.sizes[2:] for name in names}
        if len(names) > 1 == len(shapes) and site not in found and not any(name in together for name in names):
            together |= dict.fromkeys(names, (site, names))
    result: dict[Site, Attention] = {}
    for name, call in found.items():
        site, names = together.get(name, (name, [name]))
        if Site(site) not in result:
            heads = [found[one] for one in names]
            result[Site(site)] = _joined(heads, 1, heads[0]) if len(heads) > 1 else call
    return result


def places_in_lists(path: str) -> Sequence[tuple[str, str, int]]:
    """The ways to read a path as a head of a list: what stands before its number, behind it, and the number."""
    parts = path.split(".")
    return [
        (".".join(parts[:i]), "".join(f".{part}" for part in parts[i + 1 :]), int(part))
        for i, part in enumerate(parts)
        if i and part.isdigit()
    ]
