"""Handing attention on, as it runs, to the caller's `recording()`: for models whose sites have public names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from transformer.attention.capture import is_recording, record_site, wants_mixing
from transformer.attention.changed import SoftmaxInputs
from transformer.attention.interventions.active import asked_at
from transformer.attention.recording.mixing import Layout
from transformer.attention.recording.seen import Arrival, ModuleRecording
from transformer.attention.softmax_inputs import Weights
from transformer.errors import RecordError
from transformer.nn.masks import Mask
from transformer.nn.run_context import run_context
from transformer.sites import Site


class Place(NamedTuple):
    """The public name of an attention, and how many heads it has."""

    site: Site
    n_heads: int


@dataclass
class Relay(ModuleRecording):
    """Keeps nothing itself: what runs goes to the caller's recording, and interventions on public names act.

    `places` are the public names by path and how often the module has attended by then (`layers.0#2`); without them,
    these are the names. What has no name goes by unseen. `mask_of` gives the mask of a site whose weights are written
    out, and `notes_on` what has to be said of these.
    """

    defers: ClassVar[bool] = False
    places: Mapping[str, Place] | None = field(default=None, kw_only=True)
    mask_of: Callable[[Site], Mask | None] = field(default=lambda _: None, kw_only=True)
    notes_on: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.keeps_outputs, self.keeps_mixing = True, wants_mixing()
        self._counts: dict[str, int] = {}

    def fused(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], run: Callable[[], Tensor]) -> Tensor:
        """A call of fused attention; heads that share keys may stand where its queries do, if there is one."""
        place = self._place(self._counts.get(self.paths.current.path, 0) + 1)
        packed = q.dim() == 4 and place is not None and q.shape[1] == k.shape[1] != place.n_heads
        if not packed or place is None or q.shape[1] * q.shape[2] != place.n_heads:
            return super().fused(q, k, v, options, run)
        table = options.get("attn_mask")
        if table is not None and table.shape[1] > 1:
            options = options | {"attn_mask": table.flatten(1, 2)[:, :, None]}
        wide = super().fused(q.flatten(1, 2)[:, :, None], k, v, options, lambda: run().flatten(1, 2)[:, :, None])
        return wide.reshape(*q.shape[:-1], v.shape[-1])

    def _with_heads(self, layout: Layout) -> Layout:
        """The layout; heads that were taken for a part of the batch are told by its size in the outermost call."""
        n_batch, n_heads, rows, last = super()._with_heads(layout).shape
        read = next((given for one in self.paths.calls[0].inputs if (given := one()) is not None), None)
        size = n_batch if read is None or not read.dim() else len(read)
        if n_batch != size and n_batch * n_heads % size == 0:
            n_batch, n_heads = size, n_batch * n_heads // size
        return replace(layout, shape=(n_batch, n_heads, rows, last))

    def _place(self, number: int) -> Place | None:
        name = f"{self.paths.current.path or self._root}#{number}"
        return Place(Site(name), 0) if self.places is None else self.places.get(name)

    def _arrive(self, shape: tuple[int, int, int], values: Tensor, written: bool) -> Arrival:
        path = self.paths.current.path
        self._counts[path] = self._counts.get(path, 0) + 1
        place = self._place(self._counts[path])
        if place is None:
            return Arrival("", 0, "", None, ())
        first = run_context().position_offset if place.site.stack == "decoder" else None
        return Arrival(place.site, 0, "", first, asked_at(place.site))

    def _keep(
        self,
        arrival: Arrival,
        source: SoftmaxInputs,
        values: Tensor,
        mixed: Tensor | None,
        output: Tensor | None,
        notes: tuple[str, ...],
        sink: str = "",
    ) -> None:
        if not arrival.path or output is None or not is_recording():
            return
        site = Site(arrival.path)
        if isinstance(source, Weights):
            if not source.n_queries:
                raise RecordError("weights_too_large", site=site, most=self.most_bytes)
            kept = {"": source.values, "first": source.values[..., 1:], "last": source.values[..., :-1]}[sink]
            source = Weights(kept, self.mask_of(site), (*self.notes_on, *notes))
        else:
            source = source.detached()
        record_site(site, source, output, mixed)
