"""A record, or one map of it, as a page of the dashboard's own views: for a notebook's cell, and for a file.

Sites of one group (`encoder.self`: all layers) with the same tokens and as many heads are one wall of layers x heads;
others stand by their sites. Up to `EXACT` weights travel in 32 bits, more in 16. Of records that are larger than a cell
may be, and of maps with longer sides than a picture can show, blocks travel by their largest weight. The page says so.

The page fetches nothing. Its policy lets no script run but the one that stands in it, and all texts of a record
(tokens, sites, titles) travel inside the base64 of one message, so that nothing in them is ever markup. In a notebook
it is the `srcdoc` of a sandboxed frame: it cannot read the notebook around it, and two of it do not meet.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from ..messages import Message, language, say, words
from ..plots.axes import Axis
from ..plots.canvas import blob, views
from ..plots.canvas.views import MASKED, About, AxesTexts, AxisWords, MapKind
from ..plots.export import file_name
from ..plots.picture import Picture, block_length
from ..sites import Site
from .measures import kinds_of
from .record import MEAN, AttentionMap, Record

WORDS = {"head_view": "lines"}
"""Whose sentences a view says, where they are not its own."""

FRAME = 640
"""The height of a frame in pixels until its page says how high it is, and where it cannot say so."""

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


@dataclass(frozen=True, eq=False)
class Page:
    """Maps as a page of the dashboard's views: all that it is told, packed for its script."""

    title: str
    message: bytes

    def document(self) -> str:
        """The page, complete."""
        code, style = _text("built/document.js"), f"{_text('canvas.css')}\n{_text('page/page.css')}"
        policy = f"default-src 'none'; script-src {_hashed(code)}; style-src {_hashed(style)}; img-src data: blob:"
        return (
            f'<!DOCTYPE html>\n<html lang="{language()}">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(' '.join(self.title.split()))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            f'<script type="application/octet-stream" id="record">{b64encode(self.message).decode()}</script>\n'
            f"<script>{code}</script>\n</body>\n</html>\n"
        )

    def frame(self) -> str:
        """The page in a frame, for a notebook's cell."""
        follow = f"{_text('built/frame.js')} heedmap.follow(this)"  # once the frame has loaded
        inside = self.document().replace("&", "&amp;").replace("'", "&#39;")
        return (
            f'<iframe class="heedmap" sandbox="allow-scripts allow-downloads" title="{escape(self.title)}" '
            f'style="display:block;width:100%;height:{FRAME}px;border:0" onload="{escape(follow)}" '
            f"srcdoc='{inside}'></iframe>"
        )


@cache
def _text(name: str) -> str:
    """A file of the views: a style, or a script that `make scripts` has built."""
    return (Path(views.__file__).parent / name).read_text(encoding="utf-8")


