"""The track of a scan: what a classifier says along a sequence, the given strand upwards, the other one downwards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from transformer.messages import words
from transformer.plots.labels import safe
from transformer.plots.sequence_tracks import letter_ticks
from transformer.plots.theme import Theme, ink, legend, theme

GENES = 1.14
"""How high exons are drawn; the largest probability is 1."""


@dataclass(frozen=True)
class Mark:
    """A call to point out: its letter (from 1), strand, class, probability, and whether an annotation knows it."""

    place: int
    sign: str
    column: int
    probability: float
    said: str
    known: bool | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Arrow:
    """A site that a change gains or loses: its probability before and after."""

    place: int
    sign: str
    before: float
    after: float
    said: str


@dataclass(frozen=True)
class Exons:
    """One transcript: letters (from 1) of each exon, first and last."""

    name: str
    exons: Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class ScanPicture:
    """What is drawn: `values[s, c, i]` for strand s of `signs` and class c at letter `places[s, c, i]` (from 1).

    Each value is the largest of `together` windows. Stems (`is_sparse`) stand where a window was read; otherwise a line
    joins the values. `shown` are the first and last letter of the axis.
    """

    sequence: str
    classes: Sequence[str]
    signs: str
    places: Int[np.ndarray, "strand class position"]
    values: Float[np.ndarray, "strand class position"]
    together: int
    threshold: float
    shown: tuple[int, int]
    is_sparse: bool = False
    marks: Sequence[Mark] = ()
    arrows: Sequence[Arrow] = ()
    genes: Sequence[Exons] = ()
    letters: str = ""


def scan_track(picture: ScanPicture, *, dark: bool = False) -> go.Figure:
    """Stems or one line a class and strand; the dotted line is the threshold; calls are dots, known ones filled."""
    colours = theme(dark)
    figure = go.Figure()
    for row, sign in enumerate(picture.signs):
        for column in range(len(picture.classes)):
            _add_values(figure, picture, row, sign, column, colours)
    both = picture.signs == "+-"
    for side in [1, -1] if both else [1 if "+" in picture.signs else -1]:
        figure.add_hline(y=side * picture.threshold, line=dict(color=colours.faint, width=1, dash="dot"))
    _add_marks(figure, picture, colours)
    for arrow in picture.arrows:
        side = 1 if arrow.sign == "+" else -1
        figure.add_annotation(
            x=arrow.place, y=side * arrow.after, ax=arrow.place, ay=side * arrow.before, axref="x", ayref="y",
            showarrow=True, arrowhead=2, arrowwidth=3, arrowcolor=colours.chosen, hovertext=safe(arrow.said), text="",
        )  # fmt: skip
    _add_genes(figure, picture, colours)
    low = 0 if picture.signs == "+" else -1.05
    high = 0 if picture.signs == "-" and not picture.genes else 1.05
    ticks = [tick for tick in (-1, -0.5, 0, 0.5, 1) if low <= tick <= high]
    axis: dict[str, object] = dict(
        title=words("figure_scan_axis", sequence=safe(picture.sequence)), tickformat=",d",
        range=[picture.shown[0] - 0.5, picture.shown[1] + 0.5],
    )  # fmt: skip
    if picture.letters:
        places = range(picture.shown[0], picture.shown[0] + len(picture.letters))
        axis |= dict(tickvals=list(places), ticktext=letter_ticks(picture.letters, places), tickangle=0)
    figure.update_layout(

        height=330,
        margin=dict(l=56, r=12, t=8, b=48),
        xaxis=axis,
        yaxis=dict(
            title=words("figure_scan_probability"), range=[low, GENES + 0.12 if picture.genes else high],
            tickvals=ticks, ticktext=[f"{abs(tick):g}" for tick in ticks], fixedrange=True,
        ),
        legend=legend(y=1.0, yanchor="bottom"),
        hovermode="closest",
    )  # fmt: skip
    return ink(figure, colours)


def _add_values(figure: go.Figure, picture: ScanPicture, row: int, sign: str, column: int, colours: Theme) -> None:
    """The probabilities of one class on one strand."""
    name, side = safe(picture.classes[column]), 1 if sign == "+" else -1
    strand = words("figure_scan_given" if sign == "+" else "figure_scan_other")
    read = words("figure_scan_window")
    if picture.together > 1:
        read = words("figure_scan_largest", count=picture.together)
    x, y = picture.places[row, column], picture.values[row, column]
    line = dict(color=colours.series[column % len(colours.series)], width=1.5, dash="solid" if sign == "+" else "dot")
    dots: dict[str, object] = dict(mode="lines", line=line | dict(shape="hvh"))
    if picture.is_sparse:
        known = ~np.isnan(y)
        x, y = x[known], y[known]
        figure.add_trace(
            go.Scatter(
                x=np.column_stack([x, x, np.full(len(x), np.nan)]).ravel(),
                y=np.column_stack([np.zeros(len(y)), side * y, np.full(len(y), np.nan)]).ravel(),
                mode="lines", line=line, hoverinfo="skip", name=f"{name} {sign}", legendgroup=f"{name}{sign}",
            )
        )  # fmt: skip
        dots = dict(mode="markers", marker=dict(size=4, color=line["color"]), showlegend=False)
    figure.add_trace(
        go.Scatter(
            x=x, y=side * y, customdata=y, name=f"{name} {sign}", legendgroup=f"{name}{sign}", **dots,
            unselected=dict(marker=dict(opacity=1)),
            hovertemplate=f"{name}, {strand}<br>%{{x:,}}: %{{customdata:.3f}}<br>{read}<extra></extra>",
        )
    )  # fmt: skip


def _add_marks(figure: go.Figure, picture: ScanPicture, colours: Theme) -> None:
    """A dot for each call: filled where an annotation knows it, and larger where it is the chosen one."""
    if not picture.marks:
        return
    colour = [colours.series[mark.column % len(colours.series)] for mark in picture.marks]
    figure.add_trace(
        go.Scatter(
            x=[mark.place for mark in picture.marks],
            y=[mark.probability if mark.sign == "+" else -mark.probability for mark in picture.marks],
            mode="markers",
            marker=dict(
                size=[16 if mark.chosen else 9 for mark in picture.marks],
                color=[one if mark.known else colours.paper for one, mark in zip(colour, picture.marks, strict=True)],
                line=dict(
                    width=2,
                    color=[
                        colours.chosen if mark.chosen else one
                        for one, mark in zip(colour, picture.marks, strict=True)
                    ],
                ),
            ),
            unselected=dict(marker=dict(opacity=1)),
            customdata=[f"{safe(mark.said)}<br>{mark.probability:.3f}" for mark in picture.marks],
            hovertemplate="%{customdata}<extra></extra>",
            showlegend=False,
        )
    )  # fmt: skip


def _add_genes(figure: go.Figure, picture: ScanPicture, colours: Theme) -> None:
    """Exons as boxes above the track, joined by the line of their introns."""
    for gene in picture.genes:
        first, last = gene.exons[0][0], gene.exons[-1][1]
        figure.add_shape(type="line", x0=first, x1=last, y0=GENES, y1=GENES, line=dict(color=colours.faint, width=1))
        for begin, end in gene.exons:
            figure.add_shape(
                type="rect", x0=begin - 0.5, x1=end + 0.5, y0=GENES - 0.05, y1=GENES + 0.05,
                line=dict(width=0), fillcolor=colours.faint,
            )  # fmt: skip
        middle = [(begin + end) / 2 for begin, end in gene.exons]
        figure.add_trace(
            go.Scatter(
                x=middle, y=[GENES] * len(middle), mode="markers", showlegend=False, marker=dict(opacity=0, size=12),
                customdata=[f"{safe(gene.name)}: {begin:,}-{end:,}" for begin, end in gene.exons],
                hovertemplate=words("figure_scan_exon", exon="%{customdata}") + "<extra></extra>",
            )
        )  # fmt: skip
