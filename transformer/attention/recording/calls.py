"""One call of an attention, the steps of a decoder as one map, and heads that are modules of their own as one map."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.attention.changed import ChangedAttentionInputs, SoftmaxInputs
from transformer.attention.interventions.value import Intervention
from transformer.attention.masks_and_biases import BiasTable, mask_of
from transformer.attention.recording.paths import Call
from transformer.attention.softmax_inputs import AttentionInputs, Weights

CLOSE = 1e-4
"""How far two computations of the same values may lie apart, relative to the largest of them."""


@dataclass(frozen=True, eq=False)
class Attention:
    """One call of an attention: where it ran, what is kept of its softmax, and what its heads gave on.

    `inside` are the calls of modules around it, outermost first.
    `values` are what was mixed, with the keys as first axis: they tell the steps of a decoder from separate runs.
    """

    path: str
    inside: tuple[Call, ...]
    source: SoftmaxInputs = field(repr=False)
    values: Tensor = field(repr=False)
    output: Tensor | None = None
    sink: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a map that goes on: queries with what each may see and what is added, or weights."""

    queries: Tensor | None
    visible: Tensor | None
    bias: Tensor | None
    weights: Tensor | None
    output: Tensor | None
    interventions: tuple[Intervention, ...] = ()


@dataclass
class Chain:
    """Calls of one attention that are steps of one map: each adds a row, or computes all rows again and one more."""

    last: Attention
    kind: str = ""
    _before: list[_Rows] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        if self.kind == "again":
            return self.last.source.n_queries
        given = [one.queries if one.queries is not None else one.weights for one in self._before]
        return sum(one.shape[2] for one in given if one is not None) + self.last.source.n_queries

    def step(self, shape: tuple[int, int, int], values: Tensor, written: bool) -> str:
        """How a call of so many heads, queries and keys goes on with this map.

        `next` adds a row to those before, `again` computes all rows and a new one; empty where it is no step of this
        map. `written` is whether its weights are kept, and not queries and keys.
        """
        before, (n_heads, n_queries, n_keys) = self.last.source, shape
        if isinstance(before, Weights) != written or before.n_heads != n_heads:
            return ""
        if n_keys - before.n_keys not in (0, 1) or not _begin_with(values, self.last.values):
            return ""
        kind = "next" if n_queries == 1 else "again" if n_queries == before.n_queries + 1 else ""
        return kind if self.kind in ("", kind) else ""

    def add(self, call: Attention, kind: str) -> None:
        """Add the next step, of a kind that `step` told."""
        self._before.append(_rows(self.last, only_last=kind == "again" and bool(self._before)))
        self.last, self.kind = call, kind

    def whole(self) -> Attention:
        """All steps as one call."""
        if not self._before:
            return self.last
        rows = [*self._before, _rows(self.last, only_last=self.kind == "again")]
        outputs = [one.output for one in rows if one.output is not None]
        output = torch.cat(outputs, dim=2) if len(outputs) == len(rows) else None
        return replace(self.last, source=_one_source(rows, self.last.source), output=output)


def side_by_side(calls: Sequence[Attention]) -> Attention:
    """Calls of one head each, of modules that read the same, as one call of several heads."""
    outputs = [call.output for call in calls if call.output is not None]
    output = torch.cat(outputs, dim=1) if len(outputs) == len(calls) else None
    first, sources = calls[0], [call.source for call in calls]
    tables = [one.values for one in sources if isinstance(one, Weights)]
    if tables:
        source: SoftmaxInputs = Weights(torch.cat(tables, dim=1), None, first.source.notes)
        return replace(first, source=source, output=output)
    bases = [_base(one) for one in sources]
    bias = None
    if any(base.bias is not None for base in bases):
        bias = BiasTable(torch.cat([_bias(base) for base in bases], dim=1))
    queries, keys = (torch.cat([getattr(base, name) for base in bases], dim=1) for name in ("q", "k"))
    whole = replace(bases[0], q=queries, k=keys, bias=bias, known=None)
    changed = [replace(one, heads=(head,)) for head, source in enumerate(sources) for one in _interventions(source)]
    return replace(first, source=ChangedAttentionInputs.of(whole, tuple(changed)) if changed else whole, output=output)


def _begin_with(after: Tensor, before: Tensor) -> bool:
    if after.shape[1:] != before.shape[1:]:
        return False
    if after.shape == before.shape and after.data_ptr() == before.data_ptr():
        return True
    largest = before.detach().abs().max() if before.numel() else torch.zeros(())
    return bool(((after[: len(before)] - before).detach().abs() <= CLOSE * largest).all())


def _base(source: SoftmaxInputs) -> AttentionInputs:
    if isinstance(source, Weights):
        raise TypeError(source)
    return source.base if isinstance(source, ChangedAttentionInputs) else source


def _interventions(source: SoftmaxInputs) -> tuple[Intervention, ...]:
    return source.interventions if isinstance(source, ChangedAttentionInputs) else ()


def _rows(call: Attention, only_last: bool) -> _Rows:
    """What has to be kept of a step once the next one brings the keys."""
    start = -1 if only_last else 0
    output = None if call.output is None else call.output[:, :, start:]
    if isinstance(call.source, Weights):
        return _Rows(None, None, None, call.source.values[:, :, start:], output)
    base = _base(call.source)
    dense = base.mask.dense(base.n_queries, base.n_keys, torch.device("cpu"))
    shape = (len(base.q), 1, base.n_queries, base.n_keys)
    visible = torch.ones(shape, dtype=torch.bool) if dense is None else dense.cpu().expand(shape)
    bias = None if base.bias is None else _bias(base)[:, :, start:]
    return _Rows(base.q[:, :, start:], visible[:, :, start:], bias, None, output, _interventions(call.source))


def _one_source(rows: Sequence[_Rows], last: SoftmaxInputs) -> SoftmaxInputs:
    """One softmax of all rows over the keys of the last step; keys that a row did not have yet are hidden from it."""

    def wide(table: Tensor) -> Tensor:
        return F.pad(table, (0, last.n_keys - table.shape[3]))

    tables = [one.weights for one in rows if one.weights is not None]
    if tables:
        return Weights(torch.cat([wide(table) for table in tables], dim=2), None, last.notes)
    base, bias = _base(last), None
    if any(one.bias is not None for one in rows):
        shape = (len(base.q), base.n_heads)
        added = [
            one.bias if one.bias is not None else base.q.new_zeros(*shape, *one.visible.shape[2:])
            for one in rows
            if one.visible is not None
        ]
        bias = BiasTable(torch.cat([wide(table) for table in added], dim=2))
    queries = torch.cat([one.queries for one in rows if one.queries is not None], dim=2)
    visible = torch.cat([wide(one.visible) for one in rows if one.visible is not None], dim=2)
    whole = replace(base, q=queries, mask=mask_of(visible), bias=bias, known=None)
    changed = tuple(dict.fromkeys(each for one in rows for each in one.interventions))
    return ChangedAttentionInputs.of(whole, changed) if changed else whole


def _bias(base: AttentionInputs) -> Tensor:
    """What is added to the scores, as a table (batch, head, query, key)."""
    if base.bias is None:
        return base.q.new_zeros(len(base.q), base.n_heads, base.n_queries, base.n_keys)
    rows, keys, bias = slice(0, base.n_queries), slice(0, base.n_keys), base.bias
    parts = [torch.stack([bias.part(b, h, rows, keys) for h in range(base.n_heads)]) for b in range(len(base.q))]
    return torch.stack(parts)
