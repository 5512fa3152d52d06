"""Written tokens in a row, each with its probability; the runners-up show on hover or keyboard focus."""

from collections.abc import Sequence
from html import escape

import streamlit as st

from transformer.plots.axes import WORD_START
from transformer.text.steps import Step
from ui.texts import t

RUNNERS_UP = 5
"""How many candidates the hover shows."""

_STYLE = """
<style>
.strip { display: flex; flex-wrap: wrap; gap: .25rem .3rem; align-items: flex-start; margin: .2rem 0 .6rem; }
.strip .token { position: relative; padding: .12rem .45rem .2rem; border-radius: .45rem; outline-offset: 1px;
  border: 1px solid color-mix(in srgb, currentColor 18%, transparent); cursor: help; text-align: center; }
.strip .token b { display: block; font-weight: 600; white-space: pre; max-width: 16rem; overflow: hidden;
  text-overflow: ellipsis; unicode-bidi: isolate; }
.strip .token.current { border-color: currentColor; box-shadow: inset 0 0 0 1px currentColor; }
.strip .space { opacity: .7; font-weight: 400; font-style: normal; }
.strip .token small { opacity: .75; font-variant-numeric: tabular-nums; }
.strip .bar { display: block; height: 3px; border-radius: 2px; background: #0f766e; margin-top: 1px; }
.strip .others { display: none; position: absolute; z-index: 1000; left: 0; top: 100%; min-width: 11rem;
  padding: .5rem .6rem; border-radius: .5rem; text-align: left; font-size: .85rem;
  background: Canvas; color: CanvasText;
  border: 1px solid color-mix(in srgb, currentColor 30%, transparent); box-shadow: 0 4px 14px rgb(0 0 0 / .25); }
.strip .token:hover .others, .strip .token:focus .others, .strip .token:focus-within .others { display: block; }
.strip .others div { display: flex; justify-content: space-between; gap: 1rem; white-space: pre; }
.strip .others .chosen { font-weight: 700; }
</style>
"""


def token_strip(steps: Sequence[Step], current: int | None = None) -> None:
    """Draw the tokens of `steps`, the `current` one outlined; their texts enter the page escaped."""
    tokens = "".join(_token(step, is_current=place == current) for place, step in enumerate(steps))
    st.html(_STYLE + f'<div class="strip" data-testid="written-tokens">{tokens}</div>')


def _token(step: Step, is_current: bool) -> str:
    rows = "".join(
        _candidate(i, candidate.text, candidate.probability, chosen=i == step.rank)
        for i, candidate in enumerate(step.likeliest[:RUNNERS_UP])
    )
    if step.rank >= RUNNERS_UP:
        rows += _candidate(step.rank, step.text, step.probability, chosen=True)
    now, said = (" current", ' aria-current="step"') if is_current else ("", "")
    return (
        f'<span class="token{now}" tabindex="0"{said}>'
        f"<b>{_piece(step.text)}</b><small>{step.probability:.2f}</small>"
        f'<i class="bar" style="width:{100 * step.probability:.0f}%"></i>'
        f'<span class="others" role="tooltip">{escape(t("translate.likeliest"))}{rows}</span></span>'
    )


def _candidate(rank: int, text: str, probability: float, *, chosen: bool) -> str:
    mark = "chosen" if chosen else "other"
    return f'<div class="{mark}"><span>{rank + 1}. {_piece(text)}</span><span>{probability:.3f}</span></div>'


def _piece(text: str) -> str:
    """A piece with the mark of its leading space in the background."""
    if text.startswith(WORD_START) and len(text) > 1:
        return f'<i class="space">{WORD_START}</i>{escape(text[1:])}'
    return escape(text)
