"""Labels: how the text of a token becomes safe to draw, short enough for an axis, and whole on hover.

Plotly reads some HTML and, where MathJax is loaded, TeX in every text it draws; a token is never either.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from transformer.messages import say, words
from transformer.plots.axes import WORD_START, Axis

LENGTH = 16
"""Longest label on an axis, in characters; the whole label is on hover."""

_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"
_JOINER = "\u200d"
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "{": "&#123;"})
_CONTROLS = str.maketrans({**{code: chr(0x2400 + code) for code in range(0x20)}, 0x7F: "␡"})


_CLOSING = r"\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f"
_PIECES = re.compile(rf"\s*(?:[\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+)[{_CLOSING}]*")
"""What a line may be broken before: a word, an East Asian character, each with the marks that close after it."""


def safe(text: str) -> str:
    """`text` as Plotly draws it letter by letter: no markup, TeX, placeholder or control character; never invisible.

    A message is said in the language of the context.
    """
    return visible(text).translate(_ENTITIES)


def visible(text: str) -> str:
    """`text` without control characters and never invisible, for places that escape it themselves."""
    text = say(text)
    if not text.replace(WORD_START, " ").strip():
        text = "␣" * len(text) or words("figure_empty_label")
    return text.translate(_CONTROLS)


def isolated(text: str) -> str:
    """A safe label for the middle of a line: right-to-left text in it does not reorder the rest of the line."""
    return f"{_ISOLATE}{safe(text)}{_END_ISOLATE}"


def joined(notes: Sequence[str]) -> str:
    """Notes as one text, in the language of the context."""
    return words("figure_note_separator").join(say(note) for note in notes)


def short(text: str, length: int = LENGTH) -> str:
    """A safe label of at most `length` characters; the end of a longer one becomes …, between whole characters."""
    text = say(text)
    if len(text) <= length:
        return safe(text)
    end = length - 1
    while end > 1 and (_continues(text[end]) or text[end - 1] == _JOINER):
        end -= 1
    return safe(text[:end]) + "…"


def width(labels: Sequence[str], size: float = 12) -> float:
    """About how wide the widest label is on an axis, in pixels; East Asian characters and emoji count as two."""
    cells = (sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in label[:LENGTH]) for label in map(say, labels))
    return 0.6 * size * max(cells, default=0)


NARROW = 340.0
"""Pixels that the page has for a title on a narrow screen; titles that are wider go on in a second line."""


def wrapped(text: str, room: float, size: float = 12) -> str:
    """A safe text in lines of about `room` pixels at most, broken at spaces and between East Asian characters."""
    lines: list[str] = [""]
    for piece in _PIECES.findall(say(text)):
        longer = lines[-1] + piece
        cells = sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in longer.rstrip())
        if lines[-1].strip() and 0.55 * size * cells > room:
            lines.append(piece.lstrip())
        else:
            lines[-1] = longer
    return "<br>".join(safe(line.rstrip()) for line in lines)


def whole(axis: Axis) -> dict[str, Any]:
    """Settings of a Plotly axis that names every position in full, as its hover does."""
    return dict(tickmode="array", tickvals=list(range(len(axis))), ticktext=[isolated(label) for label in axis.labels])


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it (accents, joiners, variants, skin tones)."""
    return unicodedata.category(character) in {"Mn", "Me", "Mc", "Cf", "Sk"}
