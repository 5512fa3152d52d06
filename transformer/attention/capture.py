"""Watching a run through hooks: what one caller records, only that caller sees, and watching does not change the run.

Hooks are put on once and stay; they write to a sink that belongs to the caller's context (a thread or a task), and
do nothing where there is none. They keep the inputs of the softmax, so the fused attention runs at full speed. Who
asks for interventions (`intervening`) has them through the same hooks.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import InputError, RecordError
from ..messages import Message
from ..nn.attention import DotProductAttention
from ..nn.common import changed_context, in_single, run_context
from ..nn.fused import row_sums, whole_weights
from ..nn.protocols import Watchable
from ..plots.axes import Axis
from ..sites import Site
from .interventions.edits import Region, active, asked_at, changed_outputs, interventions
from .interventions.value import Donor, Intervention
from .record import AttentionMap
from .softmax_inputs import AttentionInputs, SoftmaxInputs, Weights, changed_given, every_weight, with_changes


@dataclass(frozen=True, eq=False)
class Mixing:
    """What one run of an attention mixed: the values that its weights weigh, and what came of them, which slopes pass.

    With fewer heads of values than heads, neighbours share one.
    """

    values: Float[Tensor, "batch key_head key d_v"]
    output: Float[Tensor, "batch head query d_v"]


@dataclass
class Recording:
    """What ran while one caller watched, by site; nothing is computed before it is asked for.

    `interventions` changed what ran. Head outputs are kept only where they were asked for (`recording(outputs=True)`),
    values and outputs that stay in the graph too (`recording(mixing=True)`).
    """

    keeps_outputs: bool = False
    keeps_mixing: bool = False
    interventions: tuple[Intervention, ...] = ()
    _sources: dict[Site, list[SoftmaxInputs]] = field(default_factory=dict)
    _outputs: dict[Site, list[Tensor]] = field(default_factory=dict)
    _mixed: dict[Site, list[Mixing]] = field(default_factory=dict)

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites that ran, in order."""
        return tuple(self._sources)

    def source(self, site: str) -> SoftmaxInputs:
        """What was kept of a site.

        Raises:
            RecordError: the site did not run, or a fused attention ran more than once.
        """
        runs = self._sources.get(Site(site))
        if runs is None:
            raise RecordError("site_did_not_run", site=site, sites=self.sites or Message("nothing_ran"))
        if len(runs) == 1:
            return runs[0]
        steps = [run for run in runs if isinstance(run, Weights)]
        if len(steps) < len(runs):
            raise RecordError("site_ran_often", site=site, times=len(runs))
        return Weights.of_steps(steps)

    def __getitem__(self, site: str) -> AttentionMap:
        """The attention of the first batch element, with positions for labels."""
        return self.map(site)

    def map(self, site: str, queries: Axis | None = None, keys: Axis | None = None, batch: int = 0) -> AttentionMap:
        """The attention of one batch element; without axes, positions are its labels."""
        source = self.source(site)
        return AttentionMap(
            site=Site(site),
            queries=queries or Axis.of_tokens(Message("axis_query"), [str(i) for i in range(source.n_queries)]),
            keys=keys or Axis.of_tokens(Message("axis_key"), [str(i) for i in range(source.n_keys)]),
            source=source,
            batch=batch,
            interventions=self.interventions,
        )

    def add(self, site: Site, source: SoftmaxInputs, output: Tensor, values: Tensor | None = None) -> None:
        """Keep one run of a site; `output` is what its heads gave on (batch, head, query, d_v).

        `values` is what they mixed (batch, head, key, d_v), where that is known.
        """
        self._sources.setdefault(site, []).append(source)
        self.interventions = tuple(dict.fromkeys([*self.interventions, *interventions()]))
        if self.keeps_outputs:
            self._outputs.setdefault(site, []).append(output.detach())
        if self.keeps_mixing and values is not None:
            if torch.is_grad_enabled() and not output.requires_grad:  # frozen parameters, and slopes all the same
                output.requires_grad_()
            self._mixed.setdefault(site, []).append(Mixing(values.detach(), output))

    def mixed(self, site: str) -> tuple[Mixing, ...]:
        """Every run of a site with what it mixed, in order; none where that was not asked for, or is not known."""
        return tuple(self._mixed.get(Site(site), ()))

    def outputs(self, site: str) -> Float[Tensor, "batch head query d_v"]:
        """What the heads of a site gave on, before the output projection.

        Raises:
            RecordError: outputs were not kept, or the site did not run.
        """
        if not self.keeps_outputs:
            raise RecordError("donor_without_outputs")
        if Site(site) not in self._outputs:
            raise RecordError("site_did_not_run", site=site, sites=self.sites or Message("nothing_ran"))
        return torch.cat(self._outputs[Site(site)], dim=2)

    def donor(self, name: str) -> Donor:
        """Weights and head outputs of everything that ran, to be put into another run. O(head x query x key) memory.

        Raises:
            RecordError: outputs were not kept, or a fused attention ran more than once.
        """
        outputs = {site: self.outputs(site) for site in self.sites}
        return Donor(name, {site: every_weight(self.source(site)) for site in self.sites}, outputs)


