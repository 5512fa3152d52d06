"""Attention between patches of a picture, laid over it: one head large, or all heads of a layer small.

What a query gives to each patch is drawn over the patch, see-through. The tokens before the patches have no place in
the picture; a caption says what they receive. All heads of a layer have one scale.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.figures import labels
from transformer.figures.theme import ink, sequential, theme
from transformer.messages import words

SIDE, THUMBNAIL = 460, 84
"""Pixels along the longer side of the large picture, and of each small one."""

VEIL = 0.62
"""How much of the picture the colours hide."""

Weights = Float[np.ndarray, "row column"]


def over_picture(
    png: bytes,
    weights: Weights,
    names: Sequence[str],
    *,
    title: str,
    selected: tuple[int, int] | None = None,
    relative: bool = False,
    dark: bool = False,
) -> go.Figure:
    """One query's weights over the picture `png`; `names` are those of the patches, row by row.

    The scale is 0 to 1, or up to the largest weight where it is `relative` and any is above 0, which the colour bar
    says. `selected` (row, column) is the patch that looks. The points of the trace `patches` carry `customdata` (row,
    column).
    """
    colours, (rows, columns) = theme(dark), weights.shape
    largest = float(weights.max()) if relative else 0.0
    bar = words("patch_bar_relative", most=largest) if largest else words("patch_bar")
    places = [(row, column) for row in range(rows) for column in range(columns)]
    hovers = [f"{labels.isolated(name)}: {weights[place]:.4f}" for name, place in zip(names, places, strict=True)]
    cell = SIDE / max(rows, columns)
    figure = go.Figure(
        [
            _veil(weights, largest or 1.0, colorbar=dict(
                title=dict(text=bar, side="top"), orientation="h", thickness=12, len=1, y=0, yanchor="top",
            )),
            go.Scatter(
                name="patches", x=[column for _, column in places], y=[row for row, _ in places], mode="markers",
                marker=dict(symbol="square", size=max(4, cell - 1), opacity=0), customdata=places, hovertext=hovers,
                hovertemplate="%{hovertext}<extra></extra>", showlegend=False,
            ),
        ]
    )  # fmt: skip
    if selected is not None:
        row, column = selected
        box = dict(x0=column - 0.5, x1=column + 0.5, y0=row - 0.5, y1=row + 0.5)
        figure.add_shape(type="rect", **box, line=dict(color=colours.chosen, width=3))
    width, height = round(SIDE * min(1, columns / rows)), round(SIDE * min(1, rows / columns))
    figure.update_layout(
        title=labels.safe(title), width=width + 20, height=height + 130, clickmode="event",
        margin=dict(l=10, r=10, t=50, b=80), images=[_image(png, rows, columns, "x", "y")],
        **_axes("xaxis", "yaxis", rows, columns),
    )  # fmt: skip
    return ink(figure, colours)


def heads_over_picture(
    png: bytes,
    weights: Float[np.ndarray, "head row column"],
    *,
    selected: int | None = None,
    per_row: int = 3,
    dark: bool = False,
) -> go.Figure:
    """What one query looks at in every head of a layer, small and on one scale: 0 to the largest weight of all.

    Where all are 0, it ends at 1. The points of the trace `heads` carry `customdata` (head,).
    """
    colours, (count, rows, columns) = theme(dark), weights.shape
    most = float(weights.max()) or 1.0
    lines = -(-count // per_row)
    figure, layout, images = go.Figure(), dict[str, Any](), []
    side, gap, caption = (THUMBNAIL * rows / columns), 8, 22
    width, height = per_row * (THUMBNAIL + gap), lines * (side + caption)
    wide, tall = THUMBNAIL / width, side / height
    for head in range(count):
        line, place = divmod(head, per_row)
        left, top = place / per_row, 1 - (line * (side + caption) + caption) / height
        number = "" if head == 0 else str(head + 1)
        x, y = f"x{number}", f"y{number}"
        figure.add_trace(_veil(weights[head], most, xaxis=x, yaxis=y, showscale=False, hoverinfo="skip"))
        figure.add_trace(
            go.Scatter(
                x=[(columns - 1) / 2], y=[(rows - 1) / 2], xaxis=x, yaxis=y, mode="markers", customdata=[(head,)],
                marker=dict(symbol="square", size=THUMBNAIL * 0.8, opacity=0), showlegend=False,
                hovertemplate=f"{words('patch_most', head=head, most=float(weights[head].max()))}<extra></extra>",
            )
        )  # fmt: skip
        images.append(_image(png, rows, columns, x, y))
        layout |= _axes(f"xaxis{number}", f"yaxis{number}", rows, columns, (left, left + wide), (top - tall, top))
        figure.add_annotation(
            text=f"<b>H{head}</b>" if head == selected else f"H{head}", x=left, y=top, xref="paper", yref="paper",
            xanchor="left", yanchor="bottom", showarrow=False,
            font=dict(color=colours.chosen if head == selected else colours.ink),
        )  # fmt: skip
    figure.update_layout(
        images=images, width=round(width), height=round(height), clickmode="event",
        margin=dict(l=0, r=0, t=0, b=0), **layout,
    )  # fmt: skip
    return ink(figure, colours)


def _veil(weights: Weights, most: float, **more: Any) -> go.Heatmap:
    known = dict(z=weights, zmin=0, zmax=most, colorscale=sequential(), opacity=VEIL, hoverinfo="skip")
    return go.Heatmap(**{**known, **more})


def _image(png: bytes, rows: int, columns: int, x: str, y: str) -> dict[str, Any]:
    """The picture under the patches, whose first one has its middle at (0, 0)."""
    return dict(
        source=f"data:image/png;base64,{base64.b64encode(png).decode()}", xref=x, yref=y, x=-0.5, y=-0.5,
        sizex=columns, sizey=rows, sizing="stretch", layer="below",
    )  # fmt: skip


def _axes(
    x: str, y: str, rows: int, columns: int,
    across: tuple[float, float] = (0, 1), down: tuple[float, float] = (0, 1),
) -> dict[str, Any]:  # fmt: skip
    """Axes without a mark, on which a patch is as wide as it is high in the picture; rows go down."""
    plain = dict(visible=False, fixedrange=True, constrain="domain")
    return {
        x: dict(
            plain, range=[-0.5, columns - 0.5], domain=across, anchor=y.replace("axis", ""), constraintoward="left"
        ),
        y: dict(
            plain, range=[rows - 0.5, -0.5], domain=down, anchor=x.replace("axis", ""),
            scaleanchor=x.replace("axis", ""), constraintoward="top",
        ),
    }  # fmt: skip
