"""Pictures to take away: the numbers as CSV, a figure as a page that works offline, and what the mode bar offers."""

import csv as csv_format
import io
from html import escape, unescape
from typing import Any, Literal

import plotly.graph_objects as go

from transformer.figures.theme import theme
from transformer.messages import language, say, words
from transformer.pictures.picture import Picture

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
<style>body {{ margin: 1rem; background: {paper}; }}</style>
</head>
<body>
{body}
</body>
</html>
"""

PLOT_CONFIG = plot_config()
"""The settings where the file's name does not matter."""


def csv(picture: Picture) -> str:
    """The numbers of a picture: a header of keys, then a row for each query; masked cells are empty, NaN is `nan`.

    Values are written so that reading them gives the same number again. A label that a spreadsheet could take for a
    formula (it begins with = + - @, their full-width forms, a tab or a line break), or that begins with an
    apostrophe, gets an apostrophe in front; to read labels back, take one leading apostrophe away.
    """
    target = io.StringIO()
    rows = csv_format.writer(target, lineterminator="\n")
    rows.writerow([_cell(words("figure_query", text=picture.queries.name)), *map(_cell, picture.keys.labels)])
    for label, values, visible in zip(picture.queries.labels, picture.values, picture.visible, strict=True):
        rows.writerow([_cell(label), *(str(v) if seen else "" for v, seen in zip(values, visible, strict=True))])
    return target.getvalue()


def html(figure: go.Figure) -> str:
    """A figure as a whole page that needs no network: plotly.js is in it (about 5 MB), and nothing can be uploaded."""
    title = unescape((figure.layout.title.text or words("figure_attention")).replace("<br>", ", "))
    paper = figure.layout.template.layout.paper_bgcolor or theme(dark=False).paper
    body = figure.to_html(config=plot_config(), include_plotlyjs=True, full_html=False)
    return _PAGE.format(language=language(), title=escape(title), paper=escape(paper), body=body)


def _cell(label: str) -> str:
    label = say(label)
    return f"'{label}" if label.startswith((*_FORMULA, "'")) else label
