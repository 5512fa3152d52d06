"""What a batch of maps adds up to: for each sentence and head the total of every measure, and what it is a mean over.

Heads of one kind (`encoder.self`, `decoder.cross` ...) ask and answer over the same axes, so their weights stand beside
each other, as one tensor: layer after layer, head after head. A last head is added that looks at every visible key
evenly: what it measures is the chance level of each measure, by the same code.

The measures of any map, such as entropy and confidence, are `attention.measures.map_totals`; here are those that take a
corpus or its words. Means over rows count queries with a choice (they see at least two keys), every such
row alike. Of classifiers of sequences positions are windows: offsets are counted in letters, from the start of one to
the start of the other, and a window shares what it receives evenly among its letters, as in `sequences.tracks`.

What each head looks at most is counted, too: which words, and for windows of letters which place, letters and width.
A row counts once, at the key that has its largest weight. Some sentences, drawn by a hash of their line's number, keep
where each row looked: a word's contexts come from them (as in exBERT, Hoover et al. 2020).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..attention.capture import Recording
from ..attention.measures import (
    Totals,
    advance,
    centre,
    choosing,
    divergence,
    map_totals,
    mean_at,
    received,
    share_at,
    share_on,
    sum_p_log_p,
)
from ..attention.softmax_inputs import SoftmaxInputs, Weights, every_weight
from ..nn.kmer import Window
from ..nn.masks import masked_softmax
from ..sequences.tracks import folded
from ..sites import Site

REACH = 16
"""Profiles of offsets lead from this many positions before the query to as many after it."""

OFFSETS = range(-REACH, REACH + 1)

SHARES = ("special", "start", "end", "padding", "punctuation", "number", "first_piece")
"""Classes of keys whose share of the weight is measured."""

N_DRAWN = 250
"""Sentences that keep where each row looked, drawn by a hash of their line's number."""

WORDS, MIDDLE, LETTERS = "words", "middle", "letters"
"""Counts: by token; by twice the middle of a window, in letters; by width, column of a window and letter."""

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


Tally = Float[np.ndarray, "head count"]


class Looked(NamedTuple):
    """Where the rows of a sentence looked, of one kind: labels of queries and keys, each row's key, and its weight."""

    labels: tuple[tuple[str, ...], ...]
    keys: list[list[int]]
    weights: list[list[float]]


@dataclass(frozen=True, eq=False)
class Maps:
    """The weights of one kind: the heads of `sites` in their order, then even attention as the last one.

    Rows of padding and hidden cells are 0; `visible` says which keys each real query may see.
    """

    group: str
    sites: tuple[tuple[Site, int], ...]
    weights: Float[Tensor, "sentence head query key"]
    visible: Bool[Tensor, "sentence query key"]
    n_queries: Int[Tensor, " sentence"]
    n_keys: Int[Tensor, " sentence"]

    @property
    def choosing(self) -> Bool[np.ndarray, "sentence query"]:
        """Queries with a choice: they see at least two keys."""
        return choosing(self.visible.numpy())

    @cached_property
    def best(self) -> Int[np.ndarray, "sentence head query"]:
        """The key with the largest weight of each row, of equal ones the first."""
        found: np.ndarray = self.weights.numpy().argmax(-1)
        return found


def maps_of(seen: Recording, group: str, n_queries: Sequence[int], n_keys: Sequence[int]) -> Maps:
    """The weights of one kind over a batch whose sentences have so many real queries and keys.

    Where layers differ in what they let see (sliding windows), a key counts as visible if one of them shows it. Weights
    past the end of a source, which location attention has, become one more key after its last.
    """
    sites = [site for site in seen.sites if site.group == group]
    sources = [seen.source(site) for site in sites]
    queries, keys = torch.tensor(n_queries), torch.tensor(n_keys)
    weights = [batch_weights(source) for source in sources]
    past = all(isinstance(source, Weights) and source.mask is None for source in sources)
    if past and weights[0].shape[-1] > int(keys.max()):
        weights, keys = [Weights(one).folded(keys).values for one in weights], keys + 1
    rows, columns = weights[0].shape[2:]
    real_query = torch.arange(rows) < queries[:, None]
    real_key = torch.arange(columns) < keys[:, None]
    visible = real_query[:, :, None] & real_key[:, None, :]
    masks = {id(source.mask): source.mask for source in sources}.values()  # layers mostly share theirs
    tables = [None if mask is None else mask.dense(rows, columns, torch.device("cpu")) for mask in masks]
    if all(table is not None for table in tables):
        visible = visible & reduce(or_, (table for table in tables if table is not None))[:, 0]
    even = visible.to(weights[0].dtype)
    even = even / even.sum(-1, keepdim=True).clamp(min=1)
    whole = torch.cat([*weights, even[:, None]], dim=1)
    if not bool(real_query.all()):
        whole.mul_(real_query[:, None, :, None])
    heads = tuple((site, source.n_heads) for site, source in zip(sites, sources, strict=True))
    return Maps(group, heads, whole, visible, queries, keys)


