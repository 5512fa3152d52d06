"""A handout: one self-contained HTML file for A4 paper, a question a page, the answers last. It loads nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import segno

from transformer.messages import catalogue
from transformer.teaching.case import Table

STYLE = """
@page { size: A4; margin: 18mm; }
* { box-sizing: border-box; }
body { font: 12pt/1.45 system-ui, sans-serif; color: #10171e; margin: 0 auto; max-width: 174mm; }
section { break-after: page; display: flex; flex-direction: column; gap: 6mm; min-height: 255mm; }
section:last-child { break-after: auto; }
h1 { font-size: 15pt; margin: 0; } h2 { font-size: 13pt; margin: 0; } p { margin: 0; }
.small, footer { font-size: 9pt; color: #47525d; }
table { border-collapse: collapse; font-size: 10pt; } th { font-weight: 600; text-align: left; }
th, td { border: .3mm solid #9aa5b0; padding: 1mm 2.4mm; } td { text-align: right; font-variant-numeric: tabular-nums; }
ol { margin: 0; padding-left: 7mm; columns: 2; }
.line { border-bottom: .3mm solid #10171e; height: 12mm; } .lines { margin-top: auto; }
footer { display: flex; justify-content: space-between; align-items: end; gap: 6mm; overflow-wrap: anywhere; }
footer img { flex: none; width: 30mm; height: 30mm; }
.answer { margin-bottom: 3mm; break-inside: avoid; }
"""


@dataclass(frozen=True, eq=False)
class Sheet:
    """One page: what it says, what it asks, what is given, the answer for the last pages, and where it is shown."""

    title: str
    sentence: str
    question: str
    answer: str
    address: str
    options: tuple[str, ...] = ()
    given: Table | None = None


def handout(title: str, sheets: Sequence[Sheet], language: str) -> str:
    """The whole document, in a language of the catalogue."""
    said = catalogue(language)
    pages = [_page(sheet, number, said["tour.handout_answer"]) for number, sheet in enumerate(sheets, 1)]
    answers = "".join(
        f'<p class="answer"><b>{number}. {escape(sheet.title)}</b><br>{escape(sheet.answer)}</p>'
        for number, sheet in enumerate(sheets, 1)
    )
    last = f"<section><h1>{escape(said['tour.handout_answers'])}</h1><div>{answers}</div></section>"
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="{language}"><head>{head}</head><body>{"".join(pages)}{last}</body></html>'


def table_html(table: Table) -> str:
    """Numbers with their labels as a table of HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *table.columns))
    rows = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{_number(one, table.digits)}</td>' for one in row)}</tr>"
        for name, row in zip(table.rows, table.values, strict=True)
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def qr(address: str) -> str:
    """An address as a QR code, an image that holds its own data."""
    return f'<img alt="" src="{segno.make(address, error="m").svg_data_uri(border=2)}">'


def _page(sheet: Sheet, number: int, answer: str) -> str:
    given = "" if sheet.given is None else table_html(sheet.given)
    options = "".join(f"<li>{escape(one)}</li>" for one in sheet.options)
    return (
        f'<section><p class="small">{number}</p><h1>{escape(sheet.title)}</h1><p>{escape(sheet.sentence)}</p>{given}'
        f"<h2>{escape(sheet.question)}</h2>{f'<ol>{options}</ol>' if options else ''}"
        f'<div class="lines"><p>{escape(answer)}</p><div class="line"></div><div class="line"></div></div>'
        f"<footer><span>{escape(sheet.address)}</span>{qr(sheet.address)}</footer></section>"
    )


def _number(value: float, digits: int) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}f}"
