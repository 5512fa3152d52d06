"""What a batch of maps adds up to: for each sentence and head the total of every measure, and what it is a mean over.

What entropy, distance, confidence and other measures of any map are is defined in `attention.measures`; here are those
that take a corpus or its words. Means over rows count queries with a choice (they see at least two keys), every such
row alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer.atlas.maps import Maps
from transformer.attention.measures import (
    Totals,
    advance,
    centre,
    choosing,
    confidence,
    distance,
    divergence,
    entropy,
    mean_at,
    normalised_entropy,
    received,
    share_at,
    share_on,
    sum_p_log_p,
)

REACH = 16
"""Profiles of offsets lead from this many positions before the query to as many after it."""

OFFSETS = range(-REACH, REACH + 1)

SHARES = ("special", "start", "end", "padding", "punctuation", "number", "first_piece")
"""Classes of keys whose share of the weight is measured."""

MEASURES = (
    "entropy", "normalised_entropy", "confidence", "distance", "previous", "same", "next", *SHARES, "sibling",
    "rare", "diagonality", "advance",
)  # fmt: skip
"""The measures of `heads.parquet`, each made by `text_totals`; the page's table calls M what `atlas.measure_M` says."""

NEIGHBOURS = {"previous": REACH - 1, "same": REACH, "next": REACH + 1}
"""Where a profile of offsets holds the weight on the previous, the same and the next position."""

PAIRS_AT_ONCE = 2**17
"""Cells of heads that are compared with one other at one time: 512 kB, which stays in a processor's cache."""

FISHER_LIMIT = 0.999999
"""A correlation beyond this counts as this: Fisher's z of 1 is infinite."""


@dataclass(frozen=True, eq=False)
class TextKeys:
    """What the keys of a batch are: `classes[name]` marks them; `words` numbers the word that a position belongs to.

    `words` is negative for special tokens and padding. `rarest` is, for a sentence, the key whose token is rarest in
    the corpus, or -1 where all of its tokens are frequent. One class list serves every kind with these keys.
    """

    classes: Mapping[str, Bool[Tensor, "sentence key"]]
    words: Int[Tensor, "sentence key"]
    rarest: Int[Tensor, " sentence"]

    @property
    def special(self) -> Bool[Tensor, "sentence key"]:
        """Start and end tokens."""
        return self.classes["special"]


def text_totals(maps: Maps, keys: TextKeys) -> dict[str, Totals]:
    """Every measure of text, and what heads differ by."""
    weights, visible = maps.weights.numpy(), maps.visible.numpy()[:, None]
    rows, kind = choosing(visible), maps.sites[0][0].kind
    real = ~keys.special.numpy()[:, None, : weights.shape[-1]]
    centres = centre(weights)
    found = spread_of(weights, visible)
    found["advance"] = advance_of(centres)
    found["confidence"] = confidence(weights, visible, real)
    marks = np.stack([keys.classes[name].numpy() for name in SHARES], axis=-1)
    shares = share_on(weights, visible, marks[:, None])
    found |= {name: Totals(shares.total[..., i : i + 1], shares.counted) for i, name in enumerate(SHARES)}
    words = real[:, 0] & ~keys.classes["padding"].numpy() & visible[:, 0].any(1)
    found["rare"] = rare(received(weights, visible), words, keys.rarest.numpy())
    if kind == "cross":
        found["diagonality"] = diagonality(maps, centres)
    if kind == "self":
        number = keys.words.numpy()
        same = (number[:, :, None] == number[:, None, :]) & (number[:, :, None] >= 0)
        same &= ~np.eye(same.shape[1], dtype=bool)
        found["sibling"] = Totals.of(mean_at(weights, same[:, None].astype(weights.dtype)), rows)
        found["distance"] = Totals.of(distance(weights), rows)
    found["offset"] = share_at(weights, visible, OFFSETS)
    n_queries, n_keys = weights.shape[2:]
    found["argmax"] = argmax_profile(maps.best, rows, np.arange(n_keys) - np.arange(n_queries)[:, None])
    if weights.shape[1] > 2:
        found["divergence"] = divergences(weights[:, :-1], visible, found["entropy"])
    return found


def spread_of(
    weights: Float[np.ndarray, "sentence head query key"], visible: Bool[np.ndarray, "sentence 1 query key"]
) -> dict[str, Totals]:
    """Entropy of the rows in nats, and as a share of the most that a row can have."""
    each, rows = entropy(weights), choosing(visible)
    return {
        "entropy": Totals.of(each, rows),
        "normalised_entropy": Totals.of(normalised_entropy(each, visible), rows),
    }


