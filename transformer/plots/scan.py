"""The track of a scan: what a classifier says along a sequence, the given strand upwards, the other one downwards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.messages import words
from transformer.plots.labels import safe
from transformer.plots.theme import ink, legend, theme


@dataclass(frozen=True, eq=False)
class ScanPicture:
    """What is drawn: `values[s, c, i]` for strand s of `signs` and class c at letter `positions[i]` (from 1).

    Each value is the largest of `together` windows, the first of which has this position. `letters` are those from
    `positions[0]` on where every position is one letter, else empty.
    """

    sequence: str
    classes: Sequence[str]
    signs: str
    positions: Sequence[int]
    values: Float[np.ndarray, "strand class position"]
    together: int
    threshold: float
    letters: str = ""


def scan_track(picture: ScanPicture, *, dark: bool = False) -> go.Figure:
    """One line a class and strand; the dotted line is the threshold. Gaps are windows that are not judged."""
    colours = theme(dark)
    figure = go.Figure()
    one = picture.together == 1
    read = words("figure_scan_window") if one else words("figure_scan_largest", count=picture.together)
    for row, sign in enumerate(picture.signs):
        strand = words("figure_scan_given" if sign == "+" else "figure_scan_other")
        for column, name in enumerate(picture.classes):
            values = picture.values[row, column]
            figure.add_trace(
                go.Scatter(
                    x=list(picture.positions),
                    y=values if sign == "+" else -values,
                    customdata=values,
                    name=f"{safe(name)} {sign}",
                    mode="lines",
                    line=dict(
                        color=colours.series[column % len(colours.series)], width=1.5, shape="hvh",
                        dash="solid" if sign == "+" else "dash",
                    ),
                    hovertemplate=f"{safe(name)}, {strand}<br>%{{x:,}}: %{{customdata:.3f}}<br>{read}<extra></extra>",
                )
            )  # fmt: skip
    both = "+" in picture.signs and "-" in picture.signs
    for side in [1, -1] if both else [1 if "+" in picture.signs else -1]:
        figure.add_hline(y=side * picture.threshold, line=dict(color=colours.faint, width=1, dash="dot"))
    low, high = (0 if picture.signs == "+" else -1.02), (0 if picture.signs == "-" else 1.02)
    ticks = [tick for tick in (-1, -0.5, 0, 0.5, 1) if low <= tick <= high]
    axis: dict[str, object] = dict(title=words("figure_scan_axis", sequence=safe(picture.sequence)), tickformat=",d")
    if picture.letters:
        axis |= dict(tickvals=list(picture.positions), ticktext=list(picture.letters), tickangle=0)
    figure.update_layout(

        height=340,
        margin=dict(l=56, r=12, t=28, b=56),
        xaxis=axis,
        yaxis=dict(
            title=words("figure_scan_probability"), range=[low, high], tickvals=ticks,
            ticktext=[f"{abs(tick):g}" for tick in ticks],
        ),
        legend=legend(y=1.02, yanchor="bottom"),
    )  # fmt: skip
    return ink(figure, colours)
