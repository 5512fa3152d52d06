"""A record, or one map of it, as a page of the dashboard's own views: for a notebook's cell, and for a file.

Sites of one group (`encoder.self`: all layers) with the same tokens and as many heads are one wall of layers x heads;
others stand by their sites. Up to `EXACT` weights travel in 32 bits, more in 16. Of records that are larger than a cell
may be, and of maps with longer sides than a picture can show, blocks travel by their largest weight. The page says so.
"""

from collections.abc import Iterable, Sequence
from math import isqrt

import numpy as np

from transformer.attention.record import AttentionMap
from transformer.canvas import views
from transformer.canvas.page import Page
from transformer.canvas.record import MASKED, AxisWords, Kind
from transformer.canvas.views import Axes
from transformer.figures.file_names import file_name
from transformer.messages import Message, say, words
from transformer.pictures.axes import Axis
from transformer.pictures.picture import Picture, block_length
from transformer.sites import Site

EXACT = 2**17
"""So many weights travel as they are, 4 bytes each: 0.7 MB of HTML."""

MOST = 5 * 2**19
"""So many weights travel at all, 2 bytes each: 7 MB of HTML, which a notebook keeps with each of its cells."""

AT_ONCE = 2**31
"""Weights that are computed for one page, at most, but for the first map: a few seconds. Further sites are named."""

LONGEST = 192
"""Cells along a side of a map, at most: each is drawn at least 3 pixels wide."""

SHORTEST = 8
"""Blocks along a side, at least, however many heads there are."""


def page(maps: Sequence[AttentionMap], model: str = "", text: str = "") -> Page:
    """The page of these maps, of which the mean of the first one's heads is shown at first: no head is preferred."""
    maps, left_out = _within(maps)
    size = _blocks_a_side(maps)
    facts = [
        *([words("page_model", model=model)] if model else []),
        *([words("page_text", text=text)] if text else []),
    ]
    if not any(one.n_heads * len(one.queries) * len(one.keys) for one in maps):
        return Page(model, [*facts, words("page_nothing")], [], {}, {})
    reduced = [one for one in maps if max(one.shape) > size]
    drawn = {id(one): _in_blocks(one, size) if max(one.shape) > size else one.pictures() for one in maps}
    cells = sum(one[0].values.size * (len(one) - 1) for one in drawn.values())
    if reduced:
        facts.append(words("page_blocks", weights=f"{_weights(maps):,}", size=size))
    if cells > EXACT:
        facts.append(words("page_rounded"))
    if left_out:
        facts.append(words("page_left_out", sites=", ".join(left_out), first=left_out[0]))
    kinds, sites, axes = list[Kind](), dict[str, views.Site](), dict[str, Axes]()
    for name, layers in _groups(maps):
        pictures = [drawn[id(one)] for one in layers]
        kinds.append(_kind(name, layers, pictures, np.float16 if cells > EXACT else np.float32))
        sites |= {str(one.site): _site(heads) for one, heads in zip(layers, pictures, strict=True)}
        axes[name] = _axes([heads[0] for heads in pictures], facts)
    title = model or (str(maps[0].site) if len(maps) == 1 else "")
    return Page(title, facts, kinds, sites, axes)


def _within(maps: Sequence[AttentionMap]) -> tuple[list[AttentionMap], list[Site]]:
    """The first maps, as many as are quickly computed, and the sites of the others."""
    sizes = np.cumsum([_weights([one]) for one in maps])
    count = max(1, int((sizes <= AT_ONCE).sum()))
    return list(maps[:count]), [one.site for one in maps[count:]]


def _weights(maps: Iterable[AttentionMap]) -> int:
    return sum(one.n_heads * one.shape[0] * one.shape[1] for one in maps)


def _blocks_a_side(maps: Sequence[AttentionMap]) -> int:
    """How many rows and columns a map may have here; maps of no more are shown cell by cell."""
    if _weights(maps) <= MOST:
        return LONGEST
    return min(LONGEST, max(SHORTEST, isqrt(MOST // sum(one.n_heads for one in maps))))


def _in_blocks(attention: AttentionMap, size: int) -> list[Picture]:
    """Every head of a long map, and their mean as the last one, in blocks; the map is never held whole."""
    tall, wide = (block_length(side, size) for side in attention.shape)
    queries = attention.queries.kept(range(0, attention.shape[0], tall))
    keys = attention.keys.kept(range(0, attention.shape[1], wide))
    visible = attention.overview_mask(size)
    notes = (*attention.source.notes, *attention.notes, Message("note_blocks", tall=tall, wide=wide))
    changes = tuple(one.message for one in attention.interventions)
    heads = [attention.overview(head, size) for head in range(attention.n_heads)]
    names = [*(Message("head_number", head=head) for head in range(len(heads)))]
    names.append(Message("mean_of_heads", count=len(heads)))
    return [
        Picture(attention.site, name, values, visible, queries, keys, notes=notes, changes=changes)
        for name, values in zip(names, [*heads, np.mean(heads, axis=0)], strict=True)
    ]


def _groups(maps: Sequence[AttentionMap]) -> list[tuple[str, list[AttentionMap]]]:
    """What is drawn as one wall, by name: the sites of a group where they are alike, else each by itself."""
    groups: dict[str, list[AttentionMap]] = {}
    for one in maps:
        groups.setdefault(one.site.group, []).append(one)
    found: list[tuple[str, list[AttentionMap]]] = []
    for name, layers in groups.items():
        first, *others = [(one.n_heads, one.queries, one.keys) for one in layers]
        if others and all(one == first for one in others):
            found.append((name, layers))
        else:
            found += [(str(one.site), [one]) for one in layers]
    return found


def _kind(name: str, layers: Sequence[AttentionMap], pictures: Sequence[Sequence[Picture]], dtype: type) -> Kind:
    first = pictures[0][0]
    weights = [[np.where(one.visible, one.values, MASKED) for one in heads[:-1]] for heads in pictures]
    numbers = ["" if one.site.layer is None else str(one.site.layer) for one in layers]
    counted = numbers == [str(number) for number in range(len(layers))] and len(layers) > 1
    queries, keys = _words(first.queries), _words(first.keys)
    sites = [one.site for one in layers]
    return Kind(name, sites, queries, keys, np.array(weights, dtype=dtype), numbers=[] if counted else numbers)


def _words(axis: Axis) -> AxisWords:
    return AxisWords(say(axis.name), [*map(say, axis.labels)], [*map(say, axis.texts)])


def _site(pictures: Sequence[Picture]) -> views.Site:
    return views.Site(
        [say(one.title) for one in pictures], [file_name(str(one.site), say(one.head)) for one in pictures]
    )


def _axes(pictures: Sequence[Picture], facts: Sequence[str]) -> Axes:
    """What stands around the maps of a kind; what has to be known of one of its layers is said for all."""
    first = pictures[0]
    notes = list(dict.fromkeys(say(note) for one in pictures for note in one.notes))
    said = words("page_axes", queries=say(first.queries.name), keys=say(first.keys.name))
    return Axes(
        words("figure_query", text=say(first.queries.name)),
        words("figure_key", text=say(first.keys.name)),
        " ".join([said, *([f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes] or [words("page_sums")])]),
        [*facts, *notes],
    )
