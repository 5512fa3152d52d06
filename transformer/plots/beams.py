"""A beam search as a tree: one row a step, every hypothesis that was considered, and what became of it.

Words stand in the rows and lines run between the rows, so no line crosses a word.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from ..distribution import extra
from ..errors import InputError
from ..messages import words
from ..text.beams import BeamTree, Node, Status
from . import labels
from .axes import WORD_START
from .theme import Theme, ink, legend, theme

with extra("plots"):
    import plotly.graph_objects as go

TOKEN_LENGTH = 10
"""Longest token beside a node, in characters; hover has all."""

LETTERS = 11.0
"""Pixels of a token's letters from foot to top."""

BAND = 16
"""Pixels of a row that words and nodes take; lines run between these bands."""

ROW = 36.0
"""Pixels from one step to the next."""

WIDE = 460.0
"""Pixels that the hypotheses of a step share. A wider step writes the words of its worst pruned ones on hover alone."""

NODE, GAP = 16.0, 8.0
"""Pixels from the middle of a node to its word's end besides the letters, and from there to the next node."""

LEFT = 84
"""Pixels left of the tree, for what is said of each step."""

_LOOKS: dict[Status, tuple[str, str, int]] = {
    "kept": ("circle", "accent", 9),
    "finished": ("star", "chosen", 13),
    "pruned": ("x-thin", "faint", 7),
    "cut": ("square", "second", 9),
}
"""Symbol, colour of the theme and size of nodes, by what became of them."""


class NodePosition(NamedTuple):
    """Where a node is drawn: its x in pixels, its row, and the text beside it."""

    x: float
    row: int
    text: str


def beam_tree(
    tree: BeamTree, label: Callable[[int], str], selected: int | None = None, *, dark: bool = False
) -> go.Figure:
    """The whole tree: a row is a step, branches do not cross, and each node is named by its token.

    `label` gives the text of a token id. The line of `selected` (the answer of the search, if None) is drawn bold, and
    the probabilities of its tokens stand at the left. The points of each trace that is named after a status carry
    `customdata`, the node's id, for clicks.

    Raises:
        InputError: the tree has no node `selected`.
    """
    chosen = tree.best.id if selected is None else selected
    if not 0 <= chosen < len(tree.nodes):
        raise InputError("node_not_in_tree", selected=chosen, last=len(tree.nodes) - 1)
    colours, spots = theme(dark), places(tree, label)
    line = [tree.nodes[0], *tree.lineage(chosen)]
    on_line = {node.id for node in line}
    grown = [node for node in tree.nodes if node.parent is not None]
    figure = ink(go.Figure(layout=_layout(spots, line)), colours)
    for nodes, colour, width in (
        ([node for node in grown if node.status == "pruned"], colours.hatch, 1.0),
        ([node for node in grown if node.status != "pruned"], colours.faint, 1.5),
        ([node for node in grown if node.id in on_line], colours.second, 4.0),
    ):
        figure.add_trace(_edges(spots, nodes, colour, width))
    for status in _LOOKS:
        nodes = [node for node in tree.nodes if node.status == status]
        if nodes:
            figure.add_trace(_nodes(tree, spots, nodes, label, on_line, colours))
    return figure


def status_text(status: Status) -> str:
    """What became of a hypothesis, in words."""
    return words(f"figure_beam_{status}")


def places(tree: BeamTree, label: Callable[[int], str]) -> list[NodePosition]:
    """Where each node is drawn: no two words touch, no branches cross, and the answer's line runs straight down.

    Each step lists children in the order of their parents, and siblings by rank, the answer's line first. A node stands
    below its parent where there is room.
    """
    line = {0, *(node.id for node in tree.lineage(tree.best.id))}
    order = [0] * len(tree.nodes)
    found = [NodePosition(0.0, 0, labels.short(label(tree.nodes[0].token), TOKEN_LENGTH))] * len(tree.nodes)
    for _, step in groupby(sorted(tree.nodes[1:], key=attrgetter("step")), attrgetter("step")):
        nodes = sorted(step, key=lambda node: (order[node.parent or 0], node.id not in line, node.rank))
        texts = _texts(nodes, label)
        slots = [_slot(text) for text in texts]
        beside = 0.0 if nodes[0].id in line else NODE + GAP  # only the answer stands in the answer's line
        for place, (node, text) in enumerate(zip(nodes, texts, strict=True)):
            latest = max(beside, WIDE - sum(slots[place:]))
            x = 0.0 if node.id in line else max(beside, min(found[node.parent or 0].x, latest))
            found[node.id] = NodePosition(x, node.step, text)
            order[node.id] = place
            beside = x + slots[place]
    return found


