"""Handing attention on, as it runs, to the caller's `recording()`: for models whose sites have public names."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from ...errors import RecordError
from ...nn.common import run_context
from ...nn.masks import Mask
from ...sites import Site
from ..capture import current_recording
from ..interventions.edits import asked_at
from ..softmax_inputs import Weights
from .calls import Attention, in_precision
from .module import MOST_BYTES
from .products import Layout
from .watching import Arrival, Watching


class PublicSite(NamedTuple):
    """The public name of an attention, and how many heads it has."""

    site: Site
    n_heads: int


class Relay(Watching):
    """Keeps nothing itself: what runs goes to the caller's recording, and interventions on public names act.

    `places` are the public names by path and how often the module has attended by then (`layers.0#2`); without them,
    these are the names. What has no name goes by unseen. `mask_of` gives the mask of a site whose weights are written
    out, and `notes` what has to be said of these.
    """

    def __init__(
        self,
        module: nn.Module,
        places: Mapping[str, PublicSite] | None = None,
        mask_of: Callable[[Site], Mask | None] = lambda _: None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(module, MOST_BYTES)
        sink = current_recording()
        self.keeps_outputs, self.keeps_mixing = True, sink is not None and sink.keeps_mixing
        self.places, self.mask_of, self.notes = places, mask_of, notes
        self._counts, self._root = Counter[str](), type(module).__name__

    def fused(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], run: Callable[[], Tensor]) -> Tensor:
        """A call of fused attention; heads that share keys may stand where its queries do, if there is one."""
        place = self._place(self._counts[self.paths.current.path] + 1)
        packed = q.dim() == 4 and place is not None and q.shape[1] == k.shape[1] != place.n_heads
        if not packed or place is None or q.shape[1] * q.shape[2] != place.n_heads:
            return super().fused(q, k, v, options, run)
        table = options.get("attn_mask")
        if table is not None and table.shape[1] > 1:
            options = options | {"attn_mask": table.flatten(1, 2)[:, :, None]}
        wide = super().fused(q.flatten(1, 2)[:, :, None], k, v, options, lambda: run().flatten(1, 2)[:, :, None])
        return wide.reshape(*q.shape[:-1], v.shape[-1])

    def with_heads(self, layout: Layout) -> Layout:
        """The layout; heads that were taken for a part of the batch are told by its size in the outermost call."""
        n_batch, n_heads, rows, last = super().with_heads(layout).shape
        read = next((given for one in self.paths.calls[0].inputs if (given := one()) is not None), None)
        size = n_batch if read is None or not read.dim() else len(read)
        if n_batch != size and n_batch * n_heads % size == 0:
            n_batch, n_heads = size, n_batch * n_heads // size
        return replace(layout, shape=(n_batch, n_heads, rows, last))

    def _place(self, number: int) -> PublicSite | None:
        name = f"{self.paths.current.path or self._root}#{number}"
        return PublicSite(Site(name), 0) if self.places is None else self.places.get(name)

    def arrive(self, rows: Tensor, n_keys: int, values: Tensor, written: bool) -> Arrival:
        """A call of an attention, which may have a public name."""
        path = self.paths.current.path
        self._counts[path] += 1
        place = self._place(self._counts[path])
        if place is None:
            return Arrival(None, (), lambda *_: None)
        site = place.site

        def keep(call: Attention) -> None:
            caller, source = current_recording(), call.kept
            if call.output is None or caller is None:
                return
            if not isinstance(source, Weights):
                source = in_precision(source).detached()
            elif not source.n_queries:
                raise RecordError("weights_too_large", site=site, most=self.most_bytes)
            else:
                keys = slice(None) if call.sink is None else slice(1, None) if call.sink == 0 else slice(-1)
                source = Weights(source.values[..., keys], self.mask_of(site), (*self.notes, *call.notes))
            caller.add(site, source, call.output, call.mixed)

        return Arrival(run_context().position_offset if site.stack == "decoder" else None, asked_at(site), keep)
