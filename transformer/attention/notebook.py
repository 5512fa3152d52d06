"""A record, or one map of it, as a page of the dashboard's own views: for a notebook's cell, and for a file.

Sites of one group (`encoder.self`: all layers) with the same tokens and as many heads are one wall of layers x heads;
others stand by their sites. Up to `EXACT` weights travel in 32 bits, more in 16. Of records that are larger than a cell
may be, and of maps with longer sides than a picture can show, blocks travel by their largest weight. The page says so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isqrt

import numpy as np

from transformer.attention.measures import kinds_of
from transformer.attention.record import AttentionMap, Record
from transformer.messages import Message, say, words
from transformer.plots.axes import Axis
from transformer.plots.canvas import views
from transformer.plots.canvas.page import Page
from transformer.plots.canvas.record import MASKED, AxisWords, Kind
from transformer.plots.canvas.views import Axes
from transformer.plots.file_names import file_name
from transformer.plots.picture import Picture, block_length
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


def page(
    maps: Sequence[AttentionMap],
    model: str = "",
    text: str = "",
    first: tuple[Site, int | None] | None = None,
    whole_words: bool = False,
    special: bool = True,
) -> Page:
    """The page of these maps. At `first` a site's head is shown (None: their mean), else the mean of the first map.

    `whole_words` and `special` are as in `AttentionMap.pictures`; maps that come in blocks are of all pieces.
    """
    maps, left_out = _within(maps)
    size = _blocks_a_side(maps)
    facts = [
        *([words("page_model", model=model)] if model else []),
        *([words("page_text", text=text)] if text else []),
    ]
    if not any(one.n_heads * len(one.queries) * len(one.keys) for one in maps):
        return Page(model, [*facts, words("page_nothing")], [], {}, {})
    reduced = [one for one in maps if max(one.shape) > size]
    drawn = {
        id(one): _in_blocks(one, size) if max(one.shape) > size else one.pictures(whole_words, special) for one in maps
    }
    cells = sum(one[0].values.size * (len(one) - 1) for one in drawn.values())
    if reduced:
        facts.append(words("page_blocks", weights=f"{_weights(maps):,}", size=size))
    if cells > EXACT:
        facts.append(words("page_rounded"))
    if left_out:
        facts.append(words("page_left_out", sites=", ".join(left_out), first=left_out[0]))
    kinds, sites, axes = list[Kind](), dict[str, views.Site](), dict[str, Axes]()
    shown: tuple[int, int, int | None] = (0, 0, None)
    record = Record({one.site: one for one in maps})
    for name, of_wall in kinds_of(record).items():
        wall = name if len(of_wall) > 1 else str(of_wall[0])
        if first is not None and first[0] in of_wall:
            shown = len(kinds), list(of_wall).index(first[0]), first[1]
        pictures = {site: drawn[id(record[site])] for site in of_wall}
        queries, keys = pictures[of_wall[0]][0].queries, pictures[of_wall[0]][0].keys
        dtype = np.float16 if cells > EXACT else np.float32
        layers = [record[site] for site in of_wall]
        kinds.append(kind_of(wall, layers, pictures, (queries, keys), dtype=dtype))
        common, found = sites_of(pictures, lambda one: file_name(str(one.site), say(one.head)), _notes)
        sites |= found
        said = words("page_axes", queries=say(queries.name), keys=say(keys.name))
        axes[wall] = axes_of(queries, keys, said, [*facts, *map(say, common)])
    title = model or (str(maps[0].site) if len(maps) == 1 else "")
    return Page(title, facts, kinds, sites, axes, shown)


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


def kind_of(
    name: str,
    maps: Sequence[AttentionMap],
    pictures: Mapping[Site, Sequence[Picture]],
    axes: tuple[Axis, Axis],
    called: Sequence[str] = (),
    dtype: type = np.float32,
) -> Kind:
    """A wall of layers x heads as it is sent: of some layers or all, `pictures` of every head and the mean.

    `axes` are the words of queries and keys, `called` what addresses call its layers.
    """
    weights = [[np.where(one.visible, one.values, MASKED) for one in heads[:-1]] for heads in pictures.values()]
    shape = (len(weights), maps[0].n_heads, *map(len, axes))
    sites = [one.site for one in maps]
    numbers = ["" if site.layer is None else str(site.layer) for site in sites]
    counted = numbers == [str(number) for number in range(len(sites))] and len(sites) > 1
    return Kind(
        name,
        sites,
        _words(axes[0]),
        _words(axes[1]),
        np.array(weights, dtype=dtype).reshape(shape),
        called,
        [] if counted or called else numbers,
        None if len(weights) == len(maps) else [sites.index(site) for site in pictures],
    )


def sites_of(
    pictures: Mapping[Site, Sequence[Picture]], stem: Callable[[Picture], str], notes: Callable[[Picture], str]
) -> tuple[tuple[str, ...], dict[str, views.Site]]:
    """The notes that all maps of a wall share, and what each of its sites is called: see `views.Site`."""
    every = [one for heads in pictures.values() for one in heads]
    common = tuple(note for note in (every[0].notes if every else ()) if all(note in one.notes for one in every))
    return common, {
        str(site): views.Site([say(one.title) for one in heads], [*map(stem, heads)], [*map(notes, heads)])
        for site, heads in pictures.items()
    }


def axes_of(
    queries: Axis, keys: Axis, notes: str, facts: Sequence[str], edges: tuple[Sequence[int], Sequence[int]] = ((), ())
) -> Axes:
    """What stands around the maps of a wall."""
    titles = words("figure_query", text=say(queries.name)), words("figure_key", text=say(keys.name))
    return Axes(*titles, notes, facts, edges)


def _words(axis: Axis) -> AxisWords:
    return AxisWords(say(axis.name), [*map(say, axis.labels)], [*map(say, axis.texts)])


def _notes(picture: Picture) -> str:
    notes = [say(note) for note in picture.notes]
    return " ".join(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes) or words("page_sums")
