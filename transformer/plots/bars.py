"""Bars: changes of log-probabilities, agreement and sources of each token, a tensor's histogram; a grid of changes."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from transformer.messages import words
from transformer.plots import labels
from transformer.plots.axes import Axis
from transformer.plots.theme import ink, legend, scale, theme

ROW, COLUMN = 24, 34.0
"""Pixels from one bar to the next: down, and across."""

LEAST_SCALE = 0.5
"""Nats that the scale shows on both sides at least, so that next to nothing looks like next to nothing."""

ROOM = 1.5
"""The scale reaches so much further than the longest bar, for the number at its end."""

SHARES = [0, 0.25, 0.5, 0.75, 1]
"""The ticks of a scale from 0 to 1."""


def token_rows(
    names: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    hovers: Sequence[str],
    colours: Sequence[str],
    xaxis: dict[str, Any],
    *,
    hover: str = "%{hovertext}<extra></extra>",
    wide: Sequence[str],
    right: int,
    dark: bool,
) -> go.Figure:
    """A horizontal bar a token, the first on top, with `texts` at the ends; `wide` are the names without markup."""
    places = list(range(len(names)))
    figure = go.Figure(
        go.Bar(
            x=list(values), y=places, orientation="h", text=list(texts), textposition="outside", cliponaxis=False,
            customdata=places, hovertext=list(hovers), hovertemplate=hover, marker=dict(color=list(colours)),
        )
    )  # fmt: skip
    figure.update_layout(
        height=72 + ROW * len(names), margin=dict(l=round(labels.width(wide)) + 24, r=right, t=8, b=52), bargap=0.25,
        showlegend=False, xaxis=dict(**xaxis, fixedrange=True),
        yaxis=dict(
            tickvals=places, ticktext=list(names), range=[len(names) - 0.5, -0.5], showgrid=False, fixedrange=True
        ),
    )  # fmt: skip
    return ink(figure, theme(dark))


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
    low, high = colours.diverging[0], colours.diverging[-1]
    names, numbers = [labels.short(token) for token in tokens], [f"{change:+z.2f}" for change in changes]
    if step is not None:
        names[step], numbers[step] = f"<b>{names[step]}</b>", f"<b>{numbers[step]}</b>"
    return token_rows(
        names, changes, numbers, [labels.isolated(token) for token in tokens],
        [low if change < 0 else high for change in changes],
        dict(range=[-most, most], title=title, zeroline=True),
        hover="%{hovertext}<br>%{x:.4f}<extra></extra>", wide=tokens, right=24, dark=dark,
    )  # fmt: skip


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
            z=values, x=list(range(len(columns))), y=list(range(len(rows))), customdata=places, zmin=-most, zmax=most,
            colorscale=scale(colours.diverging), xgap=1, ygap=1, hovertemplate="%{z:.3f}<extra></extra>",
            colorbar=dict(
                title=dict(text=words("figure_change_of_log_p"), side="right"), thickness=12, outlinewidth=0,
                tickvals=[-most, 0, most], ticktext=[f"{-most:.2f}", "0", f"+{most:.2f}"],
            ),
        )
    )  # fmt: skip
    top, left = round(labels.width(columns) * 0.75) + 24, round(labels.width(rows)) + 24
    fixed = dict(showgrid=False, fixedrange=True)
    figure.update_layout(
        height=110 + ROW * len(rows), margin=dict(l=left, r=8, t=top, b=12),
        xaxis=dict(**fixed, **_named(columns), side="top", tickangle=-45),
        yaxis=dict(**fixed, **_named(rows), autorange="reversed"),
    )  # fmt: skip
    return ink(figure, colours)


def agreement_bars(
    queries: Axis,
    agreement: Float[np.ndarray, " query"],
    mean: float,
    notes: Sequence[str],
    *,
    quantity: str,
    mean_name: str,
    dark: bool = False,
) -> go.Figure:
    """One bar from 0 to 1 for each target word, and the mean as a line; `notes` is said of each word on hover.

    A word without an answer (NaN) has no bar.
    """
    colours = theme(dark)
    hovers = [
        f"{labels.isolated(text)}<br>{labels.safe(note)}" for text, note in zip(queries.labels, notes, strict=True)
    ]
    figure = go.Figure(
        go.Bar(
            x=list(range(len(queries))), y=agreement, hovertext=hovers,
            marker=dict(color=[colours.faint if mark else colours.accent for mark in queries.special]),
            hovertemplate="%{hovertext}<br>%{y:.4f}<extra></extra>",
        )
    )  # fmt: skip
    if np.isfinite(mean):
        figure.add_hline(
            y=mean, line=dict(color=colours.second, dash="dash", width=1.5), annotation_position="top right",
            annotation=dict(text=f"{labels.safe(mean_name)} {mean:.2f}", font=dict(color=colours.second)),
        )  # fmt: skip
    figure.update_layout(_columns(queries, quantity, 1.05), showlegend=False)
    return ink(figure, colours)


def source_share_bars(steps: Axis, share: Float[np.ndarray, " step"], *, dark: bool = False) -> go.Figure:
    """Two stacked bars for each step, which make 1 together: source below, prefix above.

    A step that received nothing (NaN) has no bar.
    """
    colours = theme(dark)
    figure = go.Figure()
    parts = (("figure_share_source", share, colours.accent), ("figure_share_prefix", 1 - share, colours.second))
    for name, part, colour in parts:
        figure.add_bar(
            x=list(range(len(steps))), y=part, name=words(name), marker=dict(color=colour),
            hovertext=[labels.isolated(text) for text in steps.labels],
            hovertemplate="%{hovertext}<br>%{y:.3f}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.update_layout(
        _columns(steps, words("figure_share_axis"), 1.0), barmode="stack", legend=legend(y=1.02, yanchor="bottom")
    )
    return ink(figure, colours)


def histogram(
    counts: Int[np.ndarray, " bin"],
    edges: Float[np.ndarray, " edge"],
    title: str,
    x_name: str = "",
    y_name: str = "",
    *,
    dark: bool = False,
) -> go.Figure:
    """Bars of `counts` between `edges`, each as wide as its bin; axes without a name are called value and numbers."""
    ranges = [f"{low:.4g} … {high:.4g}" for low, high in pairwise(edges.tolist())]
    bars = go.Bar(
        x=(edges[:-1] + edges[1:]) / 2, y=counts, width=np.diff(edges), customdata=ranges,
        hovertemplate="%{customdata}<br>%{y:,}<extra></extra>", marker=dict(color=theme(dark).accent, line_width=0),
    )  # fmt: skip
    heading = labels.wrapped(title, labels.NARROW, 14.0)
    layout = dict(
        height=280, margin=dict(l=8, r=8, t=40 + 18 * heading.count("<br>"), b=8), bargap=0, showlegend=False,
        title=dict(text=heading, font=dict(size=14)),
        xaxis=dict(title=x_name or words("figure_value_axis")), yaxis=dict(title=y_name or words("figure_count_axis")),
    )  # fmt: skip
    return ink(go.Figure(bars, layout=layout), theme(dark))


def _named(texts: Sequence[str]) -> dict[str, Any]:
    return dict(tickvals=list(range(len(texts))), ticktext=[labels.short(one) for one in texts])


def _columns(axis: Axis, quantity: str, top: float) -> dict[str, Any]:
    """The layout of upright bars, one for each position of an axis, on a scale from 0 to 1."""
    upright = labels.width(axis.texts) > COLUMN
    return dict(
        height=300, width=max(320, round(90 + COLUMN * len(axis))), bargap=0.25,
        margin=dict(l=60, r=24, t=40, b=100 if upright else 50),
        xaxis=dict(**labels.ticks(axis, COLUMN), tickangle=-90 if upright else 0, showgrid=False),
        yaxis=dict(title=quantity, range=[0, top], tickvals=SHARES),
    )  # fmt: skip
