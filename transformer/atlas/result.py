"""From sums to tables: one row a head, one row a pair of heads, one row an example.

Columns of `heads.parquet`. `site`, `group` (the site without its layer), `layer`, `head`; `rows` (queries with a choice
that were seen) and `sentences`. Then for each measure M of `MEASURES`: `M`, the mean over all rows, every row alike;
`M_chance`, what even attention over the visible keys would have; `M_by_sentence`, the mean of the sentences' means;
`M_spread`, the standard deviation between sentences. What a head cannot have is NaN.

- `entropy` (nats), `normalised_entropy` (a share of the logarithm of the visible keys), `effective_keys` (e to the
  entropy), `confidence` (largest weight on a key that is no special token), `distance` (positions);
- `previous`, `same`, `next`: weight on that position, over rows that see it; self-attention alone. A decoder's position
  is where a token is read, so `same` is the token read last;
- shares: `special` (start and end tokens together), `start`, `end`, `padding` (past the end of the source, which only
  attention by location has), `punctuation`, `number`, `first_piece` (first pieces of words), `sibling` (other pieces of
  the query's own word);
- `rare`: share of sentences whose most attended real key is the rarest token, of those that have a rare one;
- `diagonality` and `advance` (correlation, averaged over sentences by Fisher's z) of reading in step.

`offsets`, `offsets_chance`, `offsets_spread` and `argmax` are lists over offsets -16 to 16: mean weight there, and
share of rows whose largest weight lies there; `peak_offset` and `peak_share` are the highest of `argmax`. For
sequences, offsets are counted in letters between starts of windows; `widths`, `letters` and `places` are shares by
width of window, by letter of the alphabet, and by place in a sequence of the trained length, each with `_chance`.
`shown_by` is the measure that the head's examples were chosen by, `roles` what `atlas.roles` calls the head. Of
classifiers alone, by the windows that rows look at most: `place` (the letter, from 1, round which most lie; one letter
to each side counts), `pattern` (letters that nearly all have in one column), as in `looks`, and `width` (the width with
the largest share of the weight), each with its share and chance level; NaN and None where sequences differ in length.

`words.parquet`: `site`, `head`, `rank`, `word` (a token of the vocabulary), `share` of the rows that look at it most,
`chance`, and `contexts` of sentences that were drawn: `query` (the row's token), `before`, `word`, `after`, `weight`.

`pairs.parquet`: `group`, `site`, `head`, `other_site`, `other_head`, `divergence` (Jensen-Shannon, nats, mean over
rows) and `distance`, its root, which is a metric. Only heads of one group have one, since they share both axes.

`examples.parquet`: `site`, `head`, `kind` (`best` or `ordinary`), `rank`, `measure`, `score` (its mean over the rows of
the sentence; NaN where the sentence was drawn without looking), `line` (from 1), `source`, `target`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from jaxtyping import Float

from ..distribution import extra
from ..plots.axes import WORD_START
from ..sites import Site
from .roles import NAMED_SHARES, roles_of
from .statistics import LETTERS, MEASURES, MIDDLE, NEIGHBOURS, OFFSETS, WORDS, Looked, Tally, pairs_of
from .summarise import N_ORDINARY, ORDINARY, SHOWING, Accumulator, Moments

with extra("atlas"):
    import pyarrow as pa

PROFILES = {"offsets": "offset", "widths": "width", "letters": "letter", "places": "place"}
"""Columns that hold lists, and the measures that they come from."""

LISTS = (*PROFILES, "offsets_spread", *(f"{name}_chance" for name in PROFILES), "argmax", "columns")

N_WORDS, N_CONTEXTS = 8, 3
"""Words of a head that are kept, and contexts of a word, in different sentences."""

SURE = 0.9
"""A column of windows has a letter where at least this share of the rows look at windows that have it there."""

OF_WINDOWS = (
    "place", "place_share", "place_chance", "pattern", "pattern_at", "pattern_width", "pattern_share",
    "pattern_chance", "columns", "alphabet", "width", "width_share", "width_chance",
)  # fmt: skip
"""Columns of classifiers of sequences."""

_TEXT, _WHOLE, _NUMBER = pa.string(), pa.int64(), pa.float64()
_CONTEXT = pa.struct(
    [(name, pa.string()) for name in ("query", "before", "word", "after")] + [("weight", pa.float64())]
)


def heads_table(found: Accumulator) -> pa.Table:
    """One row a head, in the order of kinds, layers and heads."""
    rows = []
    for group in found.sites:
        moments = {name: one for (kind, name), one in found.moments.items() if kind == group}
        tallies = {name: one for (kind, name), one in found.tallies.items() if kind == group}
        layers = [site for site, _ in found.sites[group]]
        if Site(layers[0]).kind == "self":
            moments |= {name: moments["offset"].column(place) for name, place in NEIGHBOURS.items()}
        for index, (site, head) in enumerate(_heads_of(found, group)):
            row = {"site": site, "group": group, "layer": Site(site).layer, "head": head} | _head(moments, index)
            row["shown_by"] = _shown_by(found, group, row, index)
            row |= dict.fromkeys(OF_WINDOWS) | _of_windows(tallies, index, row["widths"], row["widths_chance"])
            rows.append(row | {"roles": list(roles_of(row))})
    whole = {"layer", "head", "rows", "sentences", "peak_offset", "place", "pattern_at", "pattern_width", "width"}
    texts = {"site", "group", "shown_by", "pattern", "alphabet"}
    types = {name: pa.int64() for name in whole} | {name: pa.string() for name in texts}
    types |= {name: pa.list_(pa.float64()) for name in LISTS} | {"roles": pa.list_(pa.string())}
    return _table(rows, **{name: types.get(name, _NUMBER) for name in rows[0]})


def _head(of: Mapping[str, Moments], index: int) -> dict[str, Any]:
    """What the sums by measure say of one head."""
    rows, sentences = (int(getattr(of["entropy"], name)[index, 0]) for name in ("rows", "sentences"))
    row: dict[str, Any] = {"rows": rows, "sentences": sentences}
    for measure in MEASURES:  # each with its chance level, its mean by sentences and its spread
        moments, values = of.get(measure), [np.nan] * 4
        if moments is not None and moments.rows[index, 0]:
            of_head = moments.value[index], moments.value[-1], moments.mean[index], moments.spread[index]
            values = [float(value[0]) for value in of_head]
        if measure == "advance":
            values = [float(np.tanh(values[0])), np.nan, float(np.tanh(values[2])), values[3]]  # even ones never move
        names = (f"{measure}{rest}" for rest in ("", "_chance", "_by_sentence", "_spread"))
        row |= dict(zip(names, values, strict=True))
        if measure == "entropy":
            row["effective_keys"] = float(np.exp(row["entropy"]))
    for name, measure in PROFILES.items():
        profile = of[measure].value if measure in of else None
        row[name], row[f"{name}_chance"] = (None if profile is None else profile[i].tolist() for i in (index, -1))
    row["offsets_spread"] = of["offset"].spread[index].tolist() if "offset" in of else None
    shares = of["argmax"].value[index] if "argmax" in of else None
    row["argmax"] = None if shares is None else shares.tolist()
    peak = None if shares is None or np.isnan(shares).all() else int(np.nanargmax(shares))
    row["peak_offset"] = None if peak is None else OFFSETS[peak]
    row["peak_share"] = np.nan if peak is None or shares is None else float(shares[peak])
    return row


def _of_windows(
    tallies: Mapping[str, Tally], index: int, widths: list[float] | None, chances: list[float] | None
) -> dict[str, Any]:
    """The columns of classifiers, from sequences of the trained length."""
    if MIDDLE not in tallies or widths is None or chances is None:
        return {}
    middles = tallies[MIDDLE]
    tables = {name: one for name, one in tallies.items() if name.startswith(LETTERS)}
    best, rows = int(np.argmax(widths)), (float(middles[index].sum()), float(middles[-1].sum()))
    width = int([name.split(".")[-1] for name in tables][best])
    found = {"width": width, "width_share": widths[best], "width_chance": chances[best]}
    return place_of(middles[index], middles[-1]) | letters_of(tables, index, rows) | found


def words_table(found: Accumulator, tokens: Callable[[str], Sequence[str]]) -> pa.Table:
    """One row a word that a head looks at more than by chance."""
    sentences = [found.looked[line] for line in sorted(found.looked)]
    rows: list[dict[str, Any]] = []
    for group in found.sites:
        counted = found.tallies.get((group, WORDS))
        if counted is None:
            continue
        here = [one[group] for one in sentences if group in one]
        for index, (site, head) in enumerate(_heads_of(found, group)):
            found_here = words_of(counted, index, tokens(group), here)
            rows += [{"site": site, "head": head} | row for row in found_here]
    types = dict(site=_TEXT, head=_WHOLE, rank=_WHOLE, word=_TEXT, share=_NUMBER, chance=_NUMBER)
    return _table(rows, **types, contexts=pa.list_(_CONTEXT))


def _shown_by(found: Accumulator, group: str, row: dict[str, Any], index: int) -> str:
    """The measure that says most about a head: of those above their chance level by most, the largest such share.

    A head that no share sets apart is shown by its confidence.
    """
    ratios = {
        name: row[name] / row[f"{name}_chance"]
        for name in NAMED_SHARES
        if name in SHOWING
        and found.examples.get((group, name, index))
        and row[f"{name}_chance"] > 0
        and row[name] > 0.1
    }
    best = max(ratios, key=lambda name: ratios[name] * row[name], default="confidence")
    return best if ratios.get(best, 0.0) > 1 else "confidence"


def pairs_table(found: Accumulator) -> pa.Table:
    """One row a pair of heads of one kind."""
    rows = []
    for group in found.sites:
        moments: Moments | None = found.moments.get((group, "divergence"))
        if moments is None:
            continue
        every = _heads_of(found, group)
        for (i, j), value in zip(pairs_of(len(every)), moments.value[0].tolist(), strict=True):
            named = {"site": every[i][0], "head": every[i][1], "other_site": every[j][0], "other_head": every[j][1]}
            rows.append({"group": group, **named, "divergence": value, "distance": value**0.5})
    types = dict(group=_TEXT, site=_TEXT, head=_WHOLE, other_site=_TEXT, other_head=_WHOLE)
    return _table(rows, **types, divergence=_NUMBER, distance=_NUMBER)


def examples_table(found: Accumulator, heads: pa.Table) -> pa.Table:
    """The sentences of each head."""
    rows = []
    index = Counter[str]()
    ordinary = found.examples.get(("", ORDINARY, 0), ())[:N_ORDINARY]
    for row in heads.select(["site", "group", "head", "shown_by"]).to_pylist():
        group, measure = row["group"], row["shown_by"]
        best = found.examples.get((group, measure, index[group]), ())
        index[group] += 1
        for kind, by, kept in (("best", measure, best), ("ordinary", None, ordinary)):
            rows += [
                {"site": row["site"], "head": row["head"], "kind": kind, "rank": rank, "measure": by,
                 "score": one.score if by else np.nan, "line": one.line + 1, "source": one.source, "target": one.target}
                for rank, one in enumerate(kept)
            ]  # fmt: skip
    types = dict(site=_TEXT, head=_WHOLE, kind=_TEXT, rank=_WHOLE, measure=_TEXT, score=_NUMBER, line=_WHOLE)
    return _table(rows, **types, source=_TEXT, target=_TEXT)


def _heads_of(found: Accumulator, group: str) -> list[tuple[str, int]]:
    """Site and number of every head of a kind, in the order of sums."""
    return [(site, head) for site, n_heads in found.sites[group] for head in range(n_heads)]


def _table(rows: list[dict[str, Any]], /, **types: pa.DataType) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema(list(types.items())))


def words_of(counted: Tally, index: int, texts: Sequence[str], sentences: Sequence[Looked]) -> Iterator[dict[str, Any]]:
    """The words that head `index` of a kind looks at most, those first that are furthest above chance.

    `share` is of all rows; `chance` what even attention would have. A context is the row's own word, what stands before
    and after the word that it looks at, and the weight.
    """
    shares, chance = (row / max(row.sum(), 1.0) for row in (counted[index], counted[-1]))
    best = np.argsort(chance - shares, kind="stable")[:N_WORDS]
    seen = _contexts(index, {texts[i] for i in best}, sentences)
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


def _contexts(head: int, wanted: set[str], sentences: Sequence[Looked]) -> dict[str, list[dict[str, Any]]]:
    """Where rows of a head look at the wanted pieces: the largest weight of each sentence, the largest first."""
    found: dict[str, list[dict[str, Any]]] = {piece: [] for piece in wanted}
    for one in sentences:
        queries, keys = one.labels
        rows = zip(one.keys[head], one.weights[head], queries, strict=True)
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
