"""Pictures to take away: the numbers as CSV, and what the mode bar of a figure offers."""

import csv as csv_format
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from transformer.messages import say, words
from transformer.plots.picture import Picture

_FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20\t\r\n"
"""With one of these in front, a spreadsheet would run a text as a formula."""


def plot_config(name: str = "attention", image: Literal["png", "svg"] = "png") -> dict[str, Any]:
    """Plotly's settings for every figure: its camera saves `name` as PNG (twice the pixels) or SVG.

    The button that uploads a chart to a server is taken away.
    """
    return {
        "displaylogo": False,
        "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d"],
        "toImageButtonOptions": {"format": image, "filename": name, "scale": 2},
    }


PLOT_CONFIG = plot_config()
"""The settings where the file's name does not matter."""


def csv(picture: Picture, about: Sequence[str] = ()) -> str:
    """The numbers of a picture: a header of keys, then a row for each query; masked cells are empty, NaN is `nan`.

    The first cell says what the table is, apart by ` | `: the axis of the rows, that of the columns, site and head,
    the unit, the notes, and `about` (of what sentence, of what checkpoint).

    Values are written so that reading them gives the same number again. A label that a spreadsheet could take for a
    formula (it begins with = + - @, their full-width forms, a tab or a line break), or that begins with an
    apostrophe, gets an apostrophe in front; to read labels back, take one leading apostrophe away.
    """
    target = io.StringIO()
    rows = csv_format.writer(target, lineterminator="\n")
    axes = [words("figure_query", text=picture.queries.name), words("figure_key", text=picture.keys.name)]
    facts = [*axes, say(picture.title), say(picture.unit), *map(say, picture.notes), *about]
    corner = words("files_about_separator").join(" ".join(fact.split()) for fact in facts)
    rows.writerow([harmless(corner), *map(harmless, picture.keys.labels)])
    for label, values, visible in zip(picture.queries.labels, picture.values, picture.visible, strict=True):
        rows.writerow([harmless(label), *(str(v) if seen else "" for v, seen in zip(values, visible, strict=True))])
    return target.getvalue()


def table_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Any table: texts are written as labels are (`csv`), numbers exactly; what is None or NaN is an empty cell."""
    target = io.StringIO()
    written = csv_format.writer(target, lineterminator="\n")
    written.writerow(map(harmless, header))
    for row in rows:
        written.writerow([harmless(value) if isinstance(value, str) else _number(value) for value in row])
    return target.getvalue()


def harmless(label: str) -> str:
    """A text as a cell of a table, in the language of the context: no spreadsheet runs it as a formula (see `csv`)."""
    label = say(label)
    signed = label in {"+", "-"}  # a strand, which no spreadsheet runs
    return f"'{label}" if label.startswith((*_FORMULA, "'")) and not signed else label


def _number(value: object) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value)
