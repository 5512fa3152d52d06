"""The look that all charts share: colours for light and dark pages, and fonts.

Fonts and background sit in a template of the figure's own, which a page's theme may overrule; the colours that carry
meaning and those of text stay.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from ..distribution import extra

with extra("plots"):
    import plotly.graph_objects as go

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Theme:
    """Colours by what they mean; `series` are those of lines or bars of equal standing, in order."""

    paper: str
    ink: str
    faint: str
    grid: str
    hatch: str
    accent: str
    second: str
    chosen: str
    series: tuple[str, ...]


LIGHT = Theme(
    paper="#fdfcf9",
    ink="#1b2530",
    faint="#5c6670",
    grid="#e4e0d6",
    hatch="#aaa79d",
    accent="#0b6e7f",
    second="#b4541a",
    chosen="#a3266b",
    series=("#0b6e7f", "#b4541a", "#4b3f9e", "#2e7d32", "#a3266b", "#8a6d00", "#1f5fbf", "#5c6670"),
)

DARK = Theme(
    paper="#10171e",
    ink="#e8ecef",
    faint="#a9b4be",
    grid="#2b3742",
    hatch="#66727e",
    accent="#5cc4d2",
    second="#f0975a",
    chosen="#ec7fb8",
    series=("#5cc4d2", "#f0975a", "#a79bf0", "#7cc97f", "#ec7fb8", "#d9bd4a", "#7fb0f5", "#a9b4be"),
)


def theme(dark: bool) -> Theme:
    """The colours for a dark or a light page."""
    return DARK if dark else LIGHT


def legend(**where: Any) -> dict[str, Any]:
    """A row of names that explains and does nothing else; `where` says where it stands."""
    return dict(orientation="h", x=0, xanchor="left", itemclick=False, itemdoubleclick=False, **where)


def ink(figure: go.Figure, colours: Theme) -> go.Figure:
    """Write all text of a figure in full contrast, whatever grey a page's theme has for it, over our own template."""
    text = dict(color=colours.ink)
    titled = dict(font=text)
    axis = dict(title=titled, tickfont=text)
    axes = [name for name in figure.layout.to_plotly_json() if name[1:5] == "axis"]
    figure.update_layout(
        template=template(colours is DARK), font=text, legend=titled, hoverlabel=titled, title=titled,
        **dict.fromkeys(["xaxis", "yaxis", *axes], axis),
    )  # fmt: skip
    return figure


@cache
def template(dark: bool) -> go.layout.Template:
    """What a figure looks like where its page says nothing."""
    colours, hover = theme(dark), dict(family=FONT, size=13)
    axis = dict(
        gridcolor=colours.grid, zeroline=False, linecolor=colours.grid, tickcolor=colours.grid, automargin=True,
        title=dict(standoff=8, font=dict(size=13)), tickfont=dict(size=12),
    )  # fmt: skip
    return go.layout.Template(
        layout=dict(
            paper_bgcolor=colours.paper, plot_bgcolor=colours.paper, xaxis=axis, yaxis=axis,
            font=dict(family=FONT, color=colours.ink, size=12), legend=dict(font=dict(size=12)),
            title=dict(x=0, xref="container", xanchor="left", pad=dict(l=12), font=dict(size=15)),
            hoverlabel=dict(bgcolor=colours.paper, bordercolor=colours.faint, font=hover | dict(color=colours.ink)),
            modebar=dict(bgcolor="rgba(0,0,0,0)", color=colours.faint, activecolor=colours.ink),
        )
    )  # fmt: skip
