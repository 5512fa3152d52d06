"""A beam search as a tree: one row a step, every hypothesis that was considered, and what became of it.

Words stand in the rows and lines run between the rows, so no line crosses a word.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from transformer.errors import InputError
from transformer.messages import words
from transformer.plots import labels
from transformer.plots.axes import WORD_START
from transformer.plots.theme import Theme, ink, legend, theme
from transformer.text.beams import BeamTree, Node, Status

TOKEN_LENGTH, SHORTEST = 10, 5
"""Longest token beside a node, in characters, and how far it is shortened where a step is wide; hover has all."""

LETTERS = 11.0
"""Pixels of a token's letters from foot to top."""

BAND = 16
"""Pixels of a row that words and nodes take; lines run between these bands."""

ROW, LOW_ROW, TALL = 36.0, 26.0, 560.0
"""Pixels from one step to the next: `ROW`, but less, down to `LOW_ROW`, where the steps would be taller than `TALL`."""

WIDE = 460.0
"""Pixels that the hypotheses of a step share. A wider step writes the words of its worst pruned ones on hover alone."""

NODE, APART = 16.0, 8.0
"""Pixels from the middle of a node to its word's end besides the letters, and from there to the next node."""

LEFT = 84
"""Pixels left of the tree, for what is said of each step."""

_SYMBOLS: dict[Status, str] = {"kept": "circle", "finished": "star", "pruned": "x-thin", "cut": "square"}


class Place(NamedTuple):
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
        figure.add_trace(_edges(spots, nodes, colour, width, _row(spots)))
    for status in _SYMBOLS:
        nodes = [node for node in tree.nodes if node.status == status]
        if nodes:
            figure.add_trace(_nodes(tree, spots, nodes, label, on_line, colours))
    return figure


def status_text(status: Status) -> str:
    """What became of a hypothesis, in words."""
    return words(f"figure_beam_{status}")


def places(tree: BeamTree, label: Callable[[int], str]) -> list[Place]:
    """Where each node is drawn: no two words touch, no branches cross, and the answer's line runs straight down.

    Each step lists children in the order of their parents, and siblings by rank, the answer's line first. A node stands
    below its parent where there is room.
    """
    line = {0, *(node.id for node in tree.lineage(tree.best.id))}
    order = [0] * len(tree.nodes)
    found = [Place(0.0, 0, labels.short(label(tree.nodes[0].token), TOKEN_LENGTH))] * len(tree.nodes)
    for nodes in _steps(tree):
        nodes.sort(key=lambda node: (order[_parent(node)], node.id not in line, node.rank))
        texts = _texts(nodes, label)
        slots = [_slot(text) for text in texts]
        beside = 0.0 if nodes[0].id in line else NODE + APART  # only the answer stands in the answer's line
        for place, (node, text) in enumerate(zip(nodes, texts, strict=True)):
            latest = max(beside, WIDE - sum(slots[place:]))
            x = 0.0 if node.id in line else max(beside, min(found[_parent(node)].x, latest))
            found[node.id] = Place(x, node.step, text)
            order[node.id] = place
            beside = x + slots[place]
    return found


def _texts(nodes: Sequence[Node], label: Callable[[int], str]) -> list[str]:
    """What is written beside the nodes of a step, so that all have room: first the worst pruned ones lose theirs."""
    texts = [labels.short(label(node.token), TOKEN_LENGTH) for node in nodes]
    pruned = [place for place, node in enumerate(nodes) if node.status == "pruned"]
    for place in sorted(pruned, key=lambda place: -nodes[place].rank):
        if sum(map(_slot, texts)) <= WIDE:
            return texts
        texts[place] = ""
    for length in range(TOKEN_LENGTH - 1, SHORTEST - 1, -1):
        if sum(map(_slot, texts)) <= WIDE:
            break
        texts = [
            labels.short(label(node.token), length) if text else "" for node, text in zip(nodes, texts, strict=True)
        ]
    return texts


def _slot(text: str) -> float:
    """Pixels from one node to the next."""
    return NODE + APART + labels.width([text], LETTERS) if text else NODE


def _steps(tree: BeamTree) -> list[list[Node]]:
    """The nodes of each step after the root."""
    steps: dict[int, list[Node]] = {}
    for node in tree.nodes[1:]:
        steps.setdefault(node.step, []).append(node)
    return [steps[step] for step in sorted(steps)]