def batch_weights(source: SoftmaxInputs) -> Float[Tensor, "batch head query key"]:
    """All weights of a softmax, for the whole batch at once; what `SoftmaxInputs.weights` gives one by one."""
    if isinstance(source, Weights):
        return source.values.float()
    if source.interventions or source.bias is not None:
        return every_weight(source).float()
    k = source.k
    if k.shape[1] != source.n_heads:
        k = k.repeat_interleave(source.n_heads // k.shape[1], dim=1)  # grouped queries: Ainslie et al. 2023
    scores = ((source.q * source.scale) @ k.transpose(-1, -2)).float()
    return masked_softmax(scores, source.mask.dense(source.n_queries, source.n_keys, scores.device))


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
    found = map_totals(weights, visible, real, kind == "self")
    z = np.arctanh(advance(centres).clip(-FISHER_LIMIT, FISHER_LIMIT))  # Fisher's, of the correlation; one a sentence
    found["advance"] = Totals.of(z[..., None], np.ones((1, 1, 1), dtype=bool))
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
    found["offset"] = share_at(weights, visible, OFFSETS)
    n_queries, n_keys = weights.shape[2:]
    found["argmax"] = argmax_profile(maps.best, rows, np.arange(n_keys) - np.arange(n_queries)[:, None])
    if weights.shape[1] > 2:
        found["divergence"] = divergences(weights[:, :-1], visible, found["entropy"])
    return found


def argmax_profile(
    best: Int[np.ndarray, "sentence head query"],
    rows: Bool[np.ndarray, "sentence 1 query"],
    distance: Int[np.ndarray, "query key"],
) -> Totals:
    """How often the largest weight of a row, at the key `best`, lies at each offset, of all `distance`s."""
    n_sentences, n_heads, n_queries = best.shape
    place = distance[np.arange(n_queries), best] + REACH
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
    distance = np.abs(centres / np.maximum(n_keys - 1, 1) - positions / np.maximum(n_queries - 1, 1))
    return Totals.of(1 - distance, (positions < n_queries) & (n_queries > 1) & (n_keys > 1))


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


def window_totals(
    maps: Maps, spans: Sequence[Window], letters: Int[Tensor, "sentence letter"], n_letters: int, usual: bool
) -> dict[str, Totals]:
    """Every measure of the windows over sequences of one length, and what heads differ by.

    `letters` are ids, of an alphabet of `n_letters`; `usual` says that the sequences have the length that the model was
    trained on, so that places can be compared.
    """
    weights, visible = maps.weights.numpy(), maps.visible.numpy()[:, None]
    n_rows = choosing(visible).sum(-1, keepdims=True)
    found = map_totals(weights, visible, np.ones((1, 1, weights.shape[-1]), dtype=bool), is_self=False)
    track = folded(received(weights, visible), spans, letters.shape[1])
    named = (letters.numpy()[..., None] == np.arange(n_letters)).astype(np.float64)
    found |= {"width": Totals(track.share.sum(-1), n_rows), "letter": Totals(track.total @ named, n_rows)}
    if usual:
        found["place"] = Totals(track.total, n_rows)
    if maps.sites[0][0].kind == "self":
        found |= offsets_of(maps, spans)
    if weights.shape[1] > 2:
        found["divergence"] = divergences(weights[:, :-1], visible, found["entropy"])
    return found


def offsets_of(maps: Maps, spans: Sequence[Window]) -> dict[str, Totals]:
    """Weight on windows that start so many letters after the query's, and how often the largest weight lies there."""
    starts = torch.tensor([span.start for span in spans])
    rows = torch.from_numpy(maps.choosing)[:, None]  # (sentence, 1, query)
    distance = starts[None, :] - starts[:, None]  # (query, key)
    place = torch.where(distance.abs() <= REACH, distance + REACH, len(OFFSETS))  # one more for what lies further away

    def sorted_in(table: Float[Tensor, "sentence head query key"]) -> Float[Tensor, "sentence head query offset"]:
        """The sum of each row over the keys of each place, without the last place."""
        found = table.new_zeros(*table.shape[:3], len(OFFSETS) + 1)
        return found.scatter_add_(3, place.expand_as(table), table)[..., :-1]

    profile = sorted_in(maps.weights * rows[..., None]).sum(2).double().numpy()
    seen = sorted_in((maps.visible[:, None] & rows[..., None]).to(maps.weights.dtype)) > 0
    argmax = argmax_profile(maps.best, rows.numpy(), distance.numpy())
    return {"offset": Totals(profile, seen.sum(2).long().numpy()), "argmax": argmax}


def drawn_by(number: int) -> float:
    """A number from 0 to 1 that a line's number decides and nothing else."""
    return int.from_bytes(hashlib.sha256(str(number).encode()).digest()[:6]) / 2**48


def share_drawn(n_lines: int) -> float:
    """No line of a corpus of so many has to be looked at whose `drawn_by` is larger: four times as many are left.

    Lines that cannot be read, or are too long to be shown, are never drawn.
    """
    return min(1.0, 4 * N_DRAWN / max(1, n_lines))


def drawn(numbers: Sequence[int]) -> list[int]:
    """The lines, of these, that keep where each row looked."""
    return sorted(sorted(numbers, key=drawn_by)[:N_DRAWN])


def word_tally(maps: Maps, ids: Int[Tensor, "sentence key"], n_tokens: int) -> Tally:
    """How many rows of each head look most at each token; of even attention, how many rows would by chance.

    Ids of `n_tokens` stand for no token, and are not counted.
    """
    n_sentences, n_heads, _ = maps.best.shape
    looked = np.take_along_axis(ids.numpy(), maps.best.reshape(n_sentences, -1), 1).reshape(maps.best.shape)
    rows = np.broadcast_to(maps.choosing[:, None], looked.shape)
    cells = looked + np.arange(n_heads)[:, None] * (n_tokens + 1)
    counted = np.bincount(cells[rows], minlength=n_heads * (n_tokens + 1)).reshape(n_heads, -1).astype(np.float64)
    even = (maps.weights[:, -1].numpy() * maps.choosing[:, :, None]).sum(1)
    counted[-1] = np.bincount(ids.numpy().ravel(), weights=even.ravel(), minlength=n_tokens + 1)
    return counted[:, :-1]


def window_tallies(
    maps: Maps, letters: Int[Tensor, "sentence letter"], spans: Sequence[Window], alphabet: str
) -> dict[str, Tally]:
    """How many rows of each head look most at windows round each middle, and which letters those have in each column.

    Of even attention it is how many there are. Unknown letters are not counted.
    """
    starts, widths = (np.array(values) for values in zip(*[(one.start, one.width) for one in spans], strict=True))
    n_sentences, n_heads, _ = maps.best.shape
    rows = np.broadcast_to(maps.choosing[:, None], maps.best.shape)
    count = np.zeros((n_sentences, n_heads, len(spans)))
    sentences = np.broadcast_to(np.arange(n_sentences)[:, None, None], rows.shape)
    heads = np.broadcast_to(np.arange(n_heads)[:, None], rows.shape)
    np.add.at(count, (sentences[rows], heads[rows], maps.best[rows]), 1.0)
    count[:, -1] = rows[:, -1].sum(-1, keepdims=True) / len(spans)
    middles = np.zeros((len(spans), 2 * letters.shape[1]))
    middles[np.arange(len(spans)), 2 * starts + widths - 1] = 1.0
    found = {MIDDLE: count.sum(0) @ middles}
    text = letters.numpy()
    for width in dict.fromkeys(widths.tolist()):
        here = np.flatnonzero(widths == width)
        at = text[:, starts[here, None] + np.arange(width)]  # (sentence, window, column)
        one_hot = at[..., None] == np.arange(len(alphabet))
        table = np.einsum("shw,swcl->hcl", count[:, :, here], one_hot)
        found[f"{LETTERS}.{alphabet}.{width}"] = table.reshape(n_heads, -1)
    return found


def looked(maps: Maps, sentence: int) -> tuple[list[list[int]], list[list[float]]]:
    """The key that each row of each head looks at most, and its weight, in one sentence of a batch."""
    n_queries = int(maps.n_queries[sentence])
    keys = maps.best[sentence, :-1, :n_queries]
    weights = np.take_along_axis(maps.weights[sentence, :-1, :n_queries].numpy(), keys[..., None], 2)[..., 0]
    return keys.tolist(), weights.astype(np.float64).round(4).tolist()
