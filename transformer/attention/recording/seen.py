"""What was seen while a module ran: its attention by site, and what of it could not be seen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from transformer.attention.capture import Recording
from transformer.attention.changed import ChangedAttentionInputs, SoftmaxInputs, with_changes
from transformer.attention.interventions.active import active, interventions
from transformer.attention.interventions.value import Intervention
from transformer.attention.record import AttentionMap, Record
from transformer.attention.recording.acting import acted_on_output, acted_on_weights, of_one_head
from transformer.attention.recording.axes import Softmax
from transformer.attention.recording.calls import Attention, Chain
from transformer.attention.recording.expected_file import ArrayLike, save_expected
from transformer.attention.recording.fused import FusedCall, FusedInputs, four_axes, with_sums
from transformer.attention.recording.labels import Given, Labelling
from transformer.attention.recording.mixing import Layout, Mixture, split_heads
from transformer.attention.recording.naming import named, places_in_lists
from transformer.attention.recording.paths import COMPILED, Call, Paths
from transformer.attention.recording.unseen import notes_of
from transformer.attention.recording.watching import Watching
from transformer.attention.softmax_inputs import Weights
from transformer.errors import InputError, RecordError
from transformer.messages import Message
from transformer.nn import fused
from transformer.nn.common import in_single
from transformer.plots.axes import Axis
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

    defers: ClassVar[bool] = True
    """Whether first calls of fused attention are put into their form when somebody asks for them."""

    module: nn.Module = field(kw_only=True, repr=False)
    most_bytes: int = field(default=MOST_BYTES, kw_only=True)

    def __post_init__(self) -> None:
        self.paths = Paths(self.module)
        self._chains: dict[str, list[Chain]] = {}
        self._idle: list[str] = []
        self._inputs = FusedInputs()
        self._waiting: dict[str, tuple[FusedCall, tuple[Call, ...]]] = {}
        self._kept_bytes = 0
        self._mapped = False
        self._found: dict[Site, Attention] = {}
        self._root = type(getattr(self.module, COMPILED, self.module)).__name__

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
            others = (Message("not_seen_in", names=(self._root,)),)
        if not self.paths.ran:
            others = (Message("nothing_ran_in_module", name=self._root),)
        if self._kept_bytes:
            size, most = (f"{n / 2**20:,.1f}" for n in (self._kept_bytes, self.most_bytes))
            others = (*others, Message("written_out_kept", size=size, most=most))
        if self._mapped and not found:
            others = (Message("not_seen_mapped"),)
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
        if not 0 <= batch < source.n_sentences:
            raise RecordError("not_in_site", what="batch", index=batch, site=site, last=source.n_sentences - 1)
        if call.sink:
            keys = self._with_sink(call, keys)
        found = super().map(site, queries, keys, batch)
        own = source.interventions if isinstance(source, ChangedAttentionInputs) else ()
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
        self,
        queries: Given = None,
        keys: Given = None,
        *,
        batch: int = 0,
        grid: tuple[int, int] | None = None,
        model: str = "",
        text: str = "",
    ) -> Record:
        """Everything that was seen of one batch element, with labels: by their length, or by site where two fit.

        `grid` are rows and columns of a picture's patches: axes of so many positions, and a few tokens before them,
        are drawn as pictures. Labels of pieces with offsets are `Axis.of_offsets(...)`.

        Raises:
            RecordError: nothing was seen (it says where, and why); labels or the grid fit no axis, or two lists of
                labels fit one.
        """
        labels = Labelling(queries, keys, grid)
        maps = {}
        for site, call in self._resolved().items():
            n_keys = call.source.n_keys - bool(call.sink)
            axes = labels.axis("queries", site, call.source.n_queries), labels.axis("keys", site, n_keys)
            maps[site] = self.map(site, *axes, batch)
        if not maps:
            raise RecordError("nothing_seen", notes=self.notes)
        labels.refuse_unused()
        return Record(maps, model or self._root, text)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See what the module runs inside."""
        with self.paths.followed(), Watching(self):
            yield

    def expected(
        self, path: str | Path, inputs: ArrayLike, output: ArrayLike | None = None, targets: ArrayLike | None = None
    ) -> None:
        """Save what `check_file` and `find_answers` compare a checkpoint with: an .npz of ids, maps and the output.

        `inputs` are the ids that the module read in the block, batch first, `targets` those of a decoder beside it. All
        maps of the batch are kept, by site, in the precision in which they were computed: after `module.double()`, to
        1e-9. O(batch x head x query x key) memory.

        ```python
        module.double().eval()
        with torch.no_grad(), recording(module) as seen:
            scores = module(ids)
        seen.expected("expected.npz", inputs=ids, output=scores)
        ```

        Raises:
            RecordError: nothing was seen (it says where, and why), or what was seen is of another number of sentences.
        """
        if not self.sites:
            raise RecordError("nothing_seen", notes=self.notes)
        save_expected(self, path, inputs, output, targets)

    # What the watching mode tells.

    def fused(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], run: Callable[[], Tensor]) -> Tensor:
        """A call of fused attention: its result, changed where an intervention names the site."""
        summed = None
        if k.shape[-2] >= fused.FROM:
            summed = with_sums(four_axes(q), four_axes(k), four_axes(v), options)
        output = run() if summed is None else summed[0].reshape(*q.shape[:-1], v.shape[-1])
        kept = output if self.keeps_outputs else None
        call = self._inputs.of(q, k, options, kept, None if summed is None else summed[1])
        path = self.paths.current.path or self._root
        if self.defers and path not in self._chains and path not in self._waiting and active() is None:
            self._waiting[path] = call, tuple(self.paths.calls)
            return output
        base, keys, v4, output4 = call.inputs, call.keys, four_axes(v), four_axes(output)
        arrival = self._arrive((base.n_heads, base.n_queries, base.n_keys), keys, written=False)
        changed = output4
        source: SoftmaxInputs = base
        if arrival.asked:
            changed = with_changes(arrival.asked, arrival.first, lambda: base, v4, output4)
            source = ChangedAttentionInputs.of(base, arrival.asked, arrival.first)
        self._keep(arrival, source, keys, v4, changed, _notes(call))
        return output if changed is output4 is output else changed.reshape(output.shape)

    def written(
        self, layout: Mixture, softmax: Softmax, weights: Tensor, values: Tensor, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """A product of a softmax's result and values: its result, changed where an intervention names the site."""
        arranged = self._with_heads(layout.weights)
        out = None if layout.output is None else self._with_heads(layout.output)
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
        mixed = None if layout.values is None else self._with_heads(layout.values).arranged(values)
        return self._written_out(
            used, shown, values, mixed, lambda w: run(back(w)), run, weights, out, sink, tuple(notes)
        )

    def of_heads(
        self, weights: Tensor, values: Tensor, n_heads: int, n_batch: int, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Attention that is written out inside of `multi_head_attention_forward`."""
        used = weights.unflatten(0, (n_batch, n_heads))
        width = values.shape[-1]
        shape = (n_batch, n_heads, weights.shape[1], width)
        out = Layout((n_batch * n_heads, weights.shape[1], width), (0, 1, 2), shape)
        keys, mixed = values.movedim(1, 0), values.unflatten(0, (n_batch, n_heads))
        return self._written_out(used, used, keys, mixed, lambda w: run(w.flatten(0, 1)), run, weights, out, "", ())

    def _settle(self) -> None:
        """Put first calls of fused attention into their form: another call arrives, or somebody asks for them."""
        waiting, self._waiting = self._waiting, {}
        for path, (call, inside) in waiting.items():
            output = None if call.output is None else four_axes(call.output)
            found = Attention(path, inside, call.inputs, call.keys, output, "", _notes(call))
            self._chains[path] = [Chain(found)]
            self._found = {}

    def idle(self, path: str, softmax: Softmax) -> None:
        """A softmax whose result mixes no values."""
        self._idle.append(path or softmax.path or self._root)

    def mapped(self) -> None:
        """A product inside of `torch.func.vmap`, whose tensors cannot be kept."""
        self._mapped = True

    def _written_out(
        self,
        used: Tensor,
        shown: Tensor,
        values: Tensor,
        mixed: Tensor | None,
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
            changed = acted_on_weights(here, first, used, shown if sink else None, sink)
            result = run(weights) if changed is used else rerun(changed)
            shown = changed if changed is not used else shown
            sink = "" if changed is not used else sink
            result = acted_on_output(here, first, result, out, used)
        output = None
        if out is not None and (self.keeps_outputs or self.keeps_mixing):
            output = out.arranged(result)
        kept = in_single(shown.detach())
        self._kept_bytes += kept.nbytes
        if self._kept_bytes > self.most_bytes:
            kept = kept[:, :, :0]
        self._keep(arrival, Weights(kept), values, mixed, output, notes, sink)
        if out is None or output is None or not self.keeps_mixing:
            return result
        return out.restored(output, result.shape)  # what goes on is made of what is kept

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

    def _arrive(self, shape: tuple[int, int, int], values: Tensor, written: bool) -> "Arrival":
        """A new call of so many heads, queries and keys: where it runs, what it goes on with, what is asked there."""
        self._settle()
        path = self.paths.current.path or self._root
        chains = self._chains.setdefault(path, [])
        kinds = [chain.step(shape, values, written) for chain in chains]
        at = next((i for i, kind in enumerate(kinds) if kind), len(chains))
        kind = kinds[at] if at < len(chains) else ""
        first = chains[at].n_rows if kind == "next" else 0 if shape[1] == 1 else None
        return Arrival(path, at, kind, first, self._asked(path, at + 1))

    def _asked(self, path: str, ordinal: int) -> tuple[Intervention, ...]:
        """What is to be done at a call: at its path, at its number there, or at the list of heads that it is one of."""
        asked = active()
        if asked is None:
            return ()
        found = [*asked.at(Site(path)), *asked.at(Site(f"{path}#{ordinal}"))]
        for container, rest, number in places_in_lists(path):
            found += [
                of_one_head(one, number)
                for one in asked.at(Site(container + rest))
                if self._has_heads(one, container) and one.touches_head(number)
            ]
        return tuple(found)

    def _has_heads(self, one: Intervention, container: str) -> bool:
        """Whether a list of modules has the heads that an intervention names.

        Raises:
            InputError: names the first that it lacks.
        """
        count = len(list(self.module.get_submodule(container).children()))
        if one.heads is not None and one.heads[-1] >= count:
            raise InputError("past_the_site", name="heads", site=one.site, position=one.heads[-1], last=count - 1)
        return True

    def _keep(
        self,
        arrival: "Arrival",
        source: SoftmaxInputs,
        values: Tensor,
        mixed: Tensor | None,
        output: Tensor | None,
        notes: tuple[str, ...],
        sink: str = "",
    ) -> None:
        self.interventions = tuple(dict.fromkeys([*self.interventions, *interventions()]))
        inside = tuple(self.paths.calls)
        given = output if self.keeps_outputs else None
        call = Attention(arrival.path, inside, source, values.detach(), given, sink, notes)
        chains = self._chains[arrival.path]
        if arrival.kind:
            chains[arrival.chain].add(call, arrival.kind)
        else:
            chains.append(Chain(call))
        self._found = {}

    def _resolved(self) -> dict[Site, Attention]:
        """Every site with its attention, in order."""
        self._settle()
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
class Arrival:
    """A call of an attention: where it runs, which map it goes on with and how, its first row, what is asked there."""

    path: str
    chain: int
    kind: str
    first: int | None
    asked: tuple[Intervention, ...]


def _notes(call: FusedCall) -> tuple[str, ...]:
    return (Message("note_before_dropout"),) if call.options.get("dropout_p") else ()


def _heads(module: nn.Module | None) -> list[int]:
    found = [getattr(module, name, None) for name in HEADS]
    return [one for one in found if type(one) is int and one > 1][:1]
