"""One output step: what could have been written next, and where the decoder looked when it was."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from transformer.errors import RecordError
from transformer.messages import words
from transformer.plots import labels
from transformer.plots.bars import SHARES, token_rows
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity
from transformer.plots.theme import Theme, crossed, hatched, ink, legend, theme
from transformer.text.steps import Step


def next_tokens(step: Step, *, is_next: bool = True, dark: bool = False) -> go.Figure:
    """The likeliest next tokens as bars of probability, on a scale from 0 to 1.

    The written token is marked; it has a bar also if it is not among the likeliest. The last bar is all other tokens
    together, so the bars sum to 1. Without `is_next` they are those of a position that the model has read: nothing is
    written there, and the marked one is what is measured.
    """
    rank = step.rank + 1
    mark = words("figure_written" if is_next else "figure_measured")
    ranked = words("figure_written_rank", rank=rank) if is_next else words("figure_measured_rank", rank=rank)
    rows = [(candidate.text, candidate.probability) for candidate in step.likeliest]
    written = next((i for i, (text, _) in enumerate(rows) if text == step.text), step.rank)
    if written >= len(rows):
        written = len(rows)
        rows.append((step.text, step.probability))
    others = max(0.0, 1.0 - sum(probability for _, probability in rows))
    names = [labels.short(text) for text, _ in rows] + [words("figure_all_others")]
    names[written] = f"<b>{names[written]}</b>"
    hovers = [f"{labels.isolated(text)}<br>{words('figure_probability', value=p)}" for text, p in rows]
    hovers[written] += f"<br>{ranked}"
    hovers.append(f"{words('figure_all_other_tokens')}<br>{words('figure_probability', value=others)}")
    values = [probability for _, probability in rows] + [others]
    texts = [f"{value:.3f}" for value in values]
    texts[written] = f"<b>{texts[written]}  ◀ {mark}</b>"
    return token_rows(
        names, values, texts, hovers, _bar_colours(len(values), written, theme(dark)),
        dict(range=[0, 1.02], tickvals=SHARES, title=words("figure_next_token" if is_next else "figure_token_here")),
        wide=[text for text, _ in rows], right=112, dark=dark,
    )  # fmt: skip


def attention_of_step(picture: Picture, average: Picture, step: int, *, dark: bool = False) -> go.Figure:
    """Where one head looked at one step: a bar for each key, and a diamond for the mean of all heads.

    `picture` and `average` are maps of one site; `step` is their query. Weights are on a scale from 0 to 1.

    Raises:
        RecordError: `step` is no query of the picture, the maps differ in size, or they do not hold weights.
    """
    n_queries, n_keys = picture.values.shape
    if not 0 <= step < n_queries:
        raise RecordError("step_not_in_picture", step=step, site=picture.site, last=n_queries - 1)
    if average.values.shape != picture.values.shape:
        raise RecordError(
            "average_of_other_shape", average=str(average.values.shape), picture=str(picture.values.shape)
        )
    if not (picture.quantity.is_probability and average.quantity.is_probability):
        raise RecordError("not_drawn_as_weights", unit=picture.unit)
    colours, keys = theme(dark), list(range(n_keys))
    values, visible = picture.values[step], picture.visible[step]
    figure = go.Figure(
        go.Bar(
            x=keys,
            y=values,
            name=labels.safe(picture.head),
            marker=dict(color=colours.accent),
            hovertemplate=_head_hover(picture),
        )
    )
    if average.head != picture.head:
        figure.add_trace(_average(average, step, colours))
    if not visible.all():
        figure.add_trace(_masked(visible, colours))
    missing = np.flatnonzero(visible & ~np.isfinite(values))
    if len(missing):
        figure.add_trace(_missing(missing, colours))
    figure.update_layout(_step_layout(picture, step))
    return ink(figure, colours)


def _bar_colours(count: int, written: int, colours: Theme) -> list[str]:
    """One colour for candidates, one for the written token, a faint one for all others."""
    return [colours.second if i == written else colours.accent for i in range(count - 1)] + [colours.hatch]


def _average(average: Picture, step: int, colours: Theme) -> go.Scatter:
    shown = average.visible[step]
    return go.Scatter(
        x=np.flatnonzero(shown),
        y=average.values[step][shown],
        mode="markers",
        name=labels.safe(average.head),
        marker=dict(symbol="diamond", size=9, color=colours.second, line=dict(width=1.5, color=colours.paper)),
        hovertemplate=_head_hover(average),
    )


def _head_hover(picture: Picture) -> str:
    """The hover text of a head's weight: the key, the head, the value."""
    return f"%{{x}}<br>{words('figure_head_weight', head=labels.safe(picture.head), value='%{y:.6~g}')}<extra></extra>"


def _masked(visible: np.ndarray, colours: Theme) -> go.Bar:
    hidden = np.flatnonzero(~visible)
    return go.Bar(
        x=hidden,
        y=np.ones(len(hidden)),
        width=1,
        name=words("figure_masked"),
        marker=hatched(colours),
        hovertemplate=f"%{{x}}<br>{words('figure_masked_cell')}<extra></extra>",
    )


def _missing(keys: np.ndarray, colours: Theme) -> go.Scatter:
    return go.Scatter(
        x=keys,
        y=np.zeros(len(keys)),
        mode="markers",
        name=words("figure_not_finite"),
        marker=crossed(colours),
        hovertemplate=f"%{{x}}<br>{words('figure_not_finite')}<extra></extra>",
    )


def _step_layout(picture: Picture, step: int) -> dict[str, Any]:
    wide = round(labels.width(picture.keys.texts))
    return dict(
        title=dict(
            text=labels.safe(picture.title),
            subtitle=dict(
                text=words("figure_query", text=labels.isolated(picture.queries.labels[step])), font=dict(size=13)
            ),
            x=0,
            y=1,
            yref="container",
            yanchor="top",
            pad=dict(t=10, l=12),
        ),
        height=342 + wide,
        margin=dict(l=56, r=12, t=110, b=wide + 44),
        barmode="overlay",
        bargap=0.2,
        hovermode="closest",
        showlegend=True,
        legend=legend(y=1.02, yanchor="bottom"),
        xaxis=dict(
            range=[-0.5, len(picture.keys) - 0.5],
            showgrid=False,
            title=words("figure_key", text=labels.isolated(picture.keys.name)),
            tickangle=-90,
            **labels.ticks(picture.keys, 22.0),
        ),
        yaxis=dict(range=[0, 1.02], tickvals=SHARES, fixedrange=True, title=labels.safe(Quantity.WEIGHT.unit)),
    )
