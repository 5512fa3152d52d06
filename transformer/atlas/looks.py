"""What each head looks at most, as counts: which words, and for windows of letters which place, letters and width.

A row (a query with a choice) counts once, at the key that has its largest weight. Some sentences, drawn by a hash of
their line's number, keep where each row looked: a word's contexts come from them (as in exBERT, Hoover et al. 2020).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from transformer.atlas.maps import Maps
from transformer.nn.kmers import Window
from transformer.plots.axes import WORD_START

N_DRAWN = 250
"""Sentences that keep where each row looked."""

N_WORDS, N_CONTEXTS = 8, 3
"""Words of a head that are kept, and contexts of a word, in different sentences."""

WORDS, MIDDLE, LETTERS = "words", "middle", "letters"
"""The counts: by token; by twice the middle of a window, in letters; by width, column of a window and letter."""

SURE = 0.9
"""A column of windows has a letter where at least this share of the rows look at windows that have it there."""

Tally = Float[np.ndarray, "head count"]


@dataclass(frozen=True)
class Looked:
    """Where the rows of one sentence looked: by kind its labels of queries and keys, each row's key, and its weight."""

    labels: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    keys: Mapping[str, list[list[int]]]
    weights: Mapping[str, list[list[float]]]


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


def words_of(
    counted: Tally, index: int, texts: Sequence[str], group: str, sentences: Sequence[Looked]
) -> Iterator[dict[str, Any]]:
    """The words that head `index` of a kind looks at most, those first that are furthest above chance.

    `share` is of all rows; `chance` what even attention would have. A context is the row's own word, what stands before
    and after the word that it looks at, and the weight.
    """
    shares, chance = (row / max(row.sum(), 1.0) for row in (counted[index], counted[-1]))
    best = np.argsort(chance - shares, kind="stable")[:N_WORDS]
    seen = _contexts(group, index, {texts[i] for i in best}, sentences)
    for rank, i in enumerate(best):
        if shares[i] > chance[i]:
            yield {
                "rank": rank,
                "word": bare(texts[i]),
                "share": float(shares[i]),
                "chance": float(chance[i]),
                "contexts": seen.get(texts[i], [])[:N_CONTEXTS],
            }


def bare(piece: str) -> str:
    """A piece without the mark of a word's beginning."""
    return piece.removeprefix(WORD_START) or piece


def _contexts(group: str, head: int, wanted: set[str], sentences: Sequence[Looked]) -> dict[str, list[dict[str, Any]]]:
    """Where rows of a head look at the wanted pieces: the largest weight of each sentence, the largest first."""
    found: dict[str, list[dict[str, Any]]] = {piece: [] for piece in wanted}
    for one in sentences:
        queries, keys = one.labels[group]
        rows = zip(one.keys[group][head], one.weights[group][head], queries, strict=True)
        best: dict[str, tuple[float, int, str]] = {}
        for key, weight, query in rows:
            piece = keys[key] if key < len(keys) else ""
            if piece in wanted and weight > best.get(piece, (0.0,))[0]:
                best[piece] = weight, key, query
        for piece, (weight, key, query) in best.items():
            before, after = _spoken(keys[:key]), _spoken(keys[key + 1 :])
            found[piece].append(
                {"query": bare(query), "before": before, "word": bare(piece), "after": after, "weight": weight}
            )
    return {piece: sorted(many, key=lambda one: -one["weight"]) for piece, many in found.items()}


def _spoken(pieces: Sequence[str]) -> str:
    """Pieces as a text."""
    marked = any(piece.startswith(WORD_START) for piece in pieces)
    return "".join(pieces).replace(WORD_START, " ").strip() if marked else " ".join(pieces)


def place_of(middles: Float[np.ndarray, " middle"], chance: Float[np.ndarray, " middle"]) -> dict[str, Any]:
    """The letter (from 1) round which most rows look, one letter to each side counted in: its share and chance."""
    if not middles.sum():
        return {"place": None, "place_share": np.nan, "place_chance": np.nan}
    near = [np.convolve(one / one.sum(), np.ones(5), "same") for one in (middles, chance)]
    at = int(near[0].argmax())
    return {"place": at // 2 + 1, "place_share": float(near[0][at]), "place_chance": float(near[1][at])}


def letters_of(tables: Mapping[str, Tally], index: int, rows: tuple[float, float]) -> dict[str, Any]:
    """The letters that a head's windows have most surely, of the width that most of its rows look at.

    `pattern` is the longest run of columns of which each has one letter in at least `SURE` of those windows, else the
    surest column; it begins at column `pattern_at` (from 1), `pattern_share` is how many of all `rows` (of the head and
    of even attention) have its least sure letter. `columns` are the shares of the letters of the `alphabet` in each.
    """
    name = max(tables, key=lambda one: tables[one][index].sum())
    _, alphabet, width = name.split(".")
    counted, even = (tables[name][i].reshape(int(width), len(alphabet)) for i in (index, -1))
    columns = counted / np.maximum(counted.sum(1, keepdims=True), 1.0)
    sure = columns.max(1) >= SURE
    runs = [[i for i, _ in run] for is_sure, run in groupby(enumerate(sure), key=lambda one: one[1]) if is_sure]
    run = max(runs, key=len, default=[int(columns.max(1).argmax())])
    best = columns.argmax(1)
    return {
        "pattern": "".join(alphabet[best[i]] for i in run),
        "pattern_at": run[0] + 1,
        "pattern_width": int(width),
        "pattern_share": float(min(counted[i, best[i]] for i in run) / rows[0]),
        "pattern_chance": float(min(even[i, best[i]] for i in run) / rows[1]),
        "columns": columns.ravel().tolist(),
        "alphabet": alphabet,
    }
