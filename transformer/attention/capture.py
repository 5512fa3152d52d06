"""Watching a run through hooks: what one caller records, only that caller sees, and the run does not change.

Hooks are put on once and stay; they write to a sink that belongs to the caller's context (a thread or a task), and
do nothing where there is none. They keep the inputs of the softmax, so the fused attention runs at full speed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor, nn

from transformer.attention.record import AttentionMap
from transformer.attention.softmax_inputs import QueriesKeys, SoftmaxInputs, Weights
from transformer.errors import RecordError
from transformer.layers.attention import DotProductAttention
from transformer.messages import Message
from transformer.models.protocols import Watchable
from transformer.pictures.axes import Axis
from transformer.sites import Site


@dataclass
class Recording:
    """What ran while one caller watched, by site; nothing is computed before it is asked for."""

    _sources: dict[Site, list[SoftmaxInputs]] = field(default_factory=dict)

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
        )

    def add(self, site: Site, source: SoftmaxInputs) -> None:
        """Keep one run of a site."""
        self._sources.setdefault(site, []).append(source)


Model = TypeVar("Model", bound=Watchable)
_sink: ContextVar[Recording | None] = ContextVar("attention recording", default=None)


@contextmanager
def recording() -> Iterator[Recording]:
    """Record the attention of every watched model that this thread runs inside the block.

    Models that `load` returns are watched already; for others, call `watch` once. Other threads are not seen,
    and nothing stays behind, also after an exception.
    """
    seen = Recording()
    token = _sink.set(seen)
    try:
        yield seen
    finally:
        _sink.reset(token)


def is_recording() -> bool:
    """Whether the caller records: what is worth keeping need not be made otherwise."""
    return _sink.get() is not None


def record_site(site: Site, source: SoftmaxInputs) -> None:
    """Add one run of a site to the caller's recording; without one, nothing. For models that run without our hooks."""
    sink = _sink.get()
    if sink is not None:
        sink.add(site, source)


@dataclass(frozen=True)
class _Observer:
    """The hook of one attention module."""

    site: Site

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        sink = _sink.get()
        if sink is None:
            return
        if isinstance(module, DotProductAttention):
            q, k, _, mask = inputs
            sink.add(self.site, QueriesKeys(q.detach(), k.detach(), mask, module.scale))
        else:
            weights: Tensor = output[1]
            sink.add(self.site, Weights(weights.detach()))


def watch(model: Model) -> Model:
    """Put the hooks on, once; they cost nothing while nobody records. Returns the model."""
    for site, module in model.attention_sites().items():
        if not any(isinstance(hook, _Observer) for hook in module._forward_hooks.values()):
            module.register_forward_hook(_Observer(site))
    return model
