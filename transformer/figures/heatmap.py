"""One head as a heatmap: queries down, keys across, one colour per weight.

The array that is drawn is the picture's own. The scale is fixed from 0 to 1, so heads compare; a relative one says so.
Masked cells are hatched and cells without a finite number are crossed, so neither passes for a weight of 0.
"""

import textwrap
import unicodedata
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from transformer.errors import RecordError
from transformer.figures import labels
from transformer.figures.overlays import (
    Trace,
    any_named,
    click_targets,
    hover,
    is_probability,
    masked,
    not_finite,
    outline,
    value_text,
)
from transformer.figures.theme import Theme, diverging, inked, legend, sequential, theme, written_template
from transformer.figures.written import Written
from transformer.messages import say, words
from transformer.pictures.picture import Picture

CLICKABLE_CELLS = 10_000
"""Up to so many cells a click selects one; a larger map is read by hovering and zooming."""

BUTTONS = 190
"""Pixels that Plotly's buttons take at the right of the title's line, whose letters are about 10 wide."""

LARGEST_CELL = 48
"""Pixels along one side of a cell where there are few."""

TITLE_LETTER = 10
"""Pixels that a letter of the title takes at most, on average."""

AXIS_TITLE, LINE = 13.0, 17
"""The size of an axis title's letters, and how far apart its lines are, in pixels."""

NARROW = 400
"""Pixels that a page has for a map on a narrow screen: it shrinks the cells there, but no letters."""

WIDEST, TALLEST = 720, 600
"""Pixels that all cells take up where there are many."""

WHOLE_SENTENCE, EASY_ROW = 450, 30
"""Pixels that the rows of a sentence take up at most, so that a small window shows all of them at once, until each row
would be lower than `EASY_ROW`."""


def heatmap(
    picture: Picture, *, relative: bool = False, selected: tuple[int, int] | None = None, dark: bool = False
) -> go.Figure:
    """One head, large: rows are queries (the first on top), columns are keys.

    Probabilities have the scale 0 to 1; `relative` scales to the largest visible weight and says so on the colour
    bar. Any other unit (scores) has a scale centred at 0, and its range is named. `selected` (query, key) is outlined.

    The points of the trace `cells` carry `customdata` (query, key): a click on a cell selects one, which a heatmap
    by itself cannot do. There are none above `CLICKABLE_CELLS` cells. Above 512 x 512 cells, draw an overview
    or a tile: every cell of a picture goes to the browser.

    Raises:
        RecordError: `selected` is not in the picture.
    """
    return go.Figure(_written(picture, relative, selected, dark))


def heatmap_on_page(
    picture: Picture, *, relative: bool = False, selected: tuple[int, int] | None = None, dark: bool = False
) -> Written:
    """`heatmap` for a page, which draws it for every click: the same to the letter, in a tenth of the time.

    Raises:
        RecordError: `selected` is not in the picture.
    """
    return Written(_written(picture, relative, selected, dark))


