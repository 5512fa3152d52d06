"""Sequence logos: letters stacked by how often they stand at a position, as tall as the position is informative.

Source: Schneider and Stephens 1990, "Sequence logos"; Schneider et al. 1986 (the small-sample correction).
"""

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from jaxtyping import Float, Int

from ..distribution import extra
from ..messages import words

_COLOURS = {"A": "#3b8f4b", "C": "#3d6fb5", "G": "#d08a1d", "T": "#c0392b"}
"""The usual colours of bases; shape, not colour, tells the letters."""

_INK = "#7d868f"
"""Of the axes, on light and on dark."""

WIDE, TALL, LEFT, BELOW = 20.0, 110.0, 46.0, 18.0
"""Units of a column, of the most that one can hold, and of the room for both axes."""


def letter_counts(texts: Sequence[str], letters: str) -> Int[np.ndarray, "letter position"]:
    """How often each letter stands at each place of texts of one length; other letters do not count."""
    rows = np.array([list(text) for text in texts])
    return np.array([(rows == letter).sum(axis=0) for letter in letters])


def heights(counts: Int[np.ndarray, "letter position"]) -> Float[np.ndarray, "letter position"]:
    """Each letter's share of the information of its place, in bits, less the correction (s - 1) / (2 n ln 2)."""
    with extra("plots"):
        from scipy.special import entr  # -p log p, 0 at 0; not at the top: the start of every page would wait for it

    n_letters, total = counts.shape[0], counts.sum(axis=0)
    entropy = entr(counts / total.clip(min=1)).sum(axis=0) / math.log(2)
    correction = (n_letters - 1) / (2 * math.log(2) * total.clip(min=1))
    information = (math.log2(n_letters) - entropy - correction).clip(min=0)
    return counts / total.clip(min=1) * np.where(total > 0, information, 0.0)


def logo(letters: str, bits: Float[np.ndarray, "letter position"], positions: Sequence[str]) -> str:
    """The logo as SVG: `bits[i, p]` of letter i at position p, the largest on top; `positions` name the columns.

    The scale is fixed from 0 to the most that a position can hold (2 bits for DNA), so logos compare.
    """
    most = math.log2(len(letters))
    parts = list[str]()
    for place, (column, name) in enumerate(zip(bits.T, positions, strict=True)):
        left, base = LEFT + WIDE * place, TALL
        for i in np.argsort(column, kind="stable"):
            height = TALL * float(column[i]) / most
            base -= height
            if height > 0.2:
                parts.append(_letter(letters[i], left, base, height))
        parts.append(_text(name, left + WIDE / 2, TALL + 14, "middle"))
    for value in (0.0, most):
        label = words("figure_logo_bits", bits=value)
        parts.append(_text(label, LEFT - 5, TALL * (1 - value / most) + (10 if value else 0), "end"))
    axis = f'<path d="M{LEFT - 1} 0V{TALL}H{LEFT + WIDE * len(positions)}" fill="none" stroke="{_INK}"/>'
    size = f"{LEFT + WIDE * len(positions):g} {TALL + BELOW:g}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">{axis}{"".join(parts)}</svg>'


def _letter(letter: str, left: float, top: float, height: float) -> str:
    """A letter as its outline, as wide as its column; one without an outline as a block that bears its name."""
    outline = _OUTLINES.get(letter)
    if outline is None:
        block = f'<rect x="{left + 1:g}" y="{top:.3f}" width="{WIDE - 2:g}" height="{height:.3f}" fill="#c3c9cf"/>'
        return block + _text(letter, left + WIDE / 2, top + height / 2 + 4, "middle")
    place = f"translate({left + 1:g} {top + height:.3f}) scale({WIDE - 2:g} {-height:.4f})"
    return f'<path d="{outline}" transform="{place}" fill="{_COLOURS[letter]}"/>'


def _text(text: str, x: float, y: float, anchor: str) -> str:
    style = f'font-family="sans-serif" font-size="11" fill="{_INK}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>'


_C = "M.87 .83A.5 .5 0 1 1 .87 .17L.72 .27A.29 .34 0 1 0 .72 .73Z"
_OUTLINES = {
    "A": "M0 0H.22L.31 .24H.69L.78 0H1L.61 1H.39Z M.37 .4L.5 .78L.63 .4Z",
    "C": _C,
    "G": f"{_C}M.54 .36H.79V.08H.98V.52H.54Z",
    "T": "M.39 0H.61V.85H1V1H0V.85H.39Z",
}
"""Outlines of the bases in a unit square whose y leads upwards; the hole of A runs the other way."""
