"""Tracks over the letters of a sequence: what attention reached beside what changed the answer, on one axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.errors import RecordError
from transformer.messages import words
from transformer.plots.labels import safe
from transformer.plots.theme import Theme, ink, legend, scale, theme

NAMED_LETTERS = 120
"""Up to so many letters are written under the axis; more are numbered, and each is named on hover."""

GAP = 46
"""Pixels between two tracks, for the title of the lower one."""

HEIGHTS = 150, 130
"""Pixels of the track of attention, and of that of mutations."""

_WIDTH_COLOURS = ("#2a788e", "#d98a3d", "#7a5195", "#5f9e4a", "#b5495b", "#8c8c8c")
"""One for each window width, told apart also by colour-blind readers; they repeat beyond six."""


@dataclass(frozen=True)
class Span:
    """A stretch of letters to point out; `start` counts from 0, `stop` is the first one after it."""

    start: int
    stop: int
    name: str


@dataclass(frozen=True, eq=False)
class Tracks:
    """What is drawn over the letters of `text`.

    `attention[i]` is what windows of `widths[i]` brought each letter, in multiples of the even share, so that the
    stack is the whole. `change` (row = new letter of `letters`) is in nats of the log-odds of `label`; None leaves its
    track out. `places` are the letters of a longer sequence that these are.
    """

    text: str
    widths: tuple[int, ...]
    attention: Float[np.ndarray, "width letter"]
    label: str
    letters: str = ""
    change: Float[np.ndarray, "new letter"] | None = None
    spans: tuple[Span, ...] = ()
    places: Sequence[int] = ()

    @property
    def numbers(self) -> Sequence[int]:
        """The place (from 1) of each letter in the sequence that it is of: `places`, else its place in `text`."""
        return self.places or range(1, len(self.text) + 1)


def sequence_tracks(tracks: Tracks, *, dark: bool = False) -> go.Figure:
    """Attention received above the effect of every mutation, where that is known.

    The scale of the mutations is centred at 0 and reaches as far as the largest change; its colours are beside them.

    Raises:
        RecordError: a track does not have a value for each letter.
    """
    drawn = {"attention": tracks.attention} | ({} if tracks.change is None else {"mutations": tracks.change})
    for name, values in drawn.items():
        if values.shape[-1] != len(tracks.text):
            raise RecordError("track_of_other_length", track=name, found=values.shape[-1], letters=len(tracks.text))
    colours = theme(dark)
    heights = HEIGHTS[: len(drawn)]
    total, above = sum(heights) + GAP * (len(drawn) - 1), 18 * bool(tracks.spans)
    figure = go.Figure(
        layout=dict(
            height=total + 130,
            margin=dict(l=54, r=66 if "mutations" in drawn else 12, t=64 + above, b=66, pad=0),
            barmode="stack", bargap=0.1, hovermode="closest", showlegend=True,
            legend=legend(y=1 + (34 + above) / total, yanchor="bottom"),
            xaxis=_letters_axis(tracks, "mutations" in drawn),
            yaxis=dict(domain=[1 - HEIGHTS[0] / total, 1], fixedrange=True, anchor="x"),
        )
    )  # fmt: skip
    names = [f"{letter} {place:,}" for letter, place in zip(tracks.text, tracks.numbers, strict=True)]
    _add_title(figure, words("figure_tracks_attention"), 1.0, 20 if above else 4)
    _add_attention(figure, tracks, names, colours)
    if tracks.change is not None:
        top = HEIGHTS[1] / total
        _add_title(figure, words("figure_tracks_mutations", label=safe(tracks.label)), top, 4)
        _add_mutations(figure, tracks, names, tracks.change, top, colours)
    for span in tracks.spans:
        for axis in ("y", "y2")[: len(drawn)]:  # each by itself, as the titles are between them
            figure.add_shape(
                type="rect", xref="x", yref=f"{axis} domain", x0=span.start - 0.5, x1=span.stop - 0.5,
                y0=0, y1=1, line=dict(color=colours.chosen, width=1.5), fillcolor="rgba(0,0,0,0)",
            )  # fmt: skip
        side, edge = _beside(tracks.spans, span)
        figure.add_annotation(
            text=safe(span.name), xref="x", yref="paper", x=edge, xanchor=side, y=1, yanchor="bottom",
            showarrow=False, font=dict(color=colours.chosen),
        )  # fmt: skip
    return ink(figure, colours)


def _add_title(figure: go.Figure, title: str, y: float, shift: int) -> None:
    figure.add_annotation(
        text=title,
        xref="paper",
        yref="paper",
        x=0,
        y=y,
        yanchor="bottom",
        xanchor="left",
        yshift=shift,
        showarrow=False,
    )


def _add_attention(figure: go.Figure, tracks: Tracks, names: Sequence[str], colours: Theme) -> None:
    for i, (width, values) in enumerate(zip(tracks.widths, tracks.attention, strict=True)):
        windows = words("figure_tracks_windows", width=width)
        figure.add_bar(
            x=np.arange(len(values)), y=values, customdata=names, name=windows,
            marker=dict(color=_WIDTH_COLOURS[i % len(_WIDTH_COLOURS)], line=dict(width=0)),
            hovertemplate=f"%{{customdata}}<br>{windows}: %{{y:.3f}}<extra></extra>",
        )  # fmt: skip
    figure.add_shape(
        type="line", xref="x domain", x0=0, x1=1, y0=1, y1=1, line=dict(color=colours.faint, width=1, dash="dot")
    )


def _add_mutations(
    figure: go.Figure,
    tracks: Tracks,
    names: Sequence[str],
    change: Float[np.ndarray, "new letter"],
    top: float,
    colours: Theme,
) -> None:
    given = np.array([[letter == new for letter in tracks.text] for new in tracks.letters])
    limit, count, text = float(np.abs(change).max()) or 1.0, len(tracks.letters), dict(color=colours.ink)
    figure.update_layout(
        yaxis2=dict(
            domain=[0, top], fixedrange=True, anchor="x", tickvals=list(range(count)), ticktext=list(tracks.letters),
            showgrid=False, range=[count - 0.5, -0.5],
        )
    )  # fmt: skip
    figure.add_heatmap(
        x=np.arange(len(tracks.text)),
        y=np.arange(count),
        z=np.where(given, np.nan, change),
        text=[[words("figure_tracks_mutation", letter=name, new=new) for name in names] for new in tracks.letters],
        zmin=-limit, zmax=limit, colorscale=scale(colours.diverging), hoverongaps=False, yaxis="y2",
        colorbar=dict(
            orientation="v", x=1, xanchor="left", xpad=6, y=top / 2, yanchor="middle", ypad=0,
            len=0.85 * top, thickness=10, outlinewidth=0,
            tickvals=[-limit, 0, limit], ticktext=[f"{-limit:.2g}", "0", f"+{limit:.2g}"],
            title=dict(text=words("figure_tracks_unit"), side="right", font=text), tickfont=text,
        ),
        hovertemplate="%{text}<br>" + words("figure_tracks_log_odds", value="%{z:.3f}") + "<extra></extra>",
    )  # fmt: skip
    rows, columns = np.nonzero(given)
    figure.add_scatter(
        x=columns, y=rows, yaxis="y2", mode="markers", showlegend=False, hoverinfo="skip",
        marker=dict(symbol="circle", size=3, color=colours.faint),
    )  # fmt: skip


def _beside(spans: Sequence[Span], span: Span) -> tuple[str, float]:
    """Where a span's name is anchored, and at which letter: away from the span that touches it, so both can be read."""
    if any(other.start == span.stop for other in spans):
        return "right", span.stop - 0.5
    if any(other.stop == span.start for other in spans):
        return "left", span.start - 0.5
    return "center", (span.start + span.stop - 1) / 2


