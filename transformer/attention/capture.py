"""Watching a run through hooks: what one caller records, only that caller sees, and watching does not change the run.

Hooks are put on once and stay; they write to a sink that belongs to the caller's context (a thread or a task), and
do nothing where there is none. They keep the inputs of the softmax, so the fused attention runs at full speed. Who
asks for interventions (`intervening`) has them through the same hooks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.attention.changed import SoftmaxInputs, changed_output, kept_inputs
from transformer.attention.record import AttentionMap
from transformer.attention.softmax_inputs import QueriesKeys, Weights
from transformer.errors import RecordError
from transformer.interventions.active import active, interventions
from transformer.interventions.donors import Donor
from transformer.interventions.value import Intervention
from transformer.layers.attention import DotProductAttention
from transformer.messages import Message
from transformer.models.common import in_single
from transformer.models.protocols import Watchable
from transformer.pictures.axes import Axis
from transformer.sites import Site


@dataclass
class Recording:
    """What ran while one caller watched, by site; nothing is computed before it is asked for.

    `interventions` changed what ran. Head outputs are kept only where they were asked for (`recording(outputs=True)`).
    """

    keeps_outputs: bool = False
    interventions: tuple[Intervention, ...] = ()
    _sources: dict[Site, list[SoftmaxInputs]] = field(default_factory=dict)
    _outputs: dict[Site, list[Tensor]] = field(default_factory=dict)

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

    def add(self, site: Site, source: SoftmaxInputs, output: Tensor) -> None:
        """Keep one run of a site; `output` is what its heads gave on (batch, head, query, d_v)."""
        self._sources.setdefault(site, []).append(source)
        self.interventions = tuple(dict.fromkeys([*self.interventions, *interventions()]))
        if self.keeps_outputs:
            self._outputs.setdefault(site, []).append(output.detach())

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
        weights = {}
        for site in self.sites:
            source = self.source(site)
            rows, keys = slice(0, source.n_queries), slice(0, source.n_keys)
            weights[site] = torch.stack(
                [
                    torch.stack([source.weights(batch, head, rows, keys) for head in range(source.n_heads)])
                    for batch in range(len(outputs[site]))
                ]
            )
        return Donor(name, weights, outputs)


Model = TypeVar("Model", bound=Watchable)
_sink: ContextVar[Recording | None] = ContextVar("attention recording", default=None)


@contextmanager
def recording(outputs: bool = False) -> Iterator[Recording]:
    """Record the attention of every watched model that this thread runs inside the block.

    Models that `load` returns are watched already; for others, call `watch` once. Other threads are not seen,
    and nothing stays behind, also after an exception. `outputs` keeps what the heads gave on as well, for a `donor`.
    """
    seen = Recording(keeps_outputs=outputs)
    token = _sink.set(seen)
    try:
        yield seen
    finally:
        _sink.reset(token)


def is_recording() -> bool:
    """Whether the caller records: what is worth keeping need not be made otherwise."""
    return _sink.get() is not None


def record_site(site: Site, source: SoftmaxInputs, output: Tensor) -> None:
    """Add one run of a site to the caller's recording; without one, nothing. For models that run without our hooks."""
    sink = _sink.get()
    if sink is not None:
        sink.add(site, source, output)


@dataclass(frozen=True)
class _Hook:
    """The hook of one attention module: it lets interventions change the output, and recordings see what was made."""

    site: Site

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        sink, asked = _sink.get(), active()
        if sink is None and asked is None:
            return None
        changed = changed_output(self.site, module, inputs, output)
        if sink is not None and isinstance(module, DotProductAttention):
            q, k, _, mask = inputs
            base = QueriesKeys(in_single(q.detach()), in_single(k.detach()), mask, module.scale)
            sink.add(self.site, kept_inputs(self.site, base), changed)
        elif sink is not None:
            mixed, weights = changed
            sink.add(self.site, Weights(in_single(weights.detach())), mixed[:, None, None])
        return None if changed is output else changed


def watch(model: Model) -> Model:
    """Put the hooks on, once; they cost nothing while nobody records. Returns the model."""
    for site, module in model.attention_sites().items():
        if not any(isinstance(hook, _Hook) for hook in module._forward_hooks.values()):
            module.register_forward_hook(_Hook(site))
    return model