Model = TypeVar("Model", bound=Watchable)


@contextmanager
def recording(outputs: bool = False, mixing: bool = False, whole: bool = False) -> Iterator[Recording]:
    """Record the attention of every watched model that this thread runs inside the block.

    Models that `load` returns are watched already; for others, call `watch` once. Other threads are not seen,
    and nothing stays behind, also after an exception. `outputs` keeps what the heads gave on as well, for a `donor`;
    `mixing` keeps that and the values, for what is attributed: where gradients are on, slopes can be taken by it.
    `whole` is for who reads every weight and no output: short attention writes its weights out, mixes by them and
    leaves them to the recording, and the pass `is_quick`, so that the run is equal to rounding, not to the bit.
    """
    seen = Recording(keeps_outputs=outputs, keeps_mixing=mixing)
    as_tables: dict[str, Any] = {"weights": [], "is_quick": True} if whole else {"weights": None}
    with changed_context(recording=seen, row_sums=[], **as_tables):
        yield seen


def current_recording() -> Recording | None:
    """The caller's recording, for models that run without our hooks; None where nobody records."""
    found: Recording | None = run_context().recording
    return found


@dataclass(frozen=True, eq=False)
class _Hook:
    """The hook of one attention module: it lets interventions change the output, and recordings see what was made.

    `means` are the mean outputs of its heads, where they are known.
    """

    site: Site
    means: Float[Tensor, "head d_v"] | None = None

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        sink, asked = current_recording(), active()
        if sink is None and asked is None:
            return None
        here = asked_at(self.site)
        first = run_context().position_offset if self.site.stack == "decoder" else None  # which writes row by row
        if not isinstance(module, DotProductAttention):
            return self._step(sink, here, first or 0, inputs[2].states, output)
        q, k, v, mask = inputs
        changed = output
        if here:
            plain = AttentionInputs(q, k, mask, module.scale)
            changed = with_changes(here, first, lambda: plain, v, output, self.means)
        if sink is not None:
            kept = in_single(q.detach()), in_single(k.detach())
            base, weights = AttentionInputs(*kept, mask, module.scale, known=row_sums()), whole_weights()
            source: SoftmaxInputs = replace(base, interventions=here, first_row=first if here else None)
            if weights is not None and asked is None:
                source = Weights(weights, mask)
            sink.add(self.site, source, changed, v)
        return None if changed is output else changed

    def _step(
        self, sink: Recording | None, here: tuple[Intervention, ...], first: int, states: Tensor, output: Any
    ) -> Any:
        """One step of a recurrent decoder's attention: one head, one row, weights that are there already."""
        mixed, given = output
        weights = changed_given(here, first, given) if here else given
        if weights is not given:
            mixed = torch.bmm(weights[:, 0], states)[:, 0]
        by_head = changed_outputs(mixed[:, None, None], here, Region((0,), first), self.means)
        if sink is not None:
            sink.add(self.site, Weights(in_single(weights.detach())), by_head, states[:, None])
        if here or (sink is not None and sink.keeps_mixing):  # what goes on has to be made of what is kept
            return by_head[:, 0, 0], weights
        return None


def watch(model: Model, means: Mapping[Site, Float[Tensor, "head d_v"]] | None = None) -> Model:
    """Put the hooks on, once; they cost nothing while nobody records. Returns the model.

    `means` are the mean outputs of its heads, which the intervention `mean` takes where it is given no vector.

    Raises:
        InputError: it is no model of this library: `recording(module)` records it.
    """
    if not hasattr(model, "attention_sites"):
        raise InputError("not_of_this_library", kind=type(model).__name__)
    known = means or {}
    for site, module in model.attention_sites().items():
        if not any(isinstance(hook, _Hook) for hook in module._forward_hooks.values()):
            module.register_forward_hook(_Hook(site, known.get(site)))
    return model
