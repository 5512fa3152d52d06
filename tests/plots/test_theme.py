"""Colours of figures: what is written in them can be read, light and dark."""

import plotly.graph_objects as go
import pytest
from plotly.subplots import make_subplots

from transformer.plots.theme import ink, theme


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["ink", "faint", "accent", "second", "chosen"])
def test_every_colour_that_letters_have_can_be_read_on_the_paper(dark: bool, name: str) -> None:
    colours = theme(dark)
    low, high = sorted([luminance(getattr(colours, name)), luminance(colours.paper)])
    assert (high + 0.05) / (low + 0.05) >= 4.5


def subplots() -> go.Figure:
    figure = make_subplots(2, 2, subplot_titles=("a", "b", "c", "d"))
    figure.add_scatter(y=[1, 2], row=2, col=1)
    figure.add_heatmap(z=[[1, 2]], row=1, col=2)
    return figure.update_layout(title=dict(text="t", font=dict(size=17)), xaxis_title="x")


@pytest.mark.parametrize("dark", [False, True])
def test_ink_writes_every_axis_and_shares_no_template(dark: bool) -> None:
    found = ink(subplots(), theme(dark))
    assert {axis.tickfont.color for axis in found.select_xaxes()} == {theme(dark).ink}
    assert found.layout.title.font.to_plotly_json() == {"color": theme(dark).ink, "size": 17}
    found.layout.template.layout.font.size = 99
    assert ink(go.Figure(), theme(dark)).layout.template.layout.font.size == 12
