"""Recording the attention of any module: by site, what of it could not be seen, and interventions that act there."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import InputError, RecordError
from ...messages import Message
from ...nn.common import changed_context, in_single
from ...plots.axes import Axis
from ...plots.export import arrays_file
from ...sites import Site
from .. import capture
from ..capture import Recording
from ..interventions.edits import active, interventions
from ..interventions.value import Donor, Intervention
from ..record import AttentionMap, Record, listed
from ..softmax_inputs import SoftmaxInputs
from .calls import Attention, Steps, in_order, is_same, kind_of_step, named, new_rows, places_in_lists
from .labels import Given, labelled
from .notes import is_inside, of_element, of_rows, without_attention
from .paths import COMPILED
from .watching import Arrival, Watching

MOST_NAMED = 5
"""So many modules a note names."""


def _of_one_head(one: Intervention, head: int) -> Intervention:
    """An intervention on a map of several heads as that on the module that is this head alone."""
    value = one.value
    if isinstance(value, Donor):
        parts = (
            {site: part[:, head : head + 1] if site == one.site else part for site, part in given.items()}
            for given in (value.weights, value.outputs)
        )
        value = Donor(value.name, *parts)
    return replace(one, heads=(0,), value=value)


ArrayLike = Tensor | np.ndarray | Sequence[int] | Sequence[Sequence[int]]
"""Ids or numbers in any of the usual containers."""


def _array(values: ArrayLike) -> np.ndarray:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    return (in_single(values) if values.is_floating_point() else values).detach().cpu().numpy()


MOST_BYTES = 2 * 1024**3
"""Bytes of written-out weights that one recording keeps, unless told otherwise."""


@dataclass
class ModuleRecording(Recording, Watching):
    """The attention of a module's runs, by the path of the submodule in which each ran.

    `most_bytes` bounds what written-out softmaxes keep, which is a number for each query and key.
    """

    module: nn.Module = field(kw_only=True, repr=False)
    most_bytes: int = field(default=MOST_BYTES, kw_only=True)

    def __repr__(self) -> str:
        """The sites that ran, in a line."""
        return f"ModuleRecording({self._root}, {listed(self.sites)})"

    def __post_init__(self) -> None:
        Watching.__init__(self, self.module, self.most_bytes)
        self._steps: dict[str, list[Steps]] = {}
        self._found: dict[Site, Attention] = {}
        self._count = 0
        self._root = type(getattr(self.module, COMPILED, self.module)).__name__

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites that ran, in order."""
        return tuple(self._resolved())

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not seen, by name, and what else differs from a run that nobody records."""
        found, ran = self._resolved(), self.paths.ran
        said = dict.fromkeys(note for call in found.values() for note in call.notes)
        if not ran:
            return (*said, Message("nothing_ran_in_module", name=self._root))
        scripted = [path or self._root for path, one in ran.items() if isinstance(one, torch.jit.ScriptModule)]
        unseen = [path for path in without_attention(ran, found) if path not in scripted]
        if not said and not found and not unseen and not scripted and not self.idle:
            unseen = [""]
        idle = tuple(dict.fromkeys(path or self._root for path in self.idle))
        if scripted:
            said[Message("not_seen_in_script", names=tuple(scripted[:MOST_NAMED]))] = None
        said |= dict.fromkeys(self._reasons(unseen))
        if idle:
            said[Message("softmax_is_no_attention", names=idle[:MOST_NAMED])] = None
        if any(isinstance(one, nn.TransformerEncoder) and not one.training for one in ran.values()):
            said[Message("fast_path_left")] = None
        if self.mapped and not found:
            return (Message("not_seen_mapped"),)
        if self.kept_bytes:
            size, most = (f"{n / 2**20:,.1f}" for n in (self.kept_bytes, self.most_bytes))
            said[Message("written_out_kept", size=size, most=most)] = None
        return tuple(said)

    def _reasons(self, unseen: Iterable[str]) -> Iterator[Message]:
        """Why nothing was seen in some paths."""
        of_kernels, of_softmaxes, others = list[str](), list[str](), list[str]()
        for path in unseen:
            kind = type(self.paths.ran[path]).__name__ if path in self.paths.ran else self._root
            in_kernel = any(is_inside(one, path) for one in self.in_kernels)
            in_softmax = any(is_inside(one, path) for one in self.facts.softmaxes)
            same = of_kernels if in_kernel else of_softmaxes if in_softmax else others
            same.append(f"{path} ({kind})" if path else kind)
        if of_kernels:
            yield Message("not_seen_in_kernel", names=tuple(of_kernels[:MOST_NAMED]))
        if of_softmaxes:
            yield Message("not_followed", names=tuple(of_softmaxes[:MOST_NAMED]))
        if others:
            yield Message("not_seen_in", names=tuple(others[:MOST_NAMED]))

    def source(self, site: str) -> SoftmaxInputs:
        """What was kept of a site.

        Raises:
            RecordError: nothing ran there, or more was written out than `most_bytes`.
        """
        call = self._resolved().get(Site(site))
        if call is None:
            raise RecordError(
                "site_did_not_run", site=site, sites=self.sites or Message("nothing_seen", notes=self.notes)
            )
        if not call.source.n_queries:
            raise RecordError("weights_not_kept", site=site, most=self.most_bytes)
        return call.source

    def map(self, site: str, queries: Axis | None = None, keys: Axis | None = None, batch: int = 0) -> AttentionMap:
        """The attention of one batch element; without axes, positions are its labels."""
        source = self.source(site)
        call = self._resolved()[Site(site)]
        if not 0 <= batch < source.n_sentences:
            raise RecordError("not_in_site", what="batch", index=batch, site=site, last=source.n_sentences - 1)
        if call.sink is not None:
            keys = self._with_sink(call, keys)
        found = super().map(site, queries, keys, batch)
        changes = tuple(dict.fromkeys((*source.interventions, *self.interventions)))
        notes = *call.notes, *of_element(source.n_sentences, batch, call.read), *of_rows(source, batch, bool(changes))
        return replace(found, notes=notes, interventions=changes)

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
        found = self._resolved()
        if not found:
            raise RecordError("nothing_seen", notes=self.notes)
        sizes = {
            str(site): (call.source.n_queries, call.source.n_keys - (call.sink is not None))
            for site, call in found.items()
        }
        axes = labelled(sizes, queries, keys, grid)
        return Record({Site(site): self.map(site, *axes[site], batch) for site in sizes}, model or self._root, text)

    def expected(
        self, path: str | Path, inputs: ArrayLike, output: ArrayLike | None = None, targets: ArrayLike | None = None
    ) -> None:
        """Save what `check_file` compares a checkpoint with: an .npz of ids, maps and the output.

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
        ids = _array(inputs)
        n_batch = 1 if ids.ndim == 1 else len(ids)
        arrays: dict[str, Any] = {}
        for site in self.sites:
            found = self.source(site).n_sentences
            if found != n_batch:
                raise RecordError("expected_other_batch", site=site, found=found, needed=n_batch)
            arrays[site] = np.stack([self.map(site, batch=row).all_weights() for row in range(n_batch)])
        arrays |= {"input": ids} if targets is None else {"source": ids, "target": _array(targets)}
        if output is not None:
            arrays["output"] = _array(output)
        Path(path).write_bytes(arrays_file(arrays.items(), packed=False))

    def arrive(self, rows: Tensor, n_keys: int, values: Tensor, written: bool) -> Arrival:
        """A call: a step of the latest map that it fits, or a new map."""
        path = self.paths.current.path or self._root
        maps = self._steps.setdefault(path, [])
        latest = sorted(range(len(maps)), key=lambda at: -maps[at][-1].number)
        kinds = ((at, kind_of_step(maps[at], rows, n_keys, values, written)) for at in latest)
        at, kind = next((one for one in kinds if one[1]), (len(maps), ""))
        steps = maps[at] if kind else []
        first = 0 if rows.shape[2] == 1 else None
        if kind == "next":
            first = sum(step.kept.n_queries for step in steps)

        def keep(call: Attention) -> None:
            changes = interventions()
            if changes:
                self.interventions = tuple(dict.fromkeys([*self.interventions, *changes]))
            if steps:
                last, said = steps[-1], Message("note_beams")
                call.in_place = is_same(call.values, last.values)
                steps[-1] = new_rows(last)
                if last.order is not None:
                    steps[:] = [in_order(step, last.order) for step in steps]
                if last.order is not None or said in last.notes:
                    call.notes = (*call.notes, said)
            else:
                maps.append(steps)
            self._count += 1
            call.read = next((tuple(one.shape) for each in call.inside[0].inputs if (one := each()) is not None), ())
            call.values, call.mixed, call.kind, call.number = call.values.detach(), None, kind, self._count
            if not self.keeps_outputs:
                call.output = None
            steps.append(call)
            self._found = {}

        return Arrival(first, self._asked(path, at + 1), keep)

    def reordered(self, cache: Tensor, order: Tensor) -> None:
        """A cache is arranged anew between steps: all rows so far of that many batch elements move along."""
        lasts = [maps[-1] for several in self._steps.values() for maps in several]
        if any(one.values.data_ptr() == cache.data_ptr() for one in lasts):
            for one in lasts:
                one.order = order if one.kept.n_sentences == len(order) else None

    def _asked(self, path: str, ordinal: int) -> tuple[Intervention, ...]:
        """What is to be done at a call: at its path, at its number there, or at the list of heads that it is one of.

        Raises:
            InputError: an intervention names a head that the list lacks.
        """
        asked = active()
        if asked is None:
            return ()
        found = [*asked.at(Site(path)), *asked.at(Site(f"{path}#{ordinal}"))]
        for container, rest, number in places_in_lists(path):
            for one in asked.at(Site(container + rest)):
                last = len(list(self.module.get_submodule(container).children())) - 1
                if one.heads is not None and one.heads[-1] > last:
                    raise InputError("past_the_site", name="heads", site=one.site, position=one.heads[-1], last=last)
                if one.touches_head(number):
                    found.append(_of_one_head(one, number))
        return tuple(found)

    def _resolved(self) -> dict[Site, Attention]:
        """Every site with its attention, in order."""
        if not self._found:
            self._found = named(self._steps)
        return self._found

    def _with_sink(self, call: Attention, keys: Axis | None) -> Axis:
        n = call.source.n_keys - 1
        axis = keys or Axis.of_tokens(Message("axis_key"), [str(i) for i in range(n)])
        if len(axis) != n:
            return axis
        sink = Axis(axis.name, (Message("label_sink"),), (0,), (True,))
        return sink.joined(axis, axis.name) if call.sink == 0 else axis.joined(sink, axis.name)


