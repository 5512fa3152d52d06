"""What was seen while a module ran: its attention by site, and what of it could not be seen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transformer.attention.capture import Recording
from transformer.attention.changed import ChangedQueriesKeys, SoftmaxInputs, with_changes
from transformer.attention.masks_and_biases import bias_of, mask_of
from transformer.attention.record import AttentionMap, Record
from transformer.attention.softmax_inputs import QueriesKeys, Weights
from transformer.errors import RecordError
from transformer.interventions.active import active, interventions
from transformer.interventions.edits import OF_WEIGHTS, Place, changed_outputs, changed_weights, check_positions, selected
from transformer.interventions.value import Intervention
from transformer.layers.masks import Mask
from transformer.layers.rows import going_on
from transformer.messages import Message
from transformer.models.common import in_single
from transformer.pictures.axes import Axis
from transformer.recording.axes import Softmax
from transformer.recording.calls import Attention, Chain, side_by_side
from transformer.recording.labels import Given, Labelling
from transformer.recording.mixing import Layout, Mixture, split_heads
from transformer.recording.paths import Call, Paths
from transformer.recording.unseen import notes_of
from transformer.sites import Site

MOST_BYTES = 2 * 1024**3
"""Bytes of written-out weights that one recording keeps, unless told otherwise."""

HEADS = ("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads", "h")
"""What modules call their number of heads."""


@dataclass
class ModuleRecording(Recording):
    """The attention of a module's runs, by the path of the submodule in which each ran.

    `most_bytes` bounds what written-out softmaxes keep, which is a number for each query and key.
    """

    module: nn.Module = field(kw_only=True, repr=False)
    most_bytes: int = field(default=MOST_BYTES, kw_only=True)

    def __post_init__(self) -> None:
        self.paths = Paths(self.module)
        self._chains: dict[str, list[Chain]] = {}
        self._idle: list[str] = []
        self._masks: dict[int, tuple[Tensor, int, Mask]] = {}
        self._kept_bytes = 0
        self._found: dict[Site, Attention] = {}
        self._root = type(self.module).__name__

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites that ran, in order."""
        return tuple(self._resolved())

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not seen, by name, and what else differs from a run that nobody records."""
        found = self._resolved()
        said = dict.fromkeys(note for call in found.values() for note in call.notes)
        others = notes_of(self.module, self.paths.ran, found, self._idle)
        if not found and not others:
            others = (Message("nothing_seen_at_all"),)
        if not self.paths.ran:
            others = (Message("nothing_ran_in_module", name=self._root),)
        return (*said, *others)

    def source(self, site: str) -> SoftmaxInputs:
        """What was kept of a site.

        Raises:
            RecordError: nothing ran there, or more was written out than `most_bytes`.
        """
        call = self._resolved().get(Site(site))
        if call is None:
            raise RecordError("site_did_not_run", site=site, sites=self.sites or self._nothing())
        if not call.source.n_queries:
            raise RecordError("weights_not_kept", site=site, most=self.most_bytes)
        return call.source

    def map(self, site: str, queries: Axis | None = None, keys: Axis | None = None, batch: int = 0) -> AttentionMap:
        """The attention of one batch element; without axes, positions are its labels."""
        source = self.source(site)
        call = self._resolved()[Site(site)]
        if call.sink:
            keys = self._with_sink(call, keys)
        found = super().map(site, queries, keys, batch)
        own = source.interventions if isinstance(source, ChangedQueriesKeys) else ()
        return replace(found, notes=call.notes, interventions=tuple(dict.fromkeys((*own, *self.interventions))))

    def outputs(self, site: str) -> Tensor:
        """What the heads of a site gave on (batch, head, query, d_v).

        Raises:
            RecordError: outputs were not kept, or the site did not run, or its heads were summed over.
        """
        if not self.keeps_outputs:
            raise RecordError("donor_without_outputs")
        self.source(site)
        output = self._resolved()[Site(site)].output
        if output is None:
            raise RecordError("heads_are_summed", site=site)
        return output

    def record(
        self, queries: Given = None, keys: Given = None, *, batch: int = 0, model: str = "", text: str = ""
    ) -> Record:
        """Everything that was seen of one batch element, with labels: by their length, or by site where two fit.

        Raises:
            RecordError: nothing was seen (it says where, and why); labels fit no axis, or two lists of them fit one.
        """
        labels = Labelling(queries, keys)
        maps = {}
        for site, call in self._resolved().items():
            n_keys = call.source.n_keys - bool(call.sink)
            axes = labels.axis("queries", site, call.source.n_queries), labels.axis("keys", site, n_keys)
            maps[site] = self.map(site, *axes, batch)
        if not maps:
            raise RecordError("nothing_seen", notes=self.notes)
        labels.refuse_unused()
        return Record(maps)

    # What the watching mode tells.

    def fused(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], run: Callable[[], Tensor]) -> Tensor:
        """A call of fused attention: its result, changed where an intervention names the site."""
        output = run()
        q4, k4, v4, output4 = (_four(one) for one in (q, k, v, output))
        base = self._inputs(q4.detach(), k4.detach(), options)
        values = v4.movedim(2, 0)
        arrival = self._arrive((q4.shape[1], q4.shape[2], k4.shape[2]), values, written=False)
        changed, source = output4, base
        if arrival.asked:
            with going_on():
                changed = with_changes(arrival.asked, arrival.first, lambda: base, v4, output4)
            source = ChangedQueriesKeys(base, arrival.asked, arrival.first)
        notes = (Message("note_before_dropout"),) if options.get("dropout_p") else ()
        self._keep(arrival, self._call(arrival, source, values, changed, notes))
        return output if changed is output4 else changed.reshape(output.shape)

    def mixed(
        self, layout: Mixture, softmax: Softmax, weights: Tensor, values: Tensor, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """A product of a softmax's result and values: its result, changed where an intervention names the site."""
        arranged, out = (None if one is None else self._with_heads(one) for one in (layout.weights, layout.output))
        assert arranged is not None
        used, notes = arranged.arranged(weights), []
        shown = used
        if softmax.clean is not None:
            shown = arranged.arranged(softmax.clean)
            notes.append(Message("note_before_dropout"))
        sink = ""
        if softmax.whole is not None:
            shown = arranged.wider().arranged(softmax.whole)
            sink = "first" if softmax.sink_first else "last"
        back = partial(arranged.restored, shape=weights.shape)
        return self._written(used, shown, values, lambda w: run(back(w)), run, weights, out, sink, tuple(notes))

    def of_heads(
        self, weights: Tensor, values: Tensor, n_heads: int, n_batch: int, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Attention that is written out inside of `multi_head_attention_forward`."""
        used = weights.unflatten(0, (n_batch, n_heads))
        width = values.shape[-1]
        shape = (n_batch, n_heads, weights.shape[1], width)
        out = Layout((n_batch * n_heads, weights.shape[1], width), (0, 1, 2), shape)
        keys = values.movedim(1, 0)
        return self._written(used, used, keys, lambda w: run(w.flatten(0, 1)), run, weights, out, "", ())

    def idle(self, path: str, softmax: Softmax) -> None:
        """A softmax whose result mixes no values."""
        self._idle.append(path or softmax.path or self._root)

    def _written(
        self,
        used: Tensor,
        shown: Tensor,
        values: Tensor,
        rerun: Callable[[Tensor], Tensor],
        run: Callable[[Tensor], Tensor],
        weights: Tensor,
        out: Layout | None,
        sink: str,
        notes: tuple[str, ...],
    ) -> Tensor:
        arrival = self._arrive((used.shape[1], used.shape[2], shown.shape[3]), values, written=True)
        here, first = arrival.asked, arrival.first
        if not here:
            result = run(weights)
        else:
            changed = self._changed_weights(here, first, used, shown if sink else None, sink)
            result = run(weights) if changed is used else rerun(changed)
            shown = changed if changed is not used else shown
            sink = "" if changed is not used else sink
            result = self._changed_output(here, first, result, out, used)
        output = None
        if out is not None and self.keeps_outputs:
            output = out.arranged(result)
        kept = in_single(shown.detach())
        self._kept_bytes += kept.nbytes
        if self._kept_bytes > self.most_bytes:
            kept = kept[:, :, :0]
        self._keep(arrival, self._call(arrival, Weights(kept), values, output, notes, sink))
        return result

    def _call(
        self,
        arrival: "_Arrival",
        source: SoftmaxInputs,
        values: Tensor,
        output: Tensor | None,
        notes: tuple[str, ...],
        sink: str = "",
    ) -> Attention:
        return Attention(arrival.path, tuple(self.paths.calls), source, values.detach(), output, sink, notes)

    @staticmethod
    def _changed_weights(
        here: tuple[Intervention, ...], first: int | None, used: Tensor, whole: Tensor | None, sink: str
    ) -> Tensor:
        n_heads, n_queries, n_keys = used.shape[1:]
        with going_on():
            check_positions(here, n_heads, n_queries, n_keys)
        mine = tuple(one for one in here if one.action in OF_WEIGHTS)
        place = Place(tuple(range(n_heads)), first or 0, n_queries if first is None else None)
        rows = [selected(one, place, n_queries, used.device) for one in mine]
        if not rows or not bool(torch.stack(rows).any()):
            return used
        rest = None if whole is None else whole[..., :1] if sink == "first" else whole[..., -1:]
        found = changed_weights(used.log(), used > 0, mine, place, None if rest is None else rest.log())
        return torch.where(torch.stack(rows).any(0), found, used)

    @staticmethod
    def _changed_output(
        here: tuple[Intervention, ...], first: int | None, result: Tensor, out: Layout | None, used: Tensor
    ) -> Tensor:
        if not any(one.action not in OF_WEIGHTS for one in here):
            return result
        if out is None:
            raise RecordError("heads_are_summed", site=here[0].site)
        place = Place(tuple(range(used.shape[1])), first or 0, used.shape[2] if first is None else None)
        arranged = out.arranged(result)
        changed = changed_outputs(arranged, here, place)
        return result if changed is arranged else out.restored(changed, result.shape)

    def _inputs(self, q: Tensor, k: Tensor, options: dict[str, Any]) -> QueriesKeys:
        """What fused attention computes its softmax from."""
        scale = options.get("scale")
        table, causal = options.get("attn_mask"), bool(options.get("is_causal"))
        n, m = q.shape[2], k.shape[2]
        mask, bias = Mask(causal=causal), None
        if causal and n != m:  # torch aligns the corners at the top left
            mask = mask_of(torch.ones(1, 1, n, m, dtype=torch.bool).tril(), causal=False)
        if table is not None:
            mask, bias = self._mask_and_bias(table, n, m)
        return QueriesKeys(_own(q), _own(k), mask, q.shape[-1] ** -0.5 if scale is None else float(scale), bias)

    def _mask_and_bias(self, table: Tensor, n: int, m: int) -> tuple[Mask, Any]:
        """A table of who sees whom, or of numbers that are added; layers that share it share its form."""
        known = self._masks.get(id(table))
        if known is not None and known[0] is table and known[1] == table._version:
            return known[2]  # type: ignore[return-value]
        whole = _four(table).detach()
        whole = whole.expand(*whole.shape[:2], n, m)
        bias = None
        if whole.dtype != torch.bool:
            visible = whole > torch.finfo(whole.dtype).min / 2
            added = whole.masked_fill(~visible, 0.0)
            bias = bias_of(added) if bool(added.any()) else None
            whole = visible
        if whole.shape[1] > 1:
            own = in_single(q_zeros(whole)).masked_fill(~whole, -torch.inf)
            some = whole.any(1, keepdim=True)
            if not bool((own.isinf() & some).any()):
                own = None
            whole = some
            if own is not None:
                extra = own.masked_fill(~some, 0.0)
                bias = bias_of(extra if bias is None else extra + added)
        found = mask_of(whole, causal=False), bias
        self._masks[id(table)] = (table, table._version, found)  # type: ignore[assignment]
        return found

    def _with_heads(self, layout: Layout) -> Layout:
        """Heads that lie beside one another in the batch's axis, of a module that says how many it has."""
        n_batch, n_heads = layout.shape[:2]
        calls = self.paths.calls[::-1][:3]
        told = next((n for call in calls for n in _heads(self.paths.ran.get(call.path))), 1)
        given = [one() for call in calls[:1] for one in call.inputs]
        sizes = {size for one in given if one is not None for size in one.shape[:2]}
        if n_heads > 1 or told < 2 or n_batch % told or n_batch in sizes or n_batch // told not in sizes:
            return layout
        return split_heads(layout, told)

    def _arrive(self, shape: tuple[int, int, int], values: Tensor, written: bool) -> "_Arrival":
        """A new call of so many heads, queries and keys: where it runs, what it goes on with, what is to be done there."""
        now = self.paths.current
        path = now.path or self._root
        chains = self._chains.setdefault(path, [])
        kinds = [chain.step(shape, values, written) for chain in chains]
        at = next((i for i, kind in enumerate(kinds) if kind), len(chains))
        kind = kinds[at] if at < len(chains) else ""
        first = chains[at].n_rows if kind == "next" else 0 if shape[1] == 1 else None
        return _Arrival(path, at, kind, first, self._asked(path, at + 1))

    def _asked(self, path: str, ordinal: int) -> tuple[Intervention, ...]:
        """What is to be done at a call: at its path, at its number there, or at the list of heads that it is one of."""
        asked = active()
        if asked is None:
            return ()
        found = [*asked.at(Site(path)), *asked.at(Site(f"{path}#{ordinal}"))]
        for container, rest, number in _lists(path):
            mine = [one for one in asked.at(Site(container + rest)) if one.touches_head(number)]
            found += [replace(one, heads=(0,)) for one in mine]
        return tuple(found)

    def _keep(self, arrival: "_Arrival", call: Attention) -> None:
        self.interventions = tuple(dict.fromkeys([*self.interventions, *interventions()]))
        call = call if self.keeps_outputs else replace(call, output=None)
        chains = self._chains[arrival.path]
        if arrival.kind:
            chains[arrival.chain].add(call, arrival.kind)
        else:
            chains.append(Chain(call))
        self._found = {}

    def _resolved(self) -> dict[Site, Attention]:
        """Every site with its attention, in order."""
        if not self._found:
            self._found = named(self._chains)
        return self._found

    def _with_sink(self, call: Attention, keys: Axis | None) -> Axis:
        n = call.source.n_keys - 1
        axis = keys or Axis.of_tokens(Message("axis_key"), [str(i) for i in range(n)])
        if len(axis) != n:
            return axis
        sink = Axis(axis.name, (Message("label_sink"),), (0,), (True,))
        return sink.joined(axis, axis.name) if call.sink == "first" else axis.joined(sink, axis.name)

    def _nothing(self) -> Message:
        return Message("nothing_seen", notes=self.notes)


@dataclass(frozen=True)
class _Arrival:
    """A call of an attention: where it runs, the map that it goes on with and how, its first row, what is asked there."""

    path: str
    chain: int
    kind: str
    first: int | None
    asked: tuple[Intervention, ...]


def named(chains: Mapping[str, Sequence[Chain]]) -> dict[Site, Attention]:
    """The calls by site: steps joined, heads side by side; `#1`, `#2` where one module attends more than once."""
    found: dict[str, Attention] = {}
    for path, several in chains.items():
        for i, each in enumerate(several):
            found[path if len(several) == 1 else f"{path}#{i + 1}"] = each.whole()
    return _grouped(found)


def _grouped(found: dict[str, Attention]) -> dict[Site, Attention]:
    """One map where several modules of a list are a head each."""
    groups: dict[tuple[str, object], list[tuple[int, str]]] = {}
    for name, call in found.items():
        path, mark, number = name.partition("#")
        if call.source.n_heads != 1:
            continue
        for inside in call.inside:
            container, _, index = inside.path.rpartition(".")
            if inside.side is not None:
                rest = path.removeprefix(inside.path)
                key = (container + rest + mark + number, inside.side)
                groups.setdefault(key, []).append((int(index), name))
    site_of: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for (site, _), heads in groups.items():
        shapes = {(found[name].source.n_queries, found[name].source.n_keys) for _, name in heads}
        if len(heads) > 1 and len(shapes) == 1 and site not in found and not any(name in site_of for _, name in heads):
            members[site] = [name for _, name in sorted(heads)]
            site_of.update({name: site for _, name in heads})
    result: dict[Site, Attention] = {}
    for name, call in found.items():
        site = site_of.get(name, name)
        if Site(site) not in result:
            result[Site(site)] = side_by_side([found[one] for one in members[site]]) if site in members else call
    return result


def _lists(path: str) -> Sequence[tuple[str, str, int]]:
    """The ways to read a path as a head of a list: what stands before its number, behind it, and the number."""
    parts = path.split(".")
    return [
        (".".join(parts[:i]), "".join(f".{part}" for part in parts[i + 1 :]), int(part))
        for i, part in enumerate(parts)
        if i and part.isdigit()
    ]


def _heads(module: nn.Module | None) -> list[int]:
    found = [getattr(module, name, None) for name in HEADS]
    return [one for one in found if type(one) is int and one > 1][:1]


def _four(x: Tensor) -> Tensor:
    """A tensor as (batch, head, position, features): missing axes are of length 1, more of them one batch."""
    if x.dim() == 3:
        return x[:, None]
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x.flatten(0, x.dim() - 4)


def _own(x: Tensor) -> Tensor:
    """A part of a larger tensor by itself: a slice would keep the whole of it."""
    return in_single(x.clone() if x.untyped_storage().nbytes() > x.nbytes else x)


def q_zeros(table: Tensor) -> Tensor:
    """Zeros of a table's shape."""
    return torch.zeros(table.shape)
