"""A handout: one HTML file for A4 that loads nothing. A question takes half a page or more; the answers come last."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import segno

from ..messages import catalogue
from .case import Table

STYLE = """
@page { size: A4; margin: 18mm; }
* { box-sizing: border-box; print-color-adjust: exact; }
body { font: 11pt/1.4 system-ui, sans-serif; color: #10171e; margin: 0 auto; max-width: 174mm; }
section { break-inside: avoid; display: flex; flex-direction: column; gap: 2mm; min-height: 128mm; }
section:last-child { break-before: page; break-inside: auto; }
h1 { font-size: 13pt; margin: 0; } h2 { font-size: 12pt; margin: 0; } p { margin: 0; }
footer { font-size: 9pt; color: #47525d; }
table { border-collapse: collapse; font-size: 10pt; } th { font-weight: 600; text-align: left; }
.formula { font: italic 13pt/1.4 Cambria, "STIX Two Math", Georgia, serif; }
.pictures { display: flex; flex-wrap: wrap; gap: 6mm; } .pictures td { min-width: 9mm; height: 6mm; }
th, td { border: .3mm solid #9aa5b0; padding: .2em .65em; }
td { text-align: right; font-variant-numeric: tabular-nums; }
ol { margin: 0; padding-left: 7mm; columns: 2; }
.line { border-bottom: .3mm solid #10171e; height: 8mm; } .lines { margin-top: auto; }
footer { display: flex; justify-content: space-between; align-items: end; gap: 6mm; overflow-wrap: anywhere; }
footer img { flex: none; width: 22mm; height: 22mm; }
.answer { margin-bottom: 3mm; break-inside: avoid; }
"""

LETTER, GAP, DIGITS, WIDTH = 0.66, 1.3, "0.000", 170.0
"""To fit a picture to the paper: ems of a letter and between columns, what a cell holds at least, the paper in mm."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """One question: what it says, what it asks, what is given, the answer for the last pages, and where it is shown."""

    title: str
    sentence: str
    question: str
    answer: str
    address: str
    options: tuple[str, ...] = ()
    pictures: tuple[Table, ...] = ()
    formula: str = ""


def handout(title: str, sheets: Sequence[Sheet], language: str) -> str:
    """The whole document, in a language of the catalogue."""
    said = catalogue(language)
    pages = [_page(sheet, said["tour.handout_answer"]) for sheet in sheets]
    answers = "".join(
        f'<p class="answer"><b>{escape(sheet.title)}</b><br>{escape(sheet.answer)}</p>' for sheet in sheets
    )
    last = f"<section><h1>{escape(said['tour.handout_answers'])}</h1><div>{answers}</div></section>"
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="{language}"><head>{head}</head><body>{"".join(pages)}{last}</body></html>'


def table_html(table: Table, coloured: bool = False) -> str:
    """Numbers with their labels as a table of HTML; `coloured` as the dashboard's matrices are, empty cells grey."""
    most = float(np.nanmax(np.abs(table.values), initial=0.0)) or 1.0
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *table.columns))

    def cell(value: float) -> str:
        paint = f' style="background: {_colour(value / most)}"' if coloured else ""
        return f"<td{paint}>{_number(value, table.digits)}</td>"

    cells = ["".join(map(cell, row)) for row in table.values]
    rows = "".join(f"<tr><th>{escape(name)}</th>{row}</tr>" for name, row in zip(table.rows, cells, strict=True))
    ems = sum(LETTER * max(map(len, (name, DIGITS))) + GAP for name in (max(table.rows, key=len), *table.columns))
    size = f' style="font-size: min(10pt, {WIDTH / ems:.2f}mm)"' if coloured else ""
    return f"<table{size}><tr>{head}</tr>{rows}</table>"


def qr(address: str) -> str:
    """An address as a QR code, an image that holds its own data."""
    return f'<img alt="" src="{segno.make(address, error="m").svg_data_uri(border=2)}">'


def _page(sheet: Sheet, answer: str) -> str:
    pictures = "".join(table_html(one, coloured=True) for one in sheet.pictures)
    formula = re.sub(r"([_^])(\([^()]*\)|.)", _raised, escape(sheet.formula))
    options = "".join(f"<li>{escape(one)}</li>" for one in sheet.options)
    return (
        f"<section><h1>{escape(sheet.title)}</h1><p>{escape(sheet.sentence)}</p>"
        f'<div class="pictures">{pictures}</div><p class="formula">{formula}</p>'
        f"<h2>{escape(sheet.question)}</h2>{f'<ol>{options}</ol>' if options else ''}"
        f'<div class="lines"><p>{escape(answer)}</p><div class="line"></div><div class="line"></div></div>'
        f"<footer><span>{escape(sheet.address)}</span>{qr(sheet.address)}</footer></section>"
    )


def _raised(found: re.Match[str]) -> str:
    tag = "sub" if found[1] == "_" else "sup"
    return f"<{tag}>{found[2].strip('()')}</{tag}>"


def _colour(share: float) -> str:
    """A share of the largest number: white at 0, towards orange above and blue below; grey where there is none."""
    if np.isnan(share):
        return "#e8ebee"
    return f"color-mix(in srgb, {'#d9782d' if share > 0 else '#5b8fd0'} {abs(share):.0%}, white)"


def _number(value: float, digits: int) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}f}"
