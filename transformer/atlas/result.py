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
`shown_by` is the measure that the head's examples were chosen by, `roles` what `atlas.roles` calls the head.
`error_written` and `error_read`: the alignment error rate of the head's weights in the row that writes a word and in
the row that reads it (see `attribution.alignment_error`); NaN but for cross-attention of a run that was given links. Of
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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from transformer.atlas.accumulators import Accumulator, Moments
from transformer.atlas.looks import LETTERS, MIDDLE, WORDS, letters_of, place_of, words_of
from transformer.atlas.roles import NAMED_SHARES, roles_of
from transformer.atlas.statistics import MEASURES, NEIGHBOURS, OFFSETS, pairs_of
from transformer.atlas.summarise import N_ORDINARY, ORDINARY, SHOWING
from transformer.errors import InputError
from transformer.runs.measures.alignment_error import Rates
from transformer.sites import Site

PROFILES = {"offsets": "offset", "widths": "width", "letters": "letter", "places": "place"}
"""Columns that hold lists, and the measures that they come from."""

LISTS = (*PROFILES, "offsets_spread", *(f"{name}_chance" for name in PROFILES), "argmax", "columns")

OF_WINDOWS = (
    "place", "place_share", "place_chance", "pattern", "pattern_at", "pattern_width", "pattern_share",
    "pattern_chance", "columns", "alphabet", "width", "width_share", "width_chance",
)  # fmt: skip
"""Columns of classifiers of sequences."""

_CONTEXT = pa.struct(
    [(name, pa.string()) for name in ("query", "before", "word", "after")] + [("weight", pa.float64())]
)


@dataclass(frozen=True, eq=False)
class Beside:
    """What the sums do not hold: the vocabulary that keys of a kind are counted by, and rates against given links.

    The links are of `linked` sentences.
    """

    tokens: Callable[[str], Sequence[str]]
    rates: Rates | None = None
    linked: int = 0


def tables_of(found: Accumulator, beside: Beside, texts: bool = True) -> dict[str, pa.Table]:
    """The four tables by name. Examples and contexts keep their `texts`, or only where they stand."""
    heads = heads_table(found, beside.rates)
    return {
        "heads": heads,
        "pairs": pairs_table(found),
        "words": words_table(found, beside.tokens, texts),
        "examples": examples_table(found, heads, texts),
    }


def outcome_of(found: Accumulator, notes: Sequence[tuple[str, dict[str, Any]]], path: str) -> dict[str, Any]:
    """What `run.json` says of what was read: counts, lines that were left out, and notes.

    Raises:
        InputError: no line of `path` could be run.
    """
    if not found.counts.get("sentences"):
        raise InputError("atlas_no_line", path=path, reason=found.skipped[0][2])
    return {
        "counts": dict(found.counts) | {"skipped": len(found.skipped)},
        "skipped_lines": [{"line": line + 1, "reason": reason} for line, _, reason in found.skipped],
        "notes": [{"code": code, "fields": fields} for code, fields in notes],
    }


def heads_table(found: Accumulator, rates: Rates | None = None) -> pa.Table:
    """One row a head, in the order of kinds, layers and heads; `rates` are of heads against given links."""
    rows = [row | errors for row, errors in zip(_heads(found), _errors(found, rates or {}), strict=True)]
    rows = [row | {"roles": list(roles_of(row))} for row in rows]
    whole = {"layer", "head", "rows", "sentences", "peak_offset", "place", "pattern_at", "pattern_width", "width"}
    texts = {"site", "group", "shown_by", "pattern", "alphabet"}
    types = {name: pa.int64() for name in whole} | {name: pa.string() for name in texts}
    types |= {name: pa.list_(pa.float64()) for name in LISTS} | {"roles": pa.list_(pa.string())}
    return pa.table({name: pa.array([row[name] for row in rows], types.get(name, pa.float64())) for name in rows[0]})


def _heads(found: Accumulator) -> Iterator[dict[str, Any]]:
    for group, sites in found.sites.items():
        every = [(Site(site), head) for site, n_heads in sites for head in range(n_heads)]
        for index, (site, head) in enumerate(every):
            yield _head(found, group, site, head, index)


def _head(found: Accumulator, group: str, site: Site, head: int, index: int) -> dict[str, Any]:
    entropy = found.moments[group, "entropy"]
    row: dict[str, Any] = {
        "site": str(site),
        "group": group,
        "layer": site.layer,
        "head": head,
        "rows": int(entropy.rows[index, 0]),
        "sentences": int(entropy.sentences[index, 0]),
    }
    for measure in MEASURES:
        row |= _columns(found, group, site, measure, index)
        if measure == "entropy":
            row["effective_keys"] = float(np.exp(row["entropy"]))
    for name, measure in PROFILES.items():
        moments = found.moments.get((group, measure))
        row[name] = None if moments is None else moments.value[index].tolist()
        row[f"{name}_chance"] = None if moments is None else moments.value[-1].tolist()
    offset, argmax = found.moments.get((group, "offset")), found.moments.get((group, "argmax"))
    row["offsets_spread"] = None if offset is None else offset.spread[index].tolist()
    shares = None if argmax is None else argmax.value[index]
    row["argmax"] = None if shares is None else shares.tolist()
    peak = None if shares is None or np.isnan(shares).all() else int(np.nanargmax(shares))
    row["peak_offset"] = None if peak is None else OFFSETS[peak]
    row["peak_share"] = np.nan if peak is None or shares is None else float(shares[peak])
    row["shown_by"] = _shown_by(found, group, row, index)
    row |= dict.fromkeys(OF_WINDOWS) | _of_windows(found, group, index, row["widths"], row["widths_chance"])
    return row


