"""Labels: how the text of a token becomes safe to draw, short enough for an axis, and whole on hover.

Plotly reads some HTML and, where MathJax is loaded, TeX in every text it draws; a token is never either.
"""

import unicodedata
from collections.abc import Sequence

from ..messages import say, words
from .axes import WORD_START

LENGTH = 16
"""Longest label on an axis, in characters; the whole label is on hover."""

_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"
_JOINER = "\u200d"
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "{": "&#123;"})
_CONTROLS = str.maketrans({**{code: chr(0x2400 + code) for code in range(0x20)}, 0x7F: "␡"})


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


def readable(label: str) -> str:
    """A token without the mark of the space before it; a lone mark stays, since there is nothing else to see."""
    return label.replace(WORD_START, "") or label


def isolated(text: str) -> str:
    """A safe label for the middle of a line: right-to-left text in it does not reorder the rest of the line."""
    return f"{_ISOLATE}{safe(text)}{_END_ISOLATE}"


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


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it (accents, joiners, variants, skin tones)."""
    return unicodedata.category(character) in {"Mn", "Me", "Mc", "Cf", "Sk"}
