"""Charts: whether they are drawn for a dark page; bars as HTML tables, without a script: name, bar and number a row."""

from collections.abc import Sequence
from math import isfinite, isnan
from typing import Literal, NamedTuple

import streamlit as st

from heedmap.messages import words
from heedmap.plots.labels import readable, visible
from heedmap.text.beams import Step
from ui.texts import as_html

LEAST_SCALE = 0.5
"""Nats that a scale of changes shows on both sides at least, so that next to nothing looks like next to nothing."""

Look = Literal["", "second", "faint", "falls", "rises", "split", "line"]
"""What a bar stands for: `split` has the rest of the scale in a second colour. A `line` names points in a legend."""


def is_dark() -> bool:
    """Whether pages are light on dark, so that figures are drawn so too."""
    return st.context.theme.type == "dark"


class Bar(NamedTuple):
    """A row: a bar from 0 to `value` (NaN: none), the number as it is written, and what is said on hover."""

    name: str
    value: float
    number: str
    note: str = ""
    look: Look = ""
    mark: str = ""
    """What is written beside the number; the name of such a row is bold."""
    point: float | None = None
    """A second value, marked on the scale."""
    sets: str = ""
    """What a click on the row puts into the address that is open, such as `written=3`."""
    is_current: bool = False


def bars(
    rows: Sequence[Bar],
    title: str,
    *,
    key: str,
    high: float = 1.0,
    signed: bool = False,
    legend: Sequence[tuple[Look, str]] = (),
) -> None:
    """Draw rows on a scale from 0 (`signed`: from -`high`) to `high`; `title` says what is measured.

    Every text enters the page escaped. `legend` names looks.
    """
    low = -high if signed else 0.0
    ticks = (f"{low:.2f}", "0", f"+{high:.2f}") if signed else ("0", f"{high / 2:g}", f"{high:g}")
    scale = "".join(f"<span>{end}</span>" for end in ticks)
    named = "".join(f'<span class="{look}"><i></i><bdi>{as_html(visible(name))}</bdi></span>' for look, name in legend)
    below = f"<div>{named}</div>" if named else ""
    looks = "bars signed" if signed else "bars"
    st.html(
        f'<div class="{looks}" role="region" tabindex="0" aria-label="{as_html(title)}">'
        f'<table data-testid="bars-{key}"><caption>{as_html(title)}{below}</caption>'
        f"<tbody>{''.join(_row(row, low, high) for row in rows)}</tbody>"
        f'<tfoot aria-hidden="true"><tr><td></td><td><div>{scale}</div></td><td></td></tr></tfoot></table></div>'
    )


def effects(tokens: Sequence[str], changes: Sequence[float], title: str, *, key: str, step: int, sets: str) -> None:
    """The change (nats) of each token, on a scale that is symmetric about 0.

    A click on another than that of the `step` (from 0) puts it under `sets` into the address, from 1.
    """
    finite = [abs(change) for change in changes if isfinite(change)]
    rows = [
        Bar(
            token, change, signed(change), f"{token}: {change:.4f}", "falls" if change < 0 else "rises",
            sets="" if step == i else f"{sets}={i + 1}", is_current=step == i,
        )
        for i, (token, change) in enumerate(zip(tokens, changes, strict=True))
    ]  # fmt: skip
    bars(rows, title, key=key, high=max([LEAST_SCALE, *finite]), signed=True)


def signed(change: float) -> str:
    """A change with its sign and two places, or that there is none where they are all zero."""
    return words("figure_no_change") if abs(change) < 0.005 else f"{change:+.2f}"


def next_tokens(step: Step, *, key: str, is_next: bool = True) -> None:
    """The likeliest next tokens by their probabilities, on a scale from 0 to 1.

    The written token is marked; it has a bar also if it is not among the likeliest. The last bar is all other tokens
    together, so the bars sum to 1. Without `is_next` they are those of a position that the model has read: nothing is
    written there, and the marked one is what is measured.
    """
    mark = words("figure_written" if is_next else "figure_measured")
    ranked = words("figure_written_rank" if is_next else "figure_measured_rank", rank=step.rank + 1)
    found = [(candidate.text, candidate.probability) for candidate in step.likeliest]
    written = next((i for i, (text, _) in enumerate(found) if text == step.text), step.rank)
    if written >= len(found):
        written = len(found)
        found.append((step.text, step.probability))
    others = max(0.0, 1.0 - sum(probability for _, probability in found))
    rows = [_candidate(text, text, probability) for text, probability in found]
    rows[written] = rows[written]._replace(note=f"{rows[written].note}; {ranked}", look="second", mark=f"◀ {mark}")
    rows.append(_candidate(words("figure_all_others"), words("figure_all_other_tokens"), others)._replace(look="faint"))
    bars(rows, words("figure_next_token" if is_next else "figure_token_here"), key=key)


def _candidate(name: str, whole: str, probability: float) -> Bar:
    return Bar(name, probability, f"{probability:.3f}", f"{whole}: {words('figure_probability', value=probability)}")


def _row(row: Bar, low: float, high: float) -> str:
    def place(value: float) -> float:
        return 100 * min(max((value - low) / (high - low), 0.0), 1.0)

    start, end = sorted((place(0.0), place(0.0 if isnan(row.value) else row.value)))
    bar = f'<i style="left:{start:.2f}%;width:{end - start:.2f}%"></i>' if end > start else ""
    point = "" if row.point is None else f'<u style="left:{place(row.point):.2f}%"></u>'
    name = f"<bdi>{as_html(visible(readable(row.name)))}</bdi>"
    now = ' aria-current="true"' if row.is_current else ""
    sets = f' data-sets="{as_html(row.sets)}"' if row.sets else ""
    strong = " strong" if row.mark or row.is_current else ""
    number = f'<data value="{row.value!r}">{as_html(row.number)}</data> {as_html(row.mark)}'
    return (
        f'<tr class="{row.look}{strong}" title="{as_html(visible(row.note or row.name))}"{now}{sets}>'
        f'<th scope="row">{name}</th><td><div>{bar}{point}</div></td><td>{number}</td></tr>'
    )