def _written(picture: Picture, relative: bool, selected: tuple[int, int] | None, dark: bool) -> dict[str, Any]:
    """The figure as Plotly writes it: its validators would change nothing."""
    n_queries, n_keys = picture.values.shape
    if selected is not None and not (0 <= selected[0] < n_queries and 0 <= selected[1] < n_keys):
        raise RecordError("cell_not_in_picture", selected=str(selected), queries=n_queries, keys=n_keys)
    colours, scale = theme(dark), _scale(picture, relative)
    layout = inked(_layout(picture, scale, selected, dark), colours)
    if not picture.values.size:
        nothing = dict(text=words("figure_no_tokens"), showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
        return dict(data=[], layout={**layout, "annotations": [nothing]})
    traces = [_cells(picture, scale, colours), *masked(picture, colours), *not_finite(picture, colours)]
    if picture.values.size <= CLICKABLE_CELLS:
        traces.append(click_targets(picture))
    if selected is not None:
        layout["shapes"] = list(outline(picture, selected))
    below = dict(type="scatter", x=[None], y=[None], xaxis="x2", yaxis="y2", showlegend=False, hoverinfo="skip")
    return dict(data=[*traces, below], layout=layout)


def alt_text(picture: Picture) -> str:
    """The picture in a sentence, for those who cannot see it."""
    n_queries, n_keys = picture.values.shape
    facts = dict(title=picture.title, queries=n_queries, keys=n_keys)
    shown = picture.visible & np.isfinite(picture.values)
    if not shown.any():
        return words("figure_alt", **facts)
    query, key = np.unravel_index(int(np.where(shown, picture.values, -np.inf).argmax()), shown.shape)
    return words(
        "figure_alt_largest",
        **facts,
        unit=picture.unit,
        value=float(picture.values[query, key]),
        query=picture.queries.labels[query],
        key=picture.keys.labels[key],
    )


class _Scale(NamedTuple):
    """The lowest and highest value that have a colour, and what the colour bar says."""

    low: float
    high: float
    title: str
    numbers: dict[str, Any]


def _scale(picture: Picture, relative: bool) -> _Scale:
    shown = picture.values[picture.visible & np.isfinite(picture.values)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 0.0)
    unit = _line(picture.unit)
    if not is_probability(picture):
        limit = max(abs(low), abs(high)) or 1.0
        return _Scale(-limit, limit, f"{unit}<br>{_line(words('figure_centred', low=low, high=high))}", {})
    quarters = np.linspace(0, 1, 5)
    if not relative:
        names = ["0", "0.25", "0.5", "0.75", "1"]
        return _Scale(0.0, 1.0, unit, dict(tickvals=quarters.tolist(), ticktext=names))
    if high <= 0:
        title = f"{unit}<br>{_line(words('figure_relative_to_nothing'))}"
        return _Scale(0.0, 1.0, title, dict(tickvals=[0.0], ticktext=["0"]))
    title = f"{unit}<br>{_line(words('figure_relative', largest=high))}"
    weights = (quarters * high).tolist()
    return _Scale(0.0, high, title, dict(tickvals=weights, ticktext=[f"{weight:.3g}" for weight in weights]))


def _line(text: str) -> str:
    """A line of the colour bar's title, which stands under the cells, broken as a narrow screen needs it."""
    return labels.wrapped(text, 0.7 * NARROW, AXIS_TITLE)


def _cells(picture: Picture, scale: _Scale, colours: Theme) -> Trace:
    text = dict(color=colours.ink)
    bar = dict(orientation="h", thickness=12, len=1, x=0, xanchor="left", xpad=0, y=0, yanchor="top", ypad=10)
    return dict(
        type="heatmap",
        z=picture.values,
        name=labels.safe(picture.quantity.noun),
        zmin=scale.low,
        zmax=scale.high,
        colorscale=sequential() if is_probability(picture) else diverging(colours),
        colorbar=dict(
            **bar,
            outlinewidth=0,
            tickfont=text,
            title=dict(text=scale.title, side="top", font=text),
            **scale.numbers,
        ),
        hoverongaps=False,
        hovertemplate=hover(value_text(picture, "%{z:.6~g}")),
    )


def _layout(picture: Picture, scale: _Scale, selected: tuple[int, int] | None, dark: bool) -> dict[str, Any]:
    """Room for cells as square as they can be, between the labels and the colour bar."""
    n_queries, n_keys = picture.values.shape
    tall = min(TALLEST, max(WHOLE_SENTENCE, EASY_ROW * n_queries))
    cell = min(LARGEST_CELL, WIDEST / max(n_keys, 1), tall / max(n_queries, 1))
    across, down = max(280, round(cell * n_keys)), max(60, round(cell * n_queries))
    keys_wide = labels.width(picture.keys.texts)
    upright = keys_wide + 8 > cell
    query_title = words("figure_query", text=labels.between(picture.queries.name))
    query_title = labels.wrapped(query_title, down + 120.0, AXIS_TITLE)
    left = round(labels.width(picture.queries.texts)) + 48 + LINE * query_title.count("<br>")
    wide = left + across + 24
    room = float(
        min(wide, NARROW) - left
    )  # the title stands in the middle of the cells, and may reach over both margins
    key_title = labels.wrapped(words("figure_key", text=labels.between(picture.keys.name)), room, AXIS_TITLE)
    note = labels.wrapped(labels.joined(picture.notes), wide - 24.0) if picture.notes else ""
    said = say(picture.title)  # read whole: where it names what was changed, on a narrow screen too
    title_lines = textwrap.wrap(said, _letters(said, (min(wide, NARROW) if picture.changes else wide) - 24)) or [said]
    below_buttons = 28 * (TITLE_LETTER * max(map(len, title_lines)) + BUTTONS >= wide)
    above = below_buttons + 22 * (len(title_lines) - 1)
    top = round(keys_wide if upright else 14) + 78 + above + 44 * bool(note) + 16 * note.count("<br>")
    top += LINE * key_title.count("<br>")
    foot = 76 + 16 * scale.title.count("<br>") + 32 * any_named(picture)
    title = dict(text="<br>".join(map(labels.safe, title_lines)), x=0, y=1, yref="container", yanchor="top")
    title["pad"] = dict(t=12 + below_buttons, l=12)
    if note:
        ink = {"color": theme(dark).second} if picture.is_unsure else {}
        title["subtitle"] = dict(text=note, font=dict(size=12, **ink))
    return dict(
        template=written_template(dark),
        title=title,
        width=wide,
        height=top + down + foot,
        margin=dict(l=left, r=24, t=top, b=foot, pad=0),
        hovermode="closest",
        hoverdistance=-1,
        barmode="overlay",
        legend=legend(y=4 / (top + down + foot), yref="container", yanchor="bottom"),
        **_axes(picture, selected or (None, None), (across, down), (key_title, query_title), upright),
    )


def _letters(title: str, pixels: int) -> int:
    """How many letters of a title fit into a line; East Asian ones are twice as wide."""
    doubled = sum(unicodedata.east_asian_width(letter) in "WF" for letter in title)
    return pixels // TITLE_LETTER * len(title) // (len(title) + doubled)


def _axes(
    picture: Picture,
    marked: tuple[int | None, int | None],
    pixels: tuple[int, int],
    titles: tuple[str, str],
    upright: bool,
) -> dict[str, Any]:
    """Two pairs of axes: the drawn pair has short labels where there is room, the pair below it has every label whole.

    Hover text takes `%{x}` and `%{y}` from the pair below, on which the cells lie.
    """
    n_queries, n_keys = picture.values.shape
    x, y = dict(range=[-0.5, n_keys - 0.5], showgrid=False), dict(range=[n_queries - 0.5, -0.5], showgrid=False)
    unseen = dict(showticklabels=False, ticks="")
    apart = dict(ticks="outside", ticklen=4, tickcolor="rgba(0,0,0,0)")
    return dict(
        xaxis=dict(**x, **unseen, **labels.whole(picture.keys)),
        yaxis=dict(**y, **unseen, **labels.whole(picture.queries)),
        xaxis2=dict(
            **x,
            **apart,
            **labels.ticks(picture.keys, pixels[0] / max(n_keys, 1), marked[1]),
            title=dict(text=titles[0]),
            side="top",
            tickangle=-90 if upright else 0,
            overlaying="x",
            matches="x",
            anchor="y2",
        ),
        yaxis2=dict(
            **y,
            **apart,
            **labels.ticks(picture.queries, pixels[1] / max(n_queries, 1), marked[0]),
            title=dict(text=titles[1]),
            overlaying="y",
            matches="y",
            anchor="x2",
        ),
    )