def _parent(node: Node) -> int:
    return 0 if node.parent is None else node.parent


def _row(spots: Sequence[Place]) -> float:
    """Pixels from one step to the next."""
    return min(ROW, max(LOW_ROW, TALL / max(1, *(spot.row for spot in spots))))


def _edges(spots: Sequence[Place], nodes: Iterable[Node], colour: str, width: float, row: float) -> go.Scatter:
    """From below each parent's band to above its child's."""
    x: list[float | None] = []
    y: list[float | None] = []
    half = BAND / 2 / row
    for node in nodes:
        parent, child = spots[_parent(node)], spots[node.id]
        x += [parent.x, child.x, None]
        y += [parent.row + half, child.row - half, None]
    return go.Scatter(x=x, y=y, mode="lines", line=dict(color=colour, width=width), hoverinfo="skip", showlegend=False)


def _nodes(
    tree: BeamTree,
    spots: Sequence[Place],
    nodes: Sequence[Node],
    label: Callable[[int], str],
    line: set[int],
    colours: Theme,
) -> go.Scatter:
    status = nodes[0].status
    faded = status == "pruned"
    bright = {"kept": colours.accent, "finished": colours.chosen, "pruned": colours.faint, "cut": colours.second}[
        status
    ]
    texts = [spots[node.id].text for node in nodes]
    text_colour = colours.faint if faded else colours.ink
    stays = dict(marker=dict(opacity=1), textfont=dict(color=text_colour))
    return go.Scatter(
        x=[spots[node.id].x for node in nodes],
        y=[spots[node.id].row for node in nodes],
        customdata=[node.id for node in nodes],
        text=[f"<b>{text}</b>" if node.id in line else text for node, text in zip(nodes, texts, strict=True)],
        hovertext=[_hover(tree, node, label) for node in nodes],
        hovertemplate="%{hovertext}<extra></extra>",
        mode="markers+text",
        name=status_text(status),
        textposition="middle right",
        textfont=dict(size=LETTERS, color=text_colour),
        selected=stays,
        unselected=stays,
        marker=dict(
            symbol=_SYMBOLS[status],
            size=7 if faded else 13 if status == "finished" else 9,
            color=bright,
            line=dict(width=1.5, color=bright if faded else colours.paper),
        ),
    )


def _hover(tree: BeamTree, node: Node, label: Callable[[int], str]) -> str:
    tokens = "".join(label(token) for token in tree.path(node.id)).replace(WORD_START, " ").strip()
    wrapped = "<br>".join(labels.isolated(part) for part in _lines(tokens)) if tokens else words("figure_beam_nothing")
    if node.parent is None:
        return wrapped
    facts = words(
        "figure_beam_node",
        token=node.log_prob,
        total=node.total,
        score=node.score,
        status=status_text(node.status),
        rank=node.rank + 1,
        step=node.step,
    )
    return f"{wrapped}<br>{facts}"


def _lines(text: str, length: int = 60) -> list[str]:
    """`text` in lines of about `length` characters, broken at spaces where there are some."""
    lines = []
    while len(text) > length:
        space = text.rfind(" ", 1, length)
        end = space if space > 0 else length
        lines.append(text[:end])
        text = text[end:].lstrip()
    return [*lines, text]


def _layout(spots: Sequence[Place], line: Sequence[Node]) -> dict[str, Any]:
    last = max(spot.row for spot in spots)
    ends = [spot.x + _slot(spot.text) for spot in spots]
    written = {node.step: f"{math.exp(node.log_prob):.2f} · {node.step}" for node in line if node.parent is not None}
    top, foot, right = 36, 8, 8
    wide, tall = max(WIDE, *ends), _row(spots) * (last + 1)
    return dict(
        width=LEFT + NODE / 2 + wide + right,
        height=top + tall + foot,
        margin=dict(l=LEFT, r=right, t=top, b=foot, autoexpand=False),
        hovermode="closest",
        dragmode=False,
        legend=legend(y=1, yref="container", yanchor="top"),
        xaxis=dict(range=[-NODE / 2, wide], visible=False, fixedrange=True),
        yaxis=dict(
            title=words("figure_beam_steps"),
            range=[last + 0.5, -0.5],
            tickvals=list(range(last + 1)),
            ticktext=[written.get(step, str(step)) for step in range(last + 1)],
            showgrid=False,
            fixedrange=True,
            automargin=False,
        ),
    )
