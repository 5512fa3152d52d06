"""Numbers that sum up attention: how spread it is, how far it reaches, what it rests on; and how far two maps agree.

Every measure is a function of weights (rows are queries and sum to 1) and of which keys each query may see, over one
map or over any leading axes of maps: heads of a record, batches of a corpus. Means over queries count only queries with
a choice: those that see at least two keys. What has no answer is NaN, never 0.

`map_totals` has every measure of any map: `measures_table` shows them of all heads of a record, an atlas
(`atlas.statistics`) adds them up over a corpus. `strongest_head` chooses what a page shows first.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..distribution import extra
from ..errors import RecordError
from ..sites import Site
from .record import AttentionMap, Record

if TYPE_CHECKING:
    from pandas import DataFrame

CROSS = "decoder.cross"
"""The sites of alignments."""

TINY = 1e-30
"""The least number that a logarithm is taken of, so that 0 ln 0 is 0; a much smaller one is slow (denormal)."""

STILL = 1e-6
"""A centre of attention that moves by less, in tokens, does not move: weights have the precision of float32."""


MOST_CELLS, MOST_LAYERS = 2**23, 256
"""Cells and layers that are looked through for the head that a page shows first: a tenth of a second in all."""


class Totals(NamedTuple):
    """A measure before it is divided: for each map the sum over all rows that count, and how many they are.

    A mean is a total over a count: dividing waits until everything is added up, so that it does not matter who adds
    what first. What is measured of several things at once (classes of keys, offsets) has them in the last axis.
    """

    total: Float[np.ndarray, "*maps width"]
    counted: Int[np.ndarray, "*#maps #width"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "*maps query"], rows: Bool[np.ndarray, "*#maps #query"]) -> "Totals":
        """The total over `rows` of what each row has; a row without an answer (NaN) does not count."""
        counted = rows & ~np.isnan(values)
        total = np.where(counted, values, 0.0).sum(-1, keepdims=True, dtype=np.float64)
        return cls(total, counted.sum(-1, keepdims=True))

    @property
    def mean(self) -> Float[np.ndarray, "*maps width"]:
        """The mean over all rows that count; NaN where none does."""
        return np.divide(self.total, self.counted, where=self.counted > 0, out=np.full_like(self.total, np.nan))


def choosing(visible: Bool[np.ndarray, "*maps query key"]) -> Bool[np.ndarray, "*maps query"]:
    """Queries with a choice: they see at least two keys."""
    return visible.sum(-1) > 1


def sum_p_log_p(weights: Float[np.ndarray, "*rows key"]) -> Float[np.ndarray, "*rows"]:
    """The sum of p ln p of each row, in nats: 0 where p is 0. NumPy's logarithm takes half of PyTorch's time."""
    terms = np.maximum(weights, TINY)
    np.log(terms, out=terms)
    terms *= weights
    return np.asarray(terms.sum(-1))


def entropy(weights: Float[np.ndarray, "*rows key"]) -> Float[np.ndarray, "*rows"]:
    """Shannon entropy of each row in nats: 0 for one key alone, log(n) for n equal weights; NaN for an empty row."""
    return np.where(weights.sum(-1) > 0, 0.0 - sum_p_log_p(weights), np.nan)


def normalised_entropy(
    entropies: Float[np.ndarray, "*maps query"], visible: Bool[np.ndarray, "*#maps query key"]
) -> Float[np.ndarray, "*maps query"]:
    """Entropy of each row as a share of its maximum, log(visible keys): 0 to 1; NaN for a query without a choice."""
    most = np.log(np.where(choosing(visible), visible.sum(-1), np.nan))
    return entropies / most


def mean_at(
    weights: Float[np.ndarray, "*rows key"], values: Float[np.ndarray, "*#rows key"]
) -> Float[np.ndarray, "*rows"]:
    """The mean of `values` of keys, weighted by each row; NaN for an empty row."""
    sums = weights.sum(-1, dtype=np.float64)
    weighted = np.einsum("...k,...k->...", weights, values.astype(weights.dtype))
    return np.divide(weighted, sums, where=sums > 0, out=np.full_like(sums, np.nan))


def distance(weights: Float[np.ndarray, "*maps position position"]) -> Float[np.ndarray, "*maps position"]:
    """Mean distance |query - key| of each row in tokens, weighted by attention; only self-attention has one."""
    positions = np.arange(weights.shape[-1], dtype=np.float64)
    return mean_at(weights, np.abs(np.subtract.outer(positions, positions)))


def centre(weights: Float[np.ndarray, "*maps query key"]) -> Float[np.ndarray, "*maps query"]:
    """The mean position that each query looks at, weighted by attention; NaN for an empty row."""
    return mean_at(weights, np.arange(weights.shape[-1], dtype=np.float64))


def share_at(
    weights: Float[np.ndarray, "*maps query key"],
    visible: Bool[np.ndarray, "*#maps query key"],
    offsets: Sequence[int],
) -> Totals:
    """Weight on the key `offset` positions after the query: -1 the previous token, 0 the same, 1 the next.

    A column an offset. Counted are queries with a choice that see that key. Source: Clark et al. 2019, section 3.1.
    """
    seeing = visible & choosing(visible)[..., None]
    total, counted = [], []
    for offset in offsets:
        rows = np.diagonal(seeing, offset, -2, -1)
        total.append((np.diagonal(weights, offset, -2, -1) * rows).sum(-1))
        counted.append(rows.sum(-1))
    return Totals(np.stack(total, -1).astype(np.float64), np.stack(counted, -1))


def received(
    weights: Float[np.ndarray, "*maps query key"], visible: Bool[np.ndarray, "*#maps query key"]
) -> Float[np.ndarray, "*maps key"]:
    """The sum of the weights that each key gets from queries with a choice."""
    rows = choosing(visible)[..., None, :].astype(weights.dtype)
    return (rows @ weights)[..., 0, :]


def share_on(
    weights: Float[np.ndarray, "*maps query key"],
    visible: Bool[np.ndarray, "*#maps query key"],
    classes: Bool[np.ndarray, "*#maps key width"],
) -> Totals:
    """Weight on each of some classes of keys, such as special tokens (Clark et al. 2019, section 3.2).

    A column a class, which marks its keys.
    """
    total = (received(weights, visible)[..., None, :] @ classes.astype(weights.dtype))[..., 0, :]
    return Totals(total.astype(np.float64), choosing(visible).sum(-1, keepdims=True))


def confidence(
    weights: Float[np.ndarray, "*maps query key"],
    visible: Bool[np.ndarray, "*#maps query key"],
    keys: Bool[np.ndarray, "*#maps key"],
) -> Totals:
    """Each query's largest weight among `keys`; none where no key is marked.

    Source: Voita et al. 2019, section 3, who leave out the end token.
    """
    rows = choosing(visible) & keys.any(-1, keepdims=True)
    return Totals.of((weights * keys[..., None, :]).max(-1, initial=0.0), rows)


def advance(centres: Float[np.ndarray, "*maps query"]) -> Float[np.ndarray, "*maps"]:
    """Correlation (Pearson) of a query's position and the mean position that it looks at: 1 for reading in step.

    NaN for fewer than three queries, or where the look never moves. Queries without a `centre` are left out.
    """
    seeing = ~np.isnan(centres)
    n = seeing.sum(-1, keepdims=True)
    steps = np.where(seeing, np.arange(centres.shape[-1]), 0.0)
    looks = np.where(seeing, centres, 0.0)
    x = np.where(seeing, steps - steps.sum(-1, keepdims=True) / np.maximum(n, 1), 0.0)
    y = np.where(seeing, looks - looks.sum(-1, keepdims=True) / np.maximum(n, 1), 0.0)
    moves = y.max(-1, initial=0.0) - y.min(-1, initial=0.0) >= STILL
    size = np.sqrt(np.square(x).sum(-1) * np.square(y).sum(-1))
    valid = moves & (n[..., 0] >= 3)
    return np.divide((x * y).sum(-1), size, where=valid, out=np.full_like(size, np.nan))


def divergence(
    of_mean: Float[np.ndarray, "*rows"], one: Float[np.ndarray, "*rows"], other: Float[np.ndarray, "*rows"]
) -> Float[np.ndarray, "*rows"]:
    """Jensen-Shannon divergence in nats of two rows, from the entropy of their mean and from their own.

    0 for equal rows, ln 2 for rows that share no key. Source: Lin 1991, "Divergence measures based on the Shannon
    entropy", equation 4.1, with equal weights.
    """
    return np.maximum(of_mean - (one + other) / 2, 0.0)


def map_totals(
    weights: Float[np.ndarray, "*maps query key"],
    visible: Bool[np.ndarray, "*#maps query key"],
    real: Bool[np.ndarray, "*#maps key"],
    is_self: bool,
) -> dict[str, Totals]:
    """The totals of every measure that any map has: a record shows their means, an atlas adds them up over a corpus.

    `real` marks keys that are no special tokens; `is_self` says that queries and keys are the same positions. A new
    measure is a line here (and, to be stored in an atlas, a name in `atlas.statistics.MEASURES` with its two texts).
    """
    rows, each = choosing(visible), entropy(weights)
    found = {
        "entropy": Totals.of(each, rows),
        "normalised_entropy": Totals.of(normalised_entropy(each, visible), rows),
        "confidence": confidence(weights, visible, real),
    }
    return found | ({"distance": Totals.of(distance(weights), rows)} if is_self else {})


def measure(attention: AttentionMap, head: int) -> dict[str, float]:
    """One head in numbers, by name; NaN where a measure does not apply.

    `entropy` (nats), `normalised_entropy` and `distance` (tokens) are means over queries with a choice; `confidence`
    is over keys that are no special tokens. `distance` and the weights on the `previous`, the `same` and the `next`
    position belong to self-attention. `special` is the weight on special tokens, `advance` a correlation. A decoder
    position is where a token is read: `same` is the weight on the token that was read last.

    Raises:
        RecordError: the map has no such head.
    """
    every = slice(None)
    weights, visible = attention.weights(head).astype(np.float64), attention.tile_mask(every, every, head)
    special, kind = np.array(attention.keys.special, dtype=bool), attention.site.kind
    same_tokens = attention.queries.texts == attention.keys.texts
    is_self = weights.shape[0] == weights.shape[1] and (kind == "self" or (same_tokens and kind != "cross"))
    values = {name: total.mean.item() for name, total in map_totals(weights, visible, ~special, is_self).items()}
    values.setdefault("distance", np.nan)
    near = share_at(weights, visible, (-1, 0, 1)).mean.tolist() if is_self else [np.nan] * 3
    values |= zip(("previous", "same", "next"), near, strict=True)
    values["special"] = share_on(weights, visible, special[:, None]).mean.item()
    return values | {"advance": advance(centre(weights)).item()}


def measures_table(record: Record, progress: Callable[[float], None] = lambda _: None) -> "DataFrame":
    """The measures of every head, a row each, in the order they ran.

    `progress` is told the share that is done, and may raise.
    """
    with extra("plots"):
        from pandas import DataFrame  # not at the top, where the start of every page would wait for it

    heads = [(attention, head) for attention in record.values() for head in range(attention.n_heads)]
    rows = []
    for done, (one, head) in enumerate(heads):
        progress(done / len(heads))
        rows.append(dict(site=str(one.site), head=head, **measure(one, head)))
    return DataFrame(rows)


def strongest_head(record: Record, kind: str = CROSS) -> tuple[int, int]:
    """Layer and head to look at first: of all layers of a kind, the one with the highest `confidence` on real tokens.

    `kind` is a site name without its layer: `encoder.self`, `decoder.self`, `decoder.cross` or `pooling`. Of equals, or
    where no query has a choice, the first. Of large records some heads are looked at (`looked_through`).

    Raises:
        RecordError: the record has no site of this kind.
    """
    found: dict[tuple[int, int], float] = {(0, 0): np.nan}
    maps = [record[site] for site in sites_of(record, kind)]
    for layer, heads in some_heads(maps):
        weights, real = maps[layer].some_weights(heads), ~np.array(maps[layer].keys.special, dtype=bool)
        means = confidence(weights, maps[layer].mask(), real).mean[..., 0].tolist()
        found |= {(layer, head): mean for head, mean in zip(heads, means, strict=True)}
    return max(found, key=lambda place: np.nan_to_num(found[place], nan=-np.inf))


def some_heads(maps: Sequence[AttentionMap], share: int = 1) -> Iterator[tuple[int, range]]:
    """The layers whose heads are looked through, and which heads of each: see `looked_through`."""
    step, first = looked_through(maps, share), 0
    for layer, attention in enumerate(maps if step else ()):
        if first < attention.n_heads:
            yield layer, range(first, attention.n_heads, step)
        first = (first - attention.n_heads) % step


def looked_through(maps: Sequence[AttentionMap], share: int = 1) -> int:
    """Of how many heads one is looked at, so that all of them take at most `MOST_CELLS` / `share`; 0 where none is."""
    cost, heads, most = max(one.source.head_cost for one in maps), sum(one.n_heads for one in maps), MOST_CELLS // share
    if cost > most:
        return 0
    return max(1, -(-heads * cost // most), -(-heads // MOST_LAYERS) if len(maps) > MOST_LAYERS else 1)


def kinds_of(record: Record) -> dict[str, tuple[Site, ...]]:
    """What can be drawn as one wall of layers x heads, by name, in the order in which it ran.

    The sites of a group, first layer first, where they have the same labels and as many heads; else each by itself.
    """
    groups: dict[str, list[Site]] = {}
    for site in record.sites:
        groups.setdefault(site.group, []).append(site)
    found: dict[str, tuple[Site, ...]] = {}
    for group, sites in groups.items():
        first, *others = [(record[site].n_heads, record[site].queries, record[site].keys) for site in sites]
        alike = all(one == first for one in others)
        found |= {group: tuple(sites)} if alike else {str(site): (site,) for site in sites}
    return found


def sites_of(record: Record, kind: str) -> tuple[Site, ...]:
    """The sites of a kind (a group, or a site by its name), first layer first.

    Raises:
        RecordError: the record has none.
    """
    sites = tuple(site for site in record.sites if kind in (site.group, site)) or kinds_of(record).get(kind, ())
    if not sites:
        kinds = tuple(dict.fromkeys(site.group for site in record.sites))
        raise RecordError("kind_not_in_record", kind=kind, kinds=kinds)
    return sites


def agreement(
    one: Float[np.ndarray, "query key"], other: Float[np.ndarray, "other_query other_key"]
) -> Float[np.ndarray, " query"]:
    """How alike two maps are, row by row: 1 - Jensen-Shannon distance, 1 for equal rows, 0 for rows that share no key.

    The distance is the square root of the divergence in bits, a metric (Endres and Schindelin 2003). Rows are made to
    sum to 1 first; an empty row has no answer (NaN).

    Raises:
        RecordError: the maps differ in size.
    """
    if one.shape != other.shape:
        raise RecordError("other_shapes", first=str(one.shape), second=str(other.shape))
    p, q = _distributions(one), _distributions(other)
    nats = divergence(entropy((p + q) / 2), entropy(p), entropy(q))
    return 1.0 - np.sqrt(np.minimum(nats / np.log(2), 1.0))


def _distributions(weights: np.ndarray) -> Float[np.ndarray, "query key"]:
    rows = np.asarray(weights, dtype=np.float64)
    sums = rows.sum(axis=1, keepdims=True)
    return np.divide(rows, sums, where=sums > 0, out=np.full_like(rows, np.nan))


def rank_correlation(a: Float[np.ndarray, " row"], b: Float[np.ndarray, " row"]) -> float:
    """Spearman's rho, ties sharing their mean rank; NaN for under three rows, or where all are equal."""
    with extra("plots"):
        from scipy.stats import spearmanr  # not at the top, where the start of every page would wait for it

    return float("nan") if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0 else float(spearmanr(a, b).statistic)
