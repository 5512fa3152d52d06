"""Numbers that sum up attention: how spread it is, how far it reaches, what it rests on, and what a head seems to do.

Every measure is a function of weights (rows are queries and sum to 1) and of which keys each query may see. Means over
queries count only queries with a choice: those that see at least two keys. What has no answer is NaN, never 0.

`strongest_head` chooses what a page shows first, `agreement` compares two models, `measure_all` is for whoever studies
all heads of a record at once.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from transformer.attention.record import AttentionMap, Record
from transformer.errors import RecordError
from transformer.sites import Site

if TYPE_CHECKING:
    from pandas import DataFrame

SHARE = 0.5
"""A head has a role by position, or rests on special tokens, if that takes at least this mean share of its weight."""

BROAD = 0.9
"""A head is broad from this mean normalised entropy on; 1 is the same weight for every key."""

ALIGNED = 0.9
"""A cross-attention head is aligned from this correlation of query position and centre of attention on."""


def entropy(weights: Float[np.ndarray, "query key"]) -> Float[np.ndarray, " query"]:
    """Shannon entropy of each row in nats: 0 for one key alone, log(n) for n equal weights; NaN for an empty row."""
    from scipy.special import entr  # -p log p, 0 at 0; not at the top, where the start of every page would wait for it

    rows = np.asarray(weights, dtype=np.float64)
    return np.where(rows.sum(axis=1) > 0, entr(rows).sum(axis=1), np.nan)


def normalised_entropy(
    weights: Float[np.ndarray, "query key"], visible: Bool[np.ndarray, "query key"]
) -> Float[np.ndarray, " query"]:
    """Entropy of each row as a share of its maximum, log(visible keys): 0 to 1; NaN for a query without a choice."""
    most = np.log(np.maximum(visible.sum(axis=1), 1).astype(np.float64))
    return np.divide(entropy(weights), most, where=most > 0, out=np.full(len(weights), np.nan))


def distance(weights: Float[np.ndarray, "position position"]) -> Float[np.ndarray, " position"]:
    """Mean distance |query - key| of each row in tokens, weighted by attention; only self-attention has one."""
    rows = np.asarray(weights, dtype=np.float64)
    apart = np.abs(np.subtract.outer(np.arange(rows.shape[0]), np.arange(rows.shape[1])))
    return np.where(rows.sum(axis=1) > 0, (rows * apart).sum(axis=1), np.nan)


def share_at(
    weights: Float[np.ndarray, "position position"], visible: Bool[np.ndarray, "position position"], offset: int
) -> float:
    """Mean weight on the key `offset` positions after the query: -1 the previous token, 0 the same, 1 the next.

    Counted are queries with a choice that see that key. Source: Clark et al. 2019, section 3.1.
    """
    queries = np.arange(len(weights))
    queries = queries[(queries + offset >= 0) & (queries + offset < len(weights)) & _choosing(visible)]
    queries = queries[visible[queries, queries + offset]]
    return _mean(weights[queries, queries + offset])


def share_on(
    weights: Float[np.ndarray, "query key"], visible: Bool[np.ndarray, "query key"], keys: Bool[np.ndarray, " key"]
) -> float:
    """Mean share of weight that falls on the marked `keys`, such as special tokens (Clark et al. 2019, section 3.2)."""
    return _mean(weights[_choosing(visible)][:, keys].sum(axis=1))


def confidence(
    weights: Float[np.ndarray, "query key"], visible: Bool[np.ndarray, "query key"], keys: Bool[np.ndarray, " key"]
) -> float:
    """Mean of each query's largest weight among `keys`.

    Source: Voita et al. 2019, section 3, who leave out the end token.
    """
    chosen = weights[_choosing(visible)][:, keys]
    return _mean(chosen.max(axis=1)) if chosen.size else np.nan


def advance(weights: Float[np.ndarray, "query key"]) -> float:
    """Correlation (Pearson) of a query's position and the mean position that it looks at: 1 for reading in step.

    NaN for fewer than three queries, or where the look never moves.
    """
    rows = np.asarray(weights, dtype=np.float64)
    seeing = np.flatnonzero(rows.sum(axis=1) > 0)
    rows = rows[seeing]
    centres = (rows @ np.arange(rows.shape[1])) / rows.sum(axis=1)
    if len(seeing) < 3 or np.ptp(centres) < 1e-9:
        return np.nan
    return float(np.corrcoef(seeing, centres)[0, 1])


@dataclass(frozen=True)
class HeadMeasures:
    """One head in numbers (see the functions of the same names); NaN where a measure does not apply.

    `entropy` (nats), `normalised_entropy` and `distance` (tokens) are means over queries with a choice; `confidence`
    is over keys that are no special tokens. `previous`, `same`, `next` and `distance` belong to self-attention. A
    decoder position is where a token is read: `same` is the weight on the token that was read last.
    """

    site: Site
    head: int
    entropy: float
    normalised_entropy: float
    distance: float
    previous: float
    same: float
    next: float
    special: float
    confidence: float
    advance: float

    @property
    def roles(self) -> tuple[str, ...]:
        """What the head seems to do in this sentence; none, one or several.

        - previous, same or next token: that key has a mean weight of at least `SHARE`;
        - special tokens: start, end and padding together have at least `SHARE`;
        - broad: the mean normalised entropy is at least `BROAD`;
        - aligned: a cross-attention whose centre advances with the query (correlation of at least `ALIGNED`) and whose
          largest weight is at least `SHARE` on average.
        """
        found = {
            "previous token": self.previous >= SHARE,
            "same token": self.same >= SHARE,
            "next token": self.next >= SHARE,
            "special tokens": self.special >= SHARE,
            "broad": self.normalised_entropy >= BROAD,
            "aligned": self.site.kind == "cross" and self.advance >= ALIGNED and self.confidence >= SHARE,
        }
        return tuple(role for role, holds in found.items() if holds)


def measure(attention: AttentionMap, head: int) -> HeadMeasures:
    """All measures of one head.

    Raises:
        RecordError: the map has no such head.
    """
    weights, visible = attention.weights(head).astype(np.float64), attention.mask()
    choosing, special = _choosing(visible), np.array(attention.keys.special, dtype=bool)
    kind, same_tokens = attention.site.kind, attention.queries.texts == attention.keys.texts
    is_self = weights.shape[0] == weights.shape[1] and (kind == "self" or (same_tokens and kind != "cross"))
    previous, same, following = (share_at(weights, visible, offset) if is_self else np.nan for offset in (-1, 0, 1))
    return HeadMeasures(
        site=attention.site,
        head=head,
        entropy=_mean(entropy(weights)[choosing]),
        normalised_entropy=_mean(normalised_entropy(weights, visible)[choosing]),
        distance=_mean(distance(weights)[choosing]) if is_self else np.nan,
        previous=previous,
        same=same,
        next=following,
        special=share_on(weights, visible, special),
        confidence=confidence(weights, visible, ~special),
        advance=advance(weights),
    )


def measure_all(record: Record) -> tuple[HeadMeasures, ...]:
    """The measures of every head, in the order they ran."""
    return tuple(measure(attention, head) for attention in record.values() for head in range(attention.n_heads))


def measures_table(record: Record) -> "DataFrame":
    """`measure_all` as a table with a row for each head; `roles` are joined by commas."""
    from pandas import DataFrame  # late, as in `entropy`

    rows = [{**asdict(one), "site": str(one.site), "roles": ", ".join(one.roles)} for one in measure_all(record)]
    return DataFrame(rows)


class StrongestHead(NamedTuple):
    """A head by its site, the rank of that site among those of its kind (its layer), and its number."""

    site: Site
    layer: int
    head: int


def strongest_head(record: Record, kind: str = "decoder.cross") -> StrongestHead:
    """The head to look at first: of all layers of a kind, the one with the highest `confidence` on real tokens.

    `kind` is a site name without its layer: `encoder.self`, `decoder.self`, `decoder.cross` or `pooling`. Of equals, or
    where no query has a choice, the first.

    Raises:
        RecordError: the record has no site of this kind.
    """
    candidates: list[tuple[float, StrongestHead]] = []
    for layer, site in enumerate(sites_of(record, kind)):
        attention = record[site]
        visible, real = attention.mask(), ~np.array(attention.keys.special, dtype=bool)
        for head in range(attention.n_heads):
            value = confidence(attention.weights(head), visible, real)
            candidates.append((-np.inf if np.isnan(value) else value, StrongestHead(site, layer, head)))
    return max(candidates, key=lambda candidate: candidate[0])[1]


def kinds_of(record: Record) -> dict[str, tuple[Site, ...]]:
    """What can be drawn as one wall of layers x heads, by name, in the order in which it ran.

    The sites of a group, first layer first, where they have the same labels and as many heads; else each by itself.
    """
    groups: dict[str, list[Site]] = {}
    for site in record.sites:
        groups.setdefault(_wall(site), []).append(site)
    found: dict[str, tuple[Site, ...]] = {}
    for group, sites in groups.items():
        first, *others = [(record[site].n_heads, record[site].queries, record[site].keys) for site in sites]
        alike = all(one == first for one in others)
        found |= {group: tuple(sites)} if alike else {str(site): (site,) for site in sites}
    return found


def _wall(site: Site) -> str:
    """The group of a site, also where the numbered module itself attends: `blocks` for `blocks.0`."""
    path, mark, time = site.partition("#")
    stack, _, number = path.rpartition(".")
    return f"{stack}{mark}{time}" if stack and number.isdigit() else site.group


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


def has_kind(record: Record, kind: str) -> bool:
    """Whether the record has a site of a kind: a recurrent net has no `encoder.self`, for one."""
    return any(kind in (site.group, site) for site in record.sites)


def agreement(
    one: Float[np.ndarray, "query key"], other: Float[np.ndarray, "other_query other_key"]
) -> Float[np.ndarray, " query"]:
    """How alike two maps are, row by row: 1 - Jensen-Shannon distance, 1 for equal rows, 0 for rows that share no key.

    The distance is the square root of the divergence in bits, a metric (Endres and Schindelin 2003). Rows are made to
    sum to 1 first; an empty row has no answer (NaN).

    Raises:
        RecordError: the maps differ in size.
    """
    from scipy.special import rel_entr  # p log(p / q), 0 where p is 0; late, as in `entropy`

    if one.shape != other.shape:
        raise RecordError("other_shapes", first=str(one.shape), second=str(other.shape))
    p, q = _distributions(one), _distributions(other)
    middle = (p + q) / 2
    bits = (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=1) / (2 * np.log(2))
    return 1.0 - np.sqrt(np.clip(bits, 0.0, 1.0))


def _distributions(weights: np.ndarray) -> Float[np.ndarray, "query key"]:
    rows = np.asarray(weights, dtype=np.float64)
    sums = rows.sum(axis=1, keepdims=True)
    return np.divide(rows, sums, where=sums > 0, out=np.full_like(rows, np.nan))


def _choosing(visible: np.ndarray) -> Bool[np.ndarray, " query"]:
    """Queries with a choice: they see at least two keys."""
    return visible.sum(axis=1) > 1


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


def rank_correlation(a: Float[np.ndarray, " row"], b: Float[np.ndarray, " row"]) -> float:
    """Spearman's rho, ties sharing their mean rank; NaN for under three rows, or where all are equal."""
    from scipy.stats import spearmanr  # not at the top, where the start of every page would wait for it

    return float("nan") if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0 else float(spearmanr(a, b).statistic)
