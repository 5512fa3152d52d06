"""What changes did to log-probabilities: bars for each written token around zero, and grids of many changes."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from transformer.figures import labels
from transformer.figures.theme import diverging, ink, theme
from transformer.messages import words

_BAR = 24
"""Pixels from one bar to the next."""

LEAST_SCALE = 0.5
"""Nats that the scale shows on both sides at least, so that next to nothing looks like next to nothing."""

ROOM = 1.5
"""The scale reaches so much further than the longest bar, for the number at its end."""


def effect_bars(
    tokens: Sequence[str],
    changes: Sequence[float],
    step: int | None,
    *,
    of_class: str | None = None,
    dark: bool = False,
) -> go.Figure:
    """Bars of the change of log p (nats), a row a token, on a scale that is symmetric about 0; `step` is marked.

    `of_class` names a class to whose log-odds they were added instead.
    """
    colours = theme(dark)
    title = words("figure_change_of_log_p")
    if of_class is not None:
        title = words("figure_added_to_log_odds", name=labels.isolated(of_class))
    most = max([LEAST_SCALE, *(abs(change) for change in changes)]) * ROOM
    names = [labels.short(token) for token in tokens]
    if step is not None:
        names[step] = f"<b>{names[step]}</b>"
    low, high = colours.diverging[0][1], colours.diverging[-1][1]
    figure = go.Figure(
        go.Bar(
            x=list(changes),
            y=list(range(len(names))),
            orientation="h",
            text=[f"<b>{change:+z.2f}</b>" if i == step else f"{change:+z.2f}" for i, change in enumerate(changes)],
            textposition="outside",
            cliponaxis=False,
            customdata=list(range(len(names))),
            hovertext=[labels.isolated(token) for token in tokens],
            hovertemplate="%{hovertext}<br>%{x:.4f}<extra></extra>",
            marker=dict(color=[low if change < 0 else high for change in changes]),
        )
    )
    figure.layout = dict(
        height=72 + _BAR * len(names),
        margin=dict(l=round(labels.width(list(tokens))) + 24, r=24, t=8, b=52),
        bargap=0.25,
        showlegend=False,
        xaxis=dict(range=[-most, most], title=title, fixedrange=True, zeroline=True),
        yaxis=dict(
            tickvals=list(range(len(names))),
            ticktext=names,
            range=[len(names) - 0.5, -0.5],
            showgrid=False,
            fixedrange=True,
        ),
    )
    return ink(figure, colours)


def effect_grid(
    values: Float[np.ndarray, "row column"], rows: Sequence[str], columns: Sequence[str], *, dark: bool = False
) -> go.Figure:
    """Changes of log p (nats) as a grid, on one diverging scale around 0 whose ends are written; NaN is left empty.

    `customdata` of a cell is its row and column.
    """
    colours = theme(dark)
    most = max(LEAST_SCALE, float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0)
    places = np.stack(np.meshgrid(np.arange(len(rows)), np.arange(len(columns)), indexing="ij"), axis=-1)
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=list(range(len(columns))),
            y=list(range(len(rows))),
            customdata=places,
            zmin=-most,
            zmax=most,
            colorscale=diverging(colours),
            xgap=1,
            ygap=1,
            hovertemplate="%{z:.3f}<extra></extra>",
            colorbar=dict(
                title=dict(text=words("figure_change_of_log_p"), side="right"),
                tickvals=[-most, 0, most],
                ticktext=[f"{-most:.2f}", "0", f"+{most:.2f}"],
                thickness=12,
                outlinewidth=0,
            ),
        )
    )
    figure.layout = dict(
        height=110 + _BAR * len(rows),
        margin=dict(
            l=round(labels.width(list(rows))) + 24, r=8, t=round(labels.width(list(columns)) * 0.75) + 24, b=12
        ),
        xaxis=dict(
            tickvals=list(range(len(columns))),
            ticktext=[labels.short(one) for one in columns],
            side="top",
            tickangle=-45,
            showgrid=False,
            fixedrange=True,
        ),
        yaxis=dict(
            tickvals=list(range(len(rows))),
            ticktext=[labels.short(one) for one in rows],
            autorange="reversed",
            showgrid=False,
            fixedrange=True,
        ),
    )
    return ink(figure, colours)
