"""The calibration curve: how often a classifier is right, against how sure it says it is."""

from collections.abc import Sequence

import plotly.graph_objects as go

from transformer.figures.theme import ink, theme
from transformer.messages import words


def calibration_curve(
    confidence: Sequence[float], accuracy: Sequence[float], rows: Sequence[int], *, dark: bool = False
) -> go.Figure:
    """A dot a bin, its area by its rows; on the dotted diagonal probabilities mean what they say."""
    colours = theme(dark)
    figure = go.Figure()
    figure.add_shape(type="line", x0=0, y0=0, x1=1, y1=1, line=dict(color=colours.faint, width=1, dash="dot"))
    most = max(rows)
    figure.add_trace(
        go.Scatter(
            x=list(confidence),
            y=list(accuracy),
            customdata=list(rows),
            mode="markers",
            marker=dict(color=colours.accent, size=[6 + 20 * (count / most) ** 0.5 for count in rows]),
            hovertemplate=words("figure_calibration_bin", says="%{x:.3f}", right="%{y:.3f}", count="%{customdata}")
            + "<extra></extra>",
        )
    )
    figure.update_layout(
        height=320,
        margin=dict(l=56, r=12, t=12, b=56),
        xaxis=dict(title=words("figure_calibration_confidence"), range=[0, 1.04]),
        yaxis=dict(title=words("figure_calibration_accuracy"), range=[-0.04, 1.04]),
    )
    return ink(figure, colours)
