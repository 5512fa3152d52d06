"""What a batch of maps adds up to: for each sentence and head the total of every measure, and what it is a mean over.

The measures are those of `attention.measures`, made for whole batches; a test holds the two against each other. A mean
is a total over a count: dividing waits until everything is added up, so that it does not matter who adds what first.
Means over rows count queries with a choice (they see at least two keys), every such row alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer.atlas.maps import Maps

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

TINY = 1e-30
"""Is added where logarithms are taken, and 0 ln 0 is 0; much less would be slow to compute with (a denormal number)."""

PAIRS_AT_ONCE = 2**17
"""Cells of heads that are compared with one other at one time: 512 kB, which stays in a processor's cache."""

CELLS_AT_ONCE = 2**14
"""Cells of a map that are sorted by offset at one time, so that long sentences take no more memory: 2 MB."""

FISHER_LIMIT = 0.999999
"""A correlation beyond this counts as this: Fisher's z of 1 is infinite."""


class Totals(NamedTuple):
    """A measure of a batch: per sentence and head the sum over what is counted, and how much was counted."""

    total: Float[np.ndarray, "sentence head width"]
    counted: Int[np.ndarray, "sentence #head #width"]


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
    weights = maps.weights
    found = {}
    kind = maps.sites[0][0].kind
    positions = torch.arange(weights.shape[-1], dtype=weights.dtype)
    centres = torch.mv(weights.flatten(0, 2), positions).view(weights.shape[:3]).double()
    found["advance"] = advance(maps, centres)
    if kind == "cross":
        found["diagonality"] = diagonality(maps, centres)
    rows = maps.choosing
    if not bool(rows.all()):
        weights = weights * rows[:, None, :, None]
    n_rows = _count(rows.sum(-1))
    above = weights + TINY
    found |= spread_of(maps, above, rows)
    real = ~keys.special[:, : weights.shape[-1]]
    found["confidence"] = Totals(_per_head((weights * real[:, None, None]).amax(-1).double().sum(-1)), n_rows)
    received = weights.sum(2)
    marks = torch.stack([keys.classes[name].to(weights.dtype) for name in SHARES], dim=-1)
    shares = (received @ marks).double().numpy()
    found |= {name: Totals(shares[:, :, i : i + 1], n_rows) for i, name in enumerate(SHARES)}
    found["rare"] = rare(received, real & ~keys.classes["padding"] & maps.visible.any(1), keys.rarest)
    if kind == "self":
        same = (keys.words[:, :, None] == keys.words[:, None, :]) & (keys.words[:, :, None] >= 0)
        same &= ~torch.eye(same.shape[1], dtype=torch.bool)
        found["sibling"] = Totals(_per_head(_weighted(weights, same.to(weights.dtype))), n_rows)
        apart = (positions[None, :] - torch.arange(weights.shape[-2], dtype=weights.dtype)[:, None]).abs()
        found["distance"] = Totals(_per_head(_weighted(weights, apart.expand(len(weights), -1, -1))), n_rows)
    found["offset"] = offset_profile(weights, maps.visible & rows[:, :, None])
    found["argmax"] = argmax_profile(maps.best, rows)
    if weights.shape[1] > 2:
        found["divergence"] = divergences(above[:, :-1], maps.visible, found["entropy"])
    return found


def spread_of(
    maps: Maps, above: Float[Tensor, "sentence head query key"], rows: Bool[Tensor, "sentence query"]
) -> dict[str, Totals]:
    """Entropy of the rows in nats, and as a share of the most that a row can have; `above` is `TINY` more than weights.

    Rows that do not count are `TINY` everywhere, and add nothing.
    """
    each = -(logarithm(above).mul_(above).sum(-1).double())
    most = maps.visible.sum(-1).clamp(min=2).double().log()
    n_rows = _count(rows.sum(-1))
    return {
        "entropy": Totals(_per_head(each.sum(-1)), n_rows),
        "normalised_entropy": Totals(_per_head((each / most[:, None]).sum(-1)), n_rows),
    }