def argmax_profile(
    best: Int[np.ndarray, "sentence head query"],
    rows: Bool[np.ndarray, "sentence 1 query"],
    apart: Int[np.ndarray, "query key"],
) -> Totals:
    """How often the largest weight of a row, at the key `best`, lies at each offset; keys lie `apart` from queries."""
    n_sentences, n_heads, n_queries = best.shape
    place = apart[np.arange(n_queries), best] + REACH
    counted = (place >= 0) & (place < len(OFFSETS)) & rows
    cells = (np.arange(n_sentences)[:, None, None] * n_heads + np.arange(n_heads)[:, None]) * len(OFFSETS) + place
    hits = np.bincount(cells[counted], minlength=n_sentences * n_heads * len(OFFSETS))
    return Totals(hits.reshape(n_sentences, n_heads, -1).astype(np.float64), rows.sum(-1, keepdims=True))


def diagonality(maps: Maps, centres: Float[np.ndarray, "sentence head query"]) -> Totals:
    """One less how far the mean position that a query looks at is from its own, both as shares of their lengths.

    1 is reading in step from the first key to the last. Every row counts; sentences of one query or key do not.
    """
    n_queries, n_keys = (lengths.numpy()[:, None, None] for lengths in (maps.n_queries, maps.n_keys))
    positions = np.arange(centres.shape[-1])
    apart = np.abs(centres / np.maximum(n_keys - 1, 1) - positions / np.maximum(n_queries - 1, 1))
    return Totals.of(1 - apart, (positions < n_queries) & (n_queries > 1) & (n_keys > 1))


def advance_of(centres: Float[np.ndarray, "sentence head query"]) -> Totals:
    """Fisher's z of the correlation of a query's position and the mean position that it looks at, one a sentence."""
    z = np.arctanh(advance(centres).clip(-FISHER_LIMIT, FISHER_LIMIT))
    return Totals.of(z[..., None], np.ones((1, 1, 1), dtype=bool))


def rare(
    received: Float[np.ndarray, "sentence head key"],
    real: Bool[np.ndarray, "sentence key"],
    rarest: Int[np.ndarray, " sentence"],
) -> Totals:
    """Whether the most attended real key is the sentence's rarest token (Voita et al. 2019, section 5.2.3).

    Even attention has no most attended key: its place holds the chance that a key drawn at random is the rarest.
    """
    best = np.where(real[:, None], received, -1.0).argmax(-1)
    counted = rarest >= 0
    hit = ((best == rarest[:, None]) & counted[:, None]).astype(np.float64)
    hit[:, -1] = counted / np.maximum(real.sum(-1), 1)
    return Totals(hit[:, :, None], counted.astype(np.int64)[:, None, None])


def divergences(
    weights: Float[np.ndarray, "sentence head query key"],
    visible: Bool[np.ndarray, "sentence 1 query key"],
    entropies: Totals,
) -> Totals:
    """Jensen-Shannon divergence in nats of each pair of heads, row by row: head 0 with 1, 2 ..., then 1 with 2 ...

    Totals of `entropies` hold those of each head. Cells that no sentence of the batch sees are left out: a causal half.
    """
    n_sentences, n_heads = weights.shape[:2]
    seen = visible.any((0, 1)).flatten()
    halves = (weights * (choosing(visible)[..., None] / weights.dtype.type(2))).reshape(n_sentences, n_heads, -1)
    if not seen.all():
        halves = halves[..., seen]
    first, second = np.triu_indices(n_heads, 1)
    of_mean = np.empty((n_sentences, len(first)))
    size = max(1, PAIRS_AT_ONCE // max(1, n_heads * halves.shape[-1]))
    for start in range(0, n_sentences, size):
        part = halves[start : start + size]
        means = [part[:, head, None] + part[:, head + 1 :] for head in range(n_heads - 1)]
        of_mean[start : start + size] = np.concatenate([-sum_p_log_p(one) for one in means], axis=1)
    alone = entropies.total[:, :n_heads, 0]
    pairs = divergence(of_mean, alone[:, first], alone[:, second])
    return Totals(pairs[:, None], entropies.counted[:, :1])


def pairs_of(n_heads: int) -> list[tuple[int, int]]:
    """The pairs of heads in the order of `divergences`."""
    return [(i, j) for i in range(n_heads) for j in range(i + 1, n_heads)]