def _texts(nodes: Sequence[Node], label: Callable[[int], str]) -> list[str]:
    """What is written beside the nodes of a step: the worst pruned ones give way where it is wide."""
    texts = [labels.short(label(node.token), TOKEN_LENGTH) for node in nodes]
    pruned = [place for place, node in enumerate(nodes) if node.status == "pruned"]
    for place in sorted(pruned, key=lambda place: -nodes[place].rank):
        if sum(map(_slot, texts)) <= WIDE:
            break
        texts[place] = ""
    return texts


def _slot(text: str) -> float:
    """Pixels from one node to the next."""
    return NODE + GAP + labels.width([text], LETTERS) if text else NODE


def _edges(spots: Sequence[NodePosition], nodes: Iterable[Node], colour: str, width: float) -> go.Scatter:
    """From below each parent's band to above its child's."""
    x: list[float | None] = []
    y: list[float | None] = []
    half = BAND / 2 / ROW
    for node in nodes:
        parent, child = spots[node.parent or 0], spots[node.id]
        x += [parent.x, child.x, None]
        y += [parent.row + half, child.row - half, None]
    return go.Scatter(x=x, y=y, mode="lines", line=dict(color=colour, width=width), hoverinfo="skip", showlegend=False)


def _nodes(
    tree: BeamTree, spots: Sequence[NodePosition], nodes: Sequence[Node], label: Callable[[int], str], line: set[int],
    colours: Theme,
) -> go.Scatter:  # fmt: skip
    """The nodes of one status, each named by its token; none fades when another is chosen."""
    status, here = nodes[0].status, [spots[node.id] for node in nodes]
    (symbol, colour, size), faded = _LOOKS[status], status == "pruned"
    bright, ink_of = getattr(colours, colour), dict(color=colours.faint if faded else colours.ink)
    unfaded = dict(marker=dict(opacity=1), textfont=ink_of)
    texts = [f"<b>{spot.text}</b>" if node.id in line else spot.text for node, spot in zip(nodes, here, strict=True)]
    return go.Scatter(
        x=[spot.x for spot in here], y=[spot.row for spot in here], customdata=[node.id for node in nodes],
        mode="markers+text", name=status_text(status), text=texts, textposition="middle right",
        textfont=dict(size=LETTERS, **ink_of), selected=unfaded, unselected=unfaded,
        hovertext=[_hover(tree, node, label) for node in nodes], hovertemplate="%{hovertext}<extra></extra>",
        marker=dict(
            symbol=symbol, size=size, color=bright, line=dict(width=1.5, color=bright if faded else colours.paper)
        ),
    )  # fmt: skip


def _hover(tree: BeamTree, node: Node, label: Callable[[int], str]) -> str:
    tokens = "".join(label(token) for token in tree.path(node.id)).replace(WORD_START, " ").strip()
    wrapped = "<br>".join(map(labels.isolated, textwrap.wrap(tokens, 60))) or words("figure_beam_nothing")
    if node.parent is None:
        return wrapped
    numbers = dict(token=node.log_prob, total=node.total, score=node.score, rank=node.rank + 1, step=node.step)
    return f"{wrapped}<br>{words('figure_beam_node', status=status_text(node.status), **numbers)}"


def _layout(spots: Sequence[NodePosition], line: Sequence[Node]) -> dict[str, Any]:
    last, (top, foot, right) = max(spot.row for spot in spots), (36, 8, 8)
    wide, tall = max(WIDE, *(spot.x + _slot(spot.text) for spot in spots)), ROW * (last + 1)
    written = {node.step: f"{math.exp(node.log_prob):.2f} · {node.step}" for node in line if node.parent is not None}
    steps = range(last + 1)
    return dict(
        width=LEFT + NODE / 2 + wide + right, height=top + tall + foot, hovermode="closest", dragmode=False,
        margin=dict(l=LEFT, r=right, t=top, b=foot, autoexpand=False),
        legend=legend(y=1, yref="container", yanchor="top"),
        xaxis=dict(range=[-NODE / 2, wide], visible=False, fixedrange=True),
        yaxis=dict(
            title=words("figure_beam_steps"), range=[last + 0.5, -0.5], showgrid=False, fixedrange=True,
            automargin=False, tickvals=list(steps), ticktext=[written.get(step, str(step)) for step in steps],
        ),
    )  # fmt: skip
