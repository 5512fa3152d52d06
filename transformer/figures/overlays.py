"""What a heatmap draws over its colours: masked cells, cells without a number, the marked pair, targets for clicks."""

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from transformer.figures.theme import Theme, crossed, hatched
from transformer.messages import say, words
from transformer.pictures.picture import Picture
from transformer.pictures.quantity import Quantity

CELLS = "cells"
"""The name of the trace whose points a click selects; it is never shown."""

Trace = dict[str, Any]
"""A trace as Plotly writes it."""

_STAYS = dict(marker=dict(opacity=1))
_INVISIBLE = dict(marker=dict(opacity=0))


def is_probability(picture: Picture) -> bool:
    """Whether the values are attention weights, which lie between 0 and 1."""
    return picture.quantity in (Quantity.WEIGHT, Quantity.SHARE)


def value_text(picture: Picture, number: str) -> str:
    """A value and what it is: `weight 0.25`."""
    return words("figure_value", quantity=picture.quantity.noun, number=number)


def hover(last_line: str) -> str:
    """The hover text of a cell: whose it is, then `last_line`."""
    return words("figure_cell", query="%{y}", key="%{x}", value=last_line) + "<extra></extra>"


def any_named(picture: Picture) -> bool:
    """Whether some cell has no colour, so that the figure names what it has instead."""
    return not (picture.visible & np.isfinite(picture.values)).all()


def masked(picture: Picture, colours: Theme) -> Iterator[Trace]:
    """Hatch what is masked: one bar for each run of masked queries in a column; the words for it come on hover."""
    if picture.visible.all():
        return
    keys, first, length = runs(~picture.visible)
    yield dict(
        type="bar",
        x=keys,
        base=(first - 0.5).tolist(),
        y=length,
        width=1,
        name=words("figure_masked_cell"),
        showlegend=True,
        hoverinfo="skip",
        selected=_STAYS,
        unselected=_STAYS,
        marker=hatched(colours),
    )
    yield dict(
        type="heatmap",
        z=np.where(picture.visible, np.nan, 0).astype(np.float32),
        name=words("figure_masked"),
        showscale=False,
        opacity=0,
        hoverongaps=False,
        hovertemplate=hover(words("figure_masked_cell")),
    )


def not_finite(picture: Picture, colours: Theme) -> Iterator[Trace]:
    """Cross cells whose value is NaN or infinite; they have no colour."""
    queries, keys = np.nonzero(picture.visible & ~np.isfinite(picture.values))
    if not len(queries):
        return
    yield dict(
        type="scatter",
        x=keys,
        y=queries,
        mode="markers",
        name=words("figure_not_finite"),
        showlegend=True,
        selected=_STAYS,
        unselected=_STAYS,
        marker=crossed(colours),
        hovertemplate=hover(words("figure_not_finite")),
    )


def click_targets(picture: Picture) -> Trace:
    """An invisible point on every cell. The nearest to the pointer answers hover and click for its cell.

    Points answer whether they are drawn or not, so one is drawn: thousands would take as long as all the rest. Texts
    and numbers go in as arrays of objects, which Plotly takes as they are instead of looking at each.
    """
    queries, keys = (axis.ravel() for axis in np.indices(picture.values.shape))
    if any_named(picture):
        cells = zip(picture.values.ravel().tolist(), picture.visible.ravel().tolist(), strict=True)
        texts, told = _cell_texts(picture, cells), "%{text}"
    else:
        texts, told = [f"{value:.6g}" for value in picture.values.ravel().tolist()], value_text(picture, "%{text}")
    return dict(
        type="scatter",
        x=keys,
        y=queries,
        customdata=np.stack([queries, keys], axis=1).astype(object),
        text=np.array(texts, dtype=object),
        mode="markers",
        name=CELLS,
        showlegend=False,
        marker=dict(symbol="square", size=4, opacity=0, maxdisplayed=1),
        selected=_INVISIBLE,
        unselected=_INVISIBLE,
        hovertemplate=hover(told),
    )


def outline(picture: Picture, selected: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Shapes that mark a cell, its row and its column, in white within black, so that it shows on every colour."""
    query, key = selected
    n_queries, n_keys = picture.values.shape
    row = dict(x0=-0.5, x1=n_keys - 0.5, y0=query - 0.5, y1=query + 0.5)
    column = dict(x0=key - 0.5, x1=key + 0.5, y0=-0.5, y1=n_queries - 0.5)
    for band in (row, column):
        yield dict(type="rect", **band, line=dict(color="black", width=2))
        yield dict(type="rect", **band, line=dict(color="white", width=1, dash="dot"))
    cell = dict(x0=key - 0.5, x1=key + 0.5, y0=query - 0.5, y1=query + 0.5)
    yield dict(type="rect", **cell, line=dict(color="black", width=6))
    yield dict(type="rect", **cell, line=dict(color="white", width=3))


def runs(
    hidden: Bool[np.ndarray, "query key"],
) -> tuple[Int[np.ndarray, " run"], Int[np.ndarray, " run"], Int[np.ndarray, " run"]]:
    """Vertical runs of True: the key, first query and length of each."""
    edges = np.diff(np.pad(hidden.astype(np.int8), ((1, 1), (0, 0))), axis=0)
    keys, first = np.nonzero(edges.T == 1)
    _, after = np.nonzero(edges.T == -1)
    return keys, first, after - first


def _cell_texts(picture: Picture, cells: Iterable[tuple[float, bool]]) -> list[str]:
    """The exact value of each cell, or why there is none."""
    noun, masked, alone = say(picture.quantity.noun), words("figure_masked_cell"), is_probability(picture)
    texts = []
    for value, visible in cells:
        if isfinite(value):
            number = words("figure_value", quantity=noun, number=f"{value:.6g}")
        else:
            number = words("figure_not_finite_value", value=value)
        texts.append(number if visible else masked if alone else f"{masked}<br>{number}")
    return texts