def _letters_axis(tracks: Tracks, has_mutations: bool) -> dict[str, Any]:
    """The letters below the lowest track; its title says what the dots of mutations are, as a legend has no room."""
    text, numbers = tracks.text, tracks.numbers
    dots = f" (\u2022 {words('figure_tracks_given')})" if has_mutations else ""
    axis: dict[str, Any] = dict(
        range=[-0.5, len(text) - 0.5], showgrid=False, anchor="y2" if has_mutations else "y",
        title=words("figure_tracks_letter") + dots,
    )  # fmt: skip
    if len(text) > NAMED_LETTERS:
        step = 10 ** max(1, len(str(len(text))) - 2) * 5
        positions = [0, *range(step - 1, len(text), step)]
        return axis | dict(tickvals=positions, ticktext=[str(numbers[i]) for i in positions])
    return axis | dict(
        tickvals=list(range(len(text))), ticktext=letter_ticks(text, numbers), tickangle=0, tickfont=dict(size=10)
    )


def letter_ticks(text: str, numbers: Sequence[int]) -> list[str]:
    """What stands under an axis of letters: each letter, and the place of the first one and of every tenth."""
    every = 10 if numbers[-1] < 1_000 else 20
    has_room = all(place % every for place in numbers[1:4])
    return [
        f"{letter}<br>{place}" if place % every == 0 or (i == 0 and has_room) else letter
        for i, (letter, place) in enumerate(zip(text, numbers, strict=True))
    ]