def _of_windows(
    found: Accumulator, group: str, index: int, widths: list[float] | None, chances: list[float] | None
) -> dict[str, Any]:
    """The columns of classifiers, where all sequences have the trained length."""
    middles = found.tallies.get((group, MIDDLE))
    if middles is None or widths is None or chances is None:
        return {}
    tables = {name: one for (of, name), one in found.tallies.items() if of == group and name.startswith(LETTERS)}
    best, rows = int(np.argmax(widths)), (float(middles[index].sum()), float(middles[-1].sum()))
    width = {
        "width": int([name.split(".")[-1] for name in tables][best]),
        "width_share": widths[best],
        "width_chance": chances[best],
    }
    return place_of(middles[index], middles[-1]) | letters_of(tables, index, rows) | width


def _columns(found: Accumulator, group: str, site: Site, measure: str, index: int) -> dict[str, float]:
    """A measure with its chance level, its mean by sentences and its spread."""
    moments, column = found.moments.get((group, measure)), 0
    if measure in NEIGHBOURS:
        moments, column = found.moments.get((group, "offset")) if site.kind == "self" else None, NEIGHBOURS[measure]
    names = (measure, f"{measure}_chance", f"{measure}_by_sentence", f"{measure}_spread")
    if moments is None or not moments.rows[index, column]:
        return dict.fromkeys(names, np.nan)
    values = [moments.value[index, column], moments.value[-1, column], moments.mean[index, column]]
    if measure == "advance":
        values = [np.tanh(values[0]), np.nan, np.tanh(values[2])]  # even attention never moves
    return dict(zip(names, map(float, (*values, moments.spread[index, column])), strict=True))


def _errors(found: Accumulator, rates: Rates) -> Iterator[dict[str, float]]:
    """Alignment error rates of each head, in the order of rows; `rates` count layers of cross-attention from 0."""
    for group, sites in found.sites.items():
        for layer, (_, n_heads) in enumerate(sites):
            for head in range(n_heads):
                of = rates.get(f"weights.{layer}.{head}") if group == "decoder.cross" else None
                yield {f"error_{row}": np.nan if of is None else of[row].error_rate for row in ("written", "read")}


def words_table(found: Accumulator, tokens: Callable[[str], Sequence[str]], texts: bool) -> pa.Table:
    """One row a word that a head looks at more than by chance; without `texts`, no contexts."""
    sentences = [found.looked[line] for line in sorted(found.looked)] if texts else []
    rows: list[dict[str, Any]] = []
    for group, sites in found.sites.items():
        counted = found.tallies.get((group, WORDS))
        if counted is None:
            continue
        here = [one for one in sentences if group in one.labels]
        every = [(site, head) for site, n_heads in sites for head in range(n_heads)]
        for index, (site, head) in enumerate(every):
            found_here = words_of(counted, index, tokens(group), group, here)
            rows += [{"site": site, "head": head} | row for row in found_here]
    whole, number, text = pa.int64(), pa.float64(), pa.string()
    types = dict(site=text, head=whole, rank=whole, word=text, share=number, chance=number, contexts=pa.list_(_CONTEXT))
    return pa.Table.from_pylist(rows, pa.schema(list(types.items())))


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
    for group, sites in found.sites.items():
        every = [(site, head) for site, n_heads in sites for head in range(n_heads)]
        moments: Moments | None = found.moments.get((group, "divergence"))
        if moments is None:
            continue
        for (i, j), value in zip(pairs_of(len(every)), moments.value[0], strict=True):
            rows.append((group, *every[i], *every[j], float(value), float(np.sqrt(value))))
    names = ("group", "site", "head", "other_site", "other_head", "divergence", "distance")
    types = (pa.string(), pa.string(), pa.int64(), pa.string(), pa.int64(), pa.float64(), pa.float64())
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, types, strict=True)], names=list(names))


def examples_table(found: Accumulator, heads: pa.Table, texts: bool) -> pa.Table:
    """The sentences of each head; without `texts`, only where they stand."""
    rows = []
    index: dict[str, int] = {}
    for row in heads.select(["site", "group", "head", "shown_by"]).to_pylist():
        place = index.setdefault(row["group"], 0)
        index[row["group"]] += 1
        measure = row["shown_by"]
        best = [
            ("best", i, measure, one) for i, one in enumerate(found.examples.get((row["group"], measure, place), ()))
        ]
        drawn = found.examples.get(("", ORDINARY, 0), ())[:N_ORDINARY]
        for kind, rank, by, one in (*best, *(("ordinary", i, None, one) for i, one in enumerate(drawn))):
            score = one.score if kind == "best" else np.nan
            shown = (one.source, one.target) if texts else (None, None)
            rows.append((row["site"], row["head"], kind, rank, by, score, one.line + 1, *shown))
    names = ("site", "head", "kind", "rank", "measure", "score", "line", "source", "target")
    whole, text = pa.int64(), pa.string()
    types = (text, whole, text, whole, text, pa.float64(), whole, text, text)
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, types, strict=True)], names=list(names))