@overload
def recording(module: None = None, *, outputs: bool = ..., mixing: bool = ...) -> AbstractContextManager[Recording]: ...
@overload
def recording(
    module: nn.Module, *, outputs: bool = ..., most_bytes: int = ...
) -> AbstractContextManager[ModuleRecording]: ...
def recording(
    module: nn.Module | None = None, *, outputs: bool = False, mixing: bool = False, most_bytes: int = MOST_BYTES
) -> AbstractContextManager[Recording]:
    """Record the attention of `module`, or of every model of this library, that this thread runs inside the block.

    `module` is any `torch.nn.Module`: nothing of it is changed, its output is the same (within rounding where PyTorch
    would have taken the fast path of nn.TransformerEncoder, which a note says), and nothing stays behind, also after an
    exception. Its sites are the paths of the submodules in which attention ran: PyTorch's fused attention, multi-head
    attention, and softmaxes that a product mixes values by. Written-out weights are kept, up to `most_bytes`; of fused
    attention the queries and keys, from which weights are computed when asked for.

    Without a module, models that `load` returns are watched already; for others of this library, call `watch` once.
    `outputs` keeps what the heads gave on as well, for a `donor`; `mixing` (without a module) the values too.

    Raises:
        RecordError: what was given is no module.
    """
    if module is None:
        return capture.recording(outputs, mixing)
    if not isinstance(module, nn.Module):
        raise RecordError("not_a_module", found=type(module).__name__)
    return _of_module(module, outputs, most_bytes)


@contextmanager
def _of_module(module: nn.Module, outputs: bool, most_bytes: int) -> Iterator[ModuleRecording]:
    found = ModuleRecording(keeps_outputs=outputs, module=module, most_bytes=most_bytes)
    compiler = sys.modules.get("torch._dynamo")  # nothing is compiled where it was never imported
    with ExitStack() as stack:
        if compiler is not None and any(isinstance(one, compiler.OptimizedModule) for _, one in found.paths.modules):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(changed_context(row_sums=[], is_streaming=True))  # what runs may be a step of a loop
        stack.enter_context(found.watching())
        yield found