def logarithm(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The natural logarithm by NumPy, which takes half of PyTorch's time on processors that are not Intel's."""
    return torch.from_numpy(np.log(values.numpy()))


def offset_profile(
    weights: Float[Tensor, "sentence head query key"], visible: Bool[Tensor, "sentence query key"]
) -> Totals:
    """Weight on the key `offset` positions after the query; counted are the rows that can see that key."""
    n_queries, n_keys = weights.shape[2:]
    share = torch.zeros(*weights.shape[:2], len(OFFSETS), dtype=torch.float64)
    counted = torch.zeros(len(weights), len(OFFSETS))
    size = max(1, CELLS_AT_ONCE // n_keys)
    for start in range(0, n_queries, size):
        rows = slice(start, min(start + size, n_queries))
        at_offset = _at_offset(start, rows.stop, n_keys)
        share += (weights[:, :, rows].flatten(2) @ at_offset).double()
        counted += visible[:, rows].flatten(1).to(weights.dtype) @ at_offset
    return Totals(share.numpy(), counted.long().numpy()[:, None])


def argmax_profile(best: Int[np.ndarray, "sentence head query"], rows: Bool[Tensor, "sentence query"]) -> Totals:
    """How often the largest weight of a row, at the key `best`, lies at each offset."""
    n_sentences, n_heads, n_queries = best.shape
    place = best - np.arange(n_queries) + REACH
    counted = (place >= 0) & (place < len(OFFSETS)) & rows.numpy()[:, None]
    cells = (np.arange(n_sentences)[:, None, None] * n_heads + np.arange(n_heads)[:, None]) * len(OFFSETS) + place
    hits = np.bincount(cells[counted], minlength=n_sentences * n_heads * len(OFFSETS))
    return Totals(hits.reshape(n_sentences, n_heads, -1).astype(np.float64), _count(rows.sum(-1)))


def diagonality(maps: Maps, centres: Float[Tensor, "sentence head query"]) -> Totals:
    """One less how far the mean position that a query looks at is from its own, both as shares of their lengths.

    1 is reading in step from the first key to the last. Every row counts; sentences of one query or key do not.
    """
    lengths = (maps.n_queries - 1).clamp(min=1), (maps.n_keys - 1).clamp(min=1)
    steps = torch.arange(centres.shape[-1]).double() / lengths[0][:, None]
    apart = (centres / lengths[1][:, None, None] - steps[:, None]).abs()
    real = torch.arange(centres.shape[-1]) < maps.n_queries[:, None]
    long_enough = (maps.n_queries > 1) & (maps.n_keys > 1)
    counted = real & long_enough[:, None]
    return Totals(_per_head(((1 - apart) * counted[:, None]).sum(-1)), _count(counted.sum(-1)))


def advance(maps: Maps, centres: Float[Tensor, "sentence head query"]) -> Totals:
    """Fisher's z of the correlation of a query's position and the mean position that it looks at, one a sentence.

    Sentences of fewer than three queries, and those where the look never moves, have none.
    """
    seeing = maps.visible.any(-1).double()[:, None]
    n = seeing.sum(-1, keepdim=True).clamp(min=1)
    steps = torch.arange(centres.shape[-1]).double() * seeing
    x = (steps - steps.sum(-1, keepdim=True) / n) * seeing
    y = (centres - (centres * seeing).sum(-1, keepdim=True) / n) * seeing
    high = centres.masked_fill(seeing == 0, -torch.inf).amax(-1)
    moving = high - centres.masked_fill(seeing == 0, torch.inf).amin(-1) >= 1e-6  # float32 weights
    valid = moving & (n[..., 0] >= 3)
    size = (x.square().sum(-1) * y.square().sum(-1)).sqrt().masked_fill(~valid, 1.0)
    r = ((x * y).sum(-1) / size).clamp(-FISHER_LIMIT, FISHER_LIMIT)
    return Totals(_per_head(r.atanh().masked_fill(~valid, 0.0)), valid.long().numpy()[:, :, None])


def rare(
    received: Float[Tensor, "sentence head key"], real: Bool[Tensor, "sentence key"], rarest: Int[Tensor, " sentence"]
) -> Totals:
    """Whether the most attended real key is the sentence's rarest token (Voita et al. 2019, section 5.2.3).

    Even attention has no most attended key: its place holds the chance that a key drawn at random is the rarest.
    """
    best = received.masked_fill(~real[:, None], -1.0).numpy().argmax(-1)
    counted = (rarest >= 0).numpy()
    hit = ((best == rarest.numpy()[:, None]) & counted[:, None]).astype(np.float64)
    hit[:, -1] = counted / np.maximum(real.sum(-1).numpy(), 1)
    return Totals(hit[:, :, None], counted.astype(np.int64)[:, None, None])


def divergences(
    above: Float[Tensor, "sentence head query key"],
    visible: Bool[Tensor, "sentence query key"],
    entropy: Totals,
) -> Totals:
    """Jensen-Shannon divergence in nats of each pair of heads, row by row: head 0 with 1, 2 ..., then 1 with 2 ...

    It is ln 2 + (sum p ln p + sum q ln q - sum (p + q) ln (p + q)) / 2 for rows p and q that sum to 1; the first two
    sums are the entropies of `spread_of`, which is given the same `TINY` more than weights. Cells that no sentence of
    the batch sees are left out: a causal half.
    """
    n_sentences, n_heads = above.shape[:2]
    seen = visible.any(0).flatten()
    cells = above.flatten(2)
    if not bool(seen.all()):
        cells = cells[..., seen]
    n_cells = cells.shape[-1]
    alone = -torch.from_numpy(entropy.total[:, :n_heads, 0])
    first, second = torch.triu_indices(n_heads, n_heads, 1)
    both = torch.empty(n_sentences, len(first))
    size = max(1, PAIRS_AT_ONCE // max(1, n_heads * n_cells))
    room = torch.empty(2, size * (n_heads - 1) * n_cells)
    for start in range(0, n_sentences, size):
        part = cells[start : start + size]
        done = 0
        for head in range(n_heads - 1):
            shape = len(part), n_heads - 1 - head, n_cells
            total, logs = (one[: prod(shape)].view(shape) for one in room)
            torch.add(part[:, head, None], part[:, head + 1 :], out=total)
            np.log(total.numpy(), out=logs.numpy())
            both[start : start + size, done : done + shape[1]] = logs.mul_(total).sum(-1)
            done += shape[1]
    pairs = ((alone[:, first] + alone[:, second] - both) / 2).numpy() + np.log(2) * entropy.counted[:, 0]
    return Totals(pairs[:, None, :].clip(min=0.0), entropy.counted)


def pairs_of(n_heads: int) -> list[tuple[int, int]]:
    """The pairs of heads in the order of `divergences`."""
    return [(i, j) for i in range(n_heads) for j in range(i + 1, n_heads)]


@lru_cache(maxsize=8)
def _at_offset(first: int, last: int, n_keys: int) -> Float[Tensor, "cell offset"]:
    """1 where a cell of these queries, row after row, lies at an offset: a product with it sums a map's diagonals."""
    apart = (torch.arange(n_keys)[None, :] - torch.arange(first, last)[:, None]).flatten()
    return (apart[:, None] == torch.tensor(OFFSETS)).float()


def _weighted(
    weights: Float[Tensor, "sentence head query key"], cells: Float[Tensor, "sentence query key"]
) -> Float[Tensor, "sentence head"]:
    """The sum over all cells of weight times value."""
    return torch.bmm(weights.flatten(2), cells.flatten(1)[:, :, None])[:, :, 0].double()


def _per_head(values: Float[Tensor, "sentence head"]) -> Float[np.ndarray, "sentence head 1"]:
    return values.double().numpy()[:, :, None]


def _count(values: Int[Tensor, " sentence"]) -> Int[np.ndarray, "sentence 1 1"]:
    return values.long().numpy()[:, None, None]