@cache
def _hashed(text: str) -> str:
    """How a policy names a script or style that it lets in."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def page(
    record: Record, first: tuple[Site, int | None] | None = None, whole_words: bool = False, special: bool = True
) -> Page:
    """The page of a record. At `first` a site's head is shown (None: their mean), else the mean of the first map.

    `whole_words` and `special` are as in `AttentionMap.pictures`; maps that come in blocks are of all pieces.
    """
    maps, left_out = _within(list(record.values()))
    if not _weights(maps):
        maps, left_out = [], []
    size = _blocks_a_side(maps)
    drawn = {
        one.site: _in_blocks(one, size) if max(one.shape) > size else one.pictures(whole_words, special) for one in maps
    }
    cells = sum(one[0].values.size * (len(one) - 1) for one in drawn.values())
    facts = [
        *([words("page_model", model=record.model)] if record.model else []),
        *([words("page_text", text=record.text)] if record.text else []),
        *([] if maps else [words("page_nothing")]),
        *([words("page_blocks", weights=f"{_weights(maps):,}", size=size)] if _longest(maps) > size else []),
        *([words("page_rounded")] if cells > EXACT else []),
        *([words("page_left_out", sites=", ".join(left_out), first=left_out[0])] if left_out else []),
    ]
    title = say(record.model or (str(maps[0].site) if len(maps) == 1 else ""))
    kinds, usual, shown = list[MapKind](), tuple[int, int | None]((0, None)), 0
    sites, axes = dict[str, views.SiteTexts](), dict[str, AxesTexts]()
    grids, sides = dict[str, views.Grid](), dict[str, views.Sides]()
    for name, of_wall in kinds_of(Record({one.site: one for one in maps})).items():
        if first is not None and first[0] in of_wall:
            shown, usual = len(kinds), (of_wall.index(first[0]), first[1])
        pictures, layers = {site: drawn[site] for site in of_wall}, [record[site] for site in of_wall]
        queries, keys = pictures[of_wall[0]][0].queries, pictures[of_wall[0]][0].keys
        wall = name if len(of_wall) > 1 else str(of_wall[0])
        dtype = np.float16 if cells > EXACT else np.float32
        kinds.append(kind_of(wall, layers, pictures, (queries, keys), dtype=dtype))
        common, found = sites_of(pictures, lambda one: file_name(str(one.site), say(one.head)), _notes)
        sites |= found
        said = words("page_axes", queries=say(queries.name), keys=say(keys.name))
        axes[wall] = axes_of(queries, keys, said, [*facts, *map(say, common)])
        count = layers[0].n_heads
        about = About(words("page_all_heads", kind=wall), facts)
        grids[wall] = views.Grid(file_name(title, wall), about, [[""] * count] * len(layers))
        heads = [*(words("page_head_name", head=head) for head in range(count)), words("page_mean_of")]
        sides[wall] = views.Sides(
            views.SideTexts(axes[wall].queries),
            views.SideTexts(axes[wall].keys),
            [heads] * len(layers),
            [[file_name(title, site, "lines")] * len(heads) for site in of_wall],
            [About(words("page_lines_of", site=site), facts) for site in of_wall],
        )
    named = {"page_attention": {}, "page_layer": {}, "page_head": {"mean": words("page_mean")}}
    pickers = [{"label": words(code), "help": "", "names": names} for code, names in named.items()]
    headers: dict[str, dict[str, Any]] = {
        "head_choice": {"pickers": pickers, "known": {}, "links": []},
        "heatmap": {"sites": sites, "axes": axes, "dense": True, "save_csv": words("page_csv")},
        "head_view": {"sides": sides, "how": ""},
        "all_heads": {
            "grids": grids, "query_axis": words("component_queries"), "key_axis": words("component_keys"),
        },
    }  # fmt: skip
    if not kinds:
        headers = {}
    elif len(kinds) == 1 and kinds[0].weights.shape[:2] == (1, 1):
        headers.pop("all_heads")  # one head alone has no grid of all
    local = {"record": "record"}
    whole = {
        "title": title,
        "facts": facts,
        "views": {
            name: {"instance": name, "words": views.sentences(WORDS.get(name, name)), "local": local, **header}
            for name, header in headers.items()
        },
        "words": {"map": words("page_map"), "lines": words("page_lines"), "views": words("page_views")},
    }
    header, arrays = views.header_and_arrays(kinds, usual, shown)
    return Page(title, blob.pack({**whole, "record": {**header, "id": "record"}}, arrays))


def _within(maps: Sequence[AttentionMap]) -> tuple[list[AttentionMap], list[Site]]:
    """The first maps, as many as are quickly computed, and the sites of the others."""
    sizes = np.cumsum([_weights([one]) for one in maps])
    count = max(1, int((sizes <= AT_ONCE).sum()))
    return list(maps[:count]), [one.site for one in maps[count:]]


def _weights(maps: Iterable[AttentionMap]) -> int:
    return sum(one.n_heads * one.shape[0] * one.shape[1] for one in maps)


def _longest(maps: Sequence[AttentionMap]) -> int:
    return max((max(one.shape) for one in maps), default=0)


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
    names = map(attention.head_name, (*range(len(heads)), MEAN))
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
) -> MapKind:
    """A wall of layers x heads as it is sent: of some layers or all, `pictures` of every head and the mean.

    `axes` are the words of queries and keys, `called` what addresses call its layers.
    """
    weights = [[np.where(one.visible, one.values, MASKED) for one in heads[:-1]] for heads in pictures.values()]
    shape = (len(weights), maps[0].n_heads, *map(len, axes))
    sites = [one.site for one in maps]
    numbers = ["" if site.layer is None else str(site.layer) for site in sites]
    counted = numbers == [str(number) for number in range(len(sites))] and len(sites) > 1
    queries, keys = (AxisWords(say(one.name), [*map(say, one.labels)], [*map(say, one.texts)]) for one in axes)
    there = None if len(weights) == len(maps) else [sites.index(site) for site in pictures]
    named = [] if counted or called else numbers
    return MapKind(name, sites, queries, keys, np.array(weights, dtype).reshape(shape), called, named, there)


def sites_of(
    pictures: Mapping[Site, Sequence[Picture]], stem: Callable[[Picture], str], notes: Callable[[Picture], str]
) -> tuple[tuple[str, ...], dict[str, views.SiteTexts]]:
    """The notes that all maps of a wall share, and what each of its sites is called: see `views.SiteTexts`."""
    every = [one for heads in pictures.values() for one in heads]
    common = tuple(note for note in (every[0].notes if every else ()) if all(note in one.notes for one in every))
    return common, {
        str(site): views.SiteTexts([say(one.title) for one in heads], [*map(stem, heads)], [*map(notes, heads)])
        for site, heads in pictures.items()
    }


def axes_of(
    queries: Axis, keys: Axis, notes: str, facts: Sequence[str], edges: tuple[Sequence[int], Sequence[int]] = ((), ())
) -> AxesTexts:
    """What stands around the maps of a wall."""
    titles = words("figure_query", text=say(queries.name)), words("figure_key", text=say(keys.name))
    return AxesTexts(*titles, notes, facts, edges)


def _notes(picture: Picture) -> str:
    notes = [say(note) for note in picture.notes]
    return " ".join(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes) or words("page_sums")
