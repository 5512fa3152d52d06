"""Pictures to take away: the numbers as CSV, a figure as a page that works offline, and what the mode bar offers."""

import csv as csv_format
import io
import math
from collections.abc import Iterable, Sequence
from html import escape, unescape
from typing import Any, Literal

import plotly.graph_objects as go

from transformer.messages import language, say, words
from transformer.plots.picture import Picture
from transformer.plots.theme import theme

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


_PAGE = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 1rem; background: {paper}; color: {ink}; font: 14px sans-serif; }}</style>
</head>
<body>
{body}{about}
</body>
</html>
"""

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


def html(figure: go.Figure, about: Sequence[str] = ()) -> str:
    """A figure as a whole page that needs no network: plotly.js is in it (about 5 MB), and nothing can be uploaded.

    Below the figure stands what it is `about`: a line for each.
    """
    title = unescape((figure.layout.title.text or words("figure_attention")).replace("<br>", " "))
    colours = theme(dark=False)
    paper = figure.layout.template.layout.paper_bgcolor or colours.paper
    ink = figure.layout.template.layout.font.color or colours.ink
    body = figure.to_html(config=plot_config(), include_plotlyjs=True, full_html=False)
    said = "".join(f"\n<p>{escape(line)}</p>" for line in about)
    return _PAGE.format(
        language=language(), title=escape(title), paper=escape(paper), ink=escape(ink), body=body, about=said
    )


def harmless(label: str) -> str:
    """A text as a cell of a table, in the language of the context: no spreadsheet runs it as a formula (see `csv`)."""
    label = say(label)
    signed = label in {"+", "-"}  # a strand, which no spreadsheet runs
    return f"'{label}" if label.startswith((*_FORMULA, "'")) and not signed else label


def _number(value: object) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value)
