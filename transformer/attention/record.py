"""What was seen: attention maps that own their axes and are computed when asked for.

Rows are queries, columns are keys, everywhere. What is kept is O(n d) per layer: queries, keys, mask and scale; any
head, tile or block-reduced overview is computed from them exactly. Source: the softmax of Vaswani et al. 2017,
equation 1; a row's weights are exp(score - log-sum-exp of the row).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import DTypeLike
from torch import Tensor

from ..errors import RecordError
from ..messages import Message
from ..nn.common import readable
from ..plots.axes import Axis
from ..plots.picture import Picture, Quantity, block_length, maxima
from ..sites import Site
from .interventions.value import Intervention
from .softmax_inputs import ROWS_AT_ONCE, SoftmaxInputs, block_maxima, row_groups

CELLS_AT_ONCE = 2**20
"""Weights that are held at one time while a long map is reduced: a few megabytes, which a processor's cache holds."""

SHORT = 1e-4
"""A row that sums to less than 1 by more than this lost weight to an intervention, not to rounding."""

MEAN: Final = "mean"
HeadOrMean = int | Literal["mean"]
"""A head by its number, or the mean of all heads."""

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention of all heads at one site, for one input. Each row of weights sums to 1, or is fully masked.

    `interventions` changed the run, here or at other sites; where they cut or knock out, rows may sum to less. `notes`
    say what has to be known of the run; every picture carries them.
    """

    site: Site
    queries: Axis
    keys: Axis
    source: SoftmaxInputs = field(repr=False)
    batch: int = 0
    interventions: tuple[Intervention, ...] = ()
    notes: tuple[str, ...] = ()

    figure: ClassVar[Callable[..., "Figure"]]
    html: ClassVar[Callable[..., str]]
    _repr_html_: ClassVar[Callable[..., str]]
    _repr_mimebundle_: ClassVar[Callable[..., dict[str, str]]]
    """What draws a map stands above it, and is attached: `attention.record_methods`."""

    def __repr__(self) -> str:
        """Site, sizes and changes, in a line."""
        n_queries, n_keys = self.shape
        changed = f", {len(self.interventions)} interventions" if self.interventions else ""
        return f"AttentionMap({self.site!r}, {self.n_heads} heads, {n_queries} queries, {n_keys} keys{changed})"

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> Float[np.ndarray, "head query key"]:
        """`all_weights`, for `np.asarray`."""
        if copy is False:
            raise ValueError("weights are computed anew: use np.asarray(map), without copy=False")
        return self.all_weights() if dtype is None else self.all_weights().astype(dtype)

    @property
    def n_heads(self) -> int:
        """Attention heads."""
        return self.source.n_heads

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys. Padding that a batch adds at the end is left out."""
        return len(self.queries), len(self.keys)

    def weights(self, head: HeadOrMean) -> Float[np.ndarray, "query key"]:
        """Probabilities of one head. O(query x key) memory; use `tile` or `overview` for long inputs."""
        return self.tile(head, slice(None), slice(None))

    def all_weights(self) -> Float[np.ndarray, "head query key"]:
        """Probabilities of every head. O(head x query x key) memory."""
        return np.stack([self.weights(head) for head in range(self.n_heads)])

    def some_weights(self, heads: range) -> Float[np.ndarray, "head query key"]:
        """Probabilities of several heads in one step: for pictures, since a last digit may be another."""
        n_queries, n_keys = self.shape
        return readable(self.source.of_heads(self.batch, heads))[:, :n_queries, :n_keys].numpy()

    def head_average(self) -> Float[np.ndarray, "query key"]:
        """The mean over heads; its rows sum to 1 as well."""
        return self.weights(MEAN)

    def scores(self, head: HeadOrMean) -> Float[np.ndarray, "query key"]:
        """What the softmax saw before the mask; logarithms of the weights where they alone are kept."""
        rows, keys = slice(0, self.shape[0]), slice(0, self.shape[1])
        return self._of_heads(head, lambda one: readable(self.source.scores(self.batch, one, rows, keys)).numpy())

    def mask(self) -> Bool[np.ndarray, "query key"]:
        """True where the query may see the key."""
        return np.array(self.tile_mask(slice(None), slice(None)))

    def tile_mask(self, queries: slice, keys: slice, head: HeadOrMean = MEAN) -> Bool[np.ndarray, "query key"]:
        """True where a query of a rectangle may see a key of it: in one head, or in any of them."""
        rows, columns = self._range("queries", queries, self.shape[0]), self._range("keys", keys, self.shape[1])
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        visible = self.source.visible(self.batch, rows, None if head == MEAN else self._head(head))
        return np.ones(shape, dtype=bool) if visible is None else np.broadcast_to(visible[:, columns].numpy(), shape)

    def tile(self, head: HeadOrMean, queries: slice, keys: slice) -> Float[np.ndarray, "query key"]:
        """A rectangle of the map; equals the slice of the whole, at the cost of its own rows.

        Raises:
            RecordError: no such head, or a slice has a step.
        """
        rows, columns = self._range("queries", queries, self.shape[0]), self._range("keys", keys, self.shape[1])
        if rows.start == rows.stop or columns.start == columns.stop:
            return np.zeros((rows.stop - rows.start, columns.stop - columns.start))
        return self._of_heads(head, lambda one: readable(self.source.weights(self.batch, one, rows, columns)).numpy())

    def received(self, head: int) -> Float[np.ndarray, " key"]:
        """The mean weight that each key receives from the queries; sums to 1. The map is never held whole."""
        n_queries, n_keys = self.shape
        total = np.zeros(n_keys)
        for rows in row_groups(slice(0, n_queries), ROWS_AT_ONCE):
            total += self.tile(head, rows, slice(0, n_keys)).sum(axis=0, dtype=float)
        return total / n_queries

    def overview(
        self, head: HeadOrMean, size: int = 256, progress: Callable[[float], None] = lambda _: None
    ) -> Float[np.ndarray, "block_query block_key"]:
        """The map in at most `size` x `size` blocks, each the maximum of its cells; never held whole.

        Block edges are `block_length(n, size)` apart; the last block may be smaller. `progress` is told the share that
        is done, and may raise.
        """
        n_queries, n_keys = self.shape
        tall, wide = block_length(n_queries, size), block_length(n_keys, size)

        def maxima(rows: slice) -> Tensor:
            if head == MEAN:
                return block_maxima(torch.from_numpy(self.tile(head, rows, slice(None))), wide, -1)
            return readable(self.source.block_maxima(self.batch, self._head(head), rows, slice(0, n_keys), wide))

        found = []
        for rows in row_groups(slice(0, n_queries), max(1, ROWS_AT_ONCE // tall) * tall):
            progress(rows.start / n_queries)
            parts = [maxima(few) for few in row_groups(rows, max(1, CELLS_AT_ONCE // n_keys))]
            found.append(block_maxima(torch.cat(parts), tall, -2))
        return torch.cat(found).numpy()

    def overview_mask(self, size: int = 256) -> Bool[np.ndarray, "block_query block_key"]:
        """True for blocks of `overview` in which some query may see some key."""
        tall, wide = (block_length(count, size) for count in self.shape)
        groups = row_groups(slice(0, self.shape[0]), tall)
        seen = np.stack([self.tile_mask(rows, slice(None)).any(0) for rows in groups])
        return maxima(seen, 1, wide)

    def picture(
        self,
        head: HeadOrMean,
        words: bool = False,
        special: bool = True,
        scores: bool = False,
    ) -> Picture:
        """One head (or the head average) as it will be drawn.

        `words` merges pieces to words: weights are summed over the keys of a word and averaged over its queries.
        `special=False` leaves out start, end and padding; the notes then say that rows no longer sum to 1.
        `scores` gives the scores before the mask, which are not merged.
        """
        values = self.scores(head) if scores else self.weights(head)
        return self._pictures([(head, values)], words, special, scores)[0]

    def pictures(self, words: bool = False, special: bool = True) -> list[Picture]:
        """`picture` of every head, and of their average as the last one: each weight is computed once for all."""
        every = self.all_weights()
        return self._pictures([*enumerate(every), (MEAN, every.mean(axis=0))], words, special)

    def _pictures(
        self,
        found: Sequence[tuple[HeadOrMean, Float[np.ndarray, "query key"]]],
        words: bool,
        special: bool,
        scores: bool = False,
    ) -> list[Picture]:
        """Heads with their numbers as they will be drawn; see `picture`."""
        seen, of_form = self.mask(), list[Message]()
        if words and scores:
            of_form.append(Message("note_scores_of_pieces"))
        elif words and any(len(axis.word_starts) < len(axis) for axis in (self.queries, self.keys)):
            of_form.append(Message("note_merged_how"))
        if not special:
            of_form.append(Message("note_special_hidden"))
        queries, keys, formed = self._form(words and not scores, special)
        quantity = self.source.score_quantity if scores else Quantity.WEIGHT
        changes = tuple(one.message for one in self.interventions)
        pictures, of_all = [], formed(seen, np.logical_or)
        for head, values in found:
            changed = self._changes(np.empty((0, 0)) if scores else values, seen)
            notes = (*self.source.notes, *self.notes, *changed, *of_form)
            name, shown = self.head_name(head), formed(values)
            visible = of_all
            if self._heads_differ(head):
                visible = formed(self.tile_mask(slice(None), slice(None), head), np.logical_or)
            pictures.append(Picture(self.site, name, shown, visible, queries, keys, quantity, notes, changes))
        return pictures

    def thumbnails(
        self, words: bool, special: bool, size: int
    ) -> tuple[Float[np.ndarray, "head row column"], Bool[np.ndarray, "row column"]]:
        """Every head in the form of `picture` in at most `size` x `size` blocks, each the largest of its weights.

        And in which blocks something is visible.
        """
        queries, keys, formed = self._form(words, special)
        tall, wide = block_length(len(queries), size), block_length(len(keys), size)
        every = formed(self.some_weights(range(self.n_heads))), formed(self.mask(), np.logical_or)
        values, visible = (maxima(maxima(one, one.ndim - 1, wide), one.ndim - 2, tall) for one in every)
        return values, visible

    def _form(self, words: bool, special: bool) -> tuple[Axis, Axis, Callable[..., np.ndarray]]:
        """Queries and keys in a form of `picture`, and what brings numbers to it: weights, or whether they are visible.

        Of what is visible that of a word is joined by `np.logical_or`.
        """
        axes = [axis.merged() if words else axis for axis in (self.queries, self.keys)]
        rows, columns = ([i for i, hidden in enumerate(axis.special) if special or not hidden] for axis in axes)

        def formed(x: np.ndarray, join: np.ufunc = np.add) -> np.ndarray:
            if words:
                x = _joined(_joined(x, self.keys, -1, join), self.queries, -2, join)
                if join is np.add and len(axes[0]) < len(self.queries):
                    x = x / np.diff(self.queries.word_starts, append=len(self.queries))[:, None]
            return x if special else x[..., rows, :][..., columns]

        queries, keys = axes if special else (axes[0].kept(rows), axes[1].kept(columns))
        return queries, keys, formed

    def head_name(self, head: HeadOrMean) -> Message:
        """What a head is called, or the mean of all."""
        if head == MEAN and self.n_heads > 1:
            return Message("mean_of_heads", count=self.n_heads)
        return Message("head_number", head=0 if head == MEAN else head)

    def _changes(self, weights: np.ndarray, visible: np.ndarray) -> Iterator[Message]:
        """What a reader has to know of rows that interventions left without their sum of 1."""
        if not self.interventions or not weights.size:
            return
        sums, sees = weights.sum(axis=1), visible.any(axis=1)
        blind = int((sees & (sums == 0)).sum())
        short = int((sees & (sums < 1 - SHORT)).sum()) - blind
        if blind:
            yield Message("note_rows_blind", count=blind)
        if short:
            yield Message("note_rows_short", count=short)

    def _of_heads(self, head: HeadOrMean, read: Callable[[int], np.ndarray]) -> Float[np.ndarray, "query key"]:
        """What `read` gives of a head, or the mean over all of them."""
        if head != MEAN:
            return read(self._head(head))
        return np.asarray(sum(map(read, range(self.n_heads)))) / self.n_heads  # one after the other: a map may be long

    def _heads_differ(self, head: HeadOrMean) -> bool:
        """Whether a head may see fewer keys than another."""
        bias = getattr(self.source, "bias", None)
        return head != MEAN and bias is not None and bool(bias.hides)

    def _head(self, head: int) -> int:
        if not 0 <= head < self.n_heads:
            raise RecordError("not_in_site", what="head", index=head, site=self.site, last=self.n_heads - 1)
        return int(head)

    def _range(self, what: str, positions: slice, count: int) -> slice:
        if positions.step not in (None, 1):
            raise RecordError("tile_with_a_step", what=what, positions=str(positions))
        start, stop, _ = positions.indices(count)
        return slice(start, max(start, stop))


@dataclass(frozen=True, eq=False)
class Record(Mapping[Site, AttentionMap]):
    """All attention of one run on one input, by site: `record["decoder.2.cross"]`.

    `model` is the model's name, `text` what it read, as far as they are known.
    """

    maps: dict[Site, AttentionMap]
    model: str = ""
    text: str = ""

    open: ClassVar[Callable[[Path | str], "Record"]]
    of_bytes: ClassVar[Callable[[bytes | bytearray, str], "Record"]]
    save: ClassVar[Callable[["Record", Path | str], None]]
    to_bytes: ClassVar[Callable[["Record"], bytes]]
    npz: ClassVar[Callable[["Record"], bytes]]
    measures: ClassVar[Callable[..., "DataFrame"]]
    html: ClassVar[Callable[..., str]]
    _repr_html_: ClassVar[Callable[..., str]]
    _repr_mimebundle_: ClassVar[Callable[..., dict[str, str]]]
    """What opens, saves, measures and draws records stands above them, and is attached: `attention.record_methods`."""

    def __repr__(self) -> str:
        """Model, text and sites, in a line."""
        return f"Record({self.model[:200]!r}, {self.text[:200]!r}, {listed(self.sites)})"

    def __getitem__(self, site: str) -> AttentionMap:
        """The attention of a site.

        Raises:
            RecordError: no such site.
        """
        found = self.maps.get(Site(site))
        if found is None:
            raise RecordError("site_not_in_record", site=site, sites=self.sites)
        return found

    def __contains__(self, site: object) -> bool:
        return site in self.maps

    def __iter__(self) -> Iterator[Site]:
        return iter(self.maps)

    def __len__(self) -> int:
        return len(self.maps)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every site, in the order they ran."""
        return tuple(self.maps)

    @property
    def notes(self) -> tuple[str, ...]:
        """What one has to know of how the attention was kept; empty where it is exact and complete."""
        found = (note for attention in self.maps.values() for note in (*attention.source.notes, *attention.notes))
        return tuple(dict.fromkeys(found))

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """What was changed in the run; empty for a run as the model is."""
        found = (one for attention in self.maps.values() for one in attention.interventions)
        return tuple(dict.fromkeys(found))

    @property
    def kept_bytes(self) -> int:
        """Memory that the record holds on to."""
        return sum(attention.source.kept_bytes for attention in self.maps.values())


def listed(sites: Sequence[str], most: int = 6) -> str:
    """How many sites, and the first of them."""
    return f"{len(sites)} sites: {', '.join(sites[:most])}{', ...' * (len(sites) > most)}"


def _joined(x: np.ndarray, axis: Axis, dim: int, join: np.ufunc) -> np.ndarray:
    """What the positions of each word have together; as it is where each position is a word."""
    starts = axis.word_starts
    if len(starts) == len(axis):
        return x
    found: np.ndarray = join.reduceat(x, starts, dim, dtype=np.float64 if join is np.add else None)
    return found
