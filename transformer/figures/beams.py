"""A beam search as a tree: one column a step, every hypothesis that was considered, and what became of it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

from transformer.decoding.beams import BeamTree, Node, Status
from transformer.errors import InputError
from transformer.figures import labels
from transformer.figures.theme import Theme, ink, legend, template, theme
from transformer.messages import words
from transformer.pictures.axes import WORD_START

STEPS_IN_VIEW = 8
"""Columns that are shown at first; the rest is a drag away."""

TOKEN_LENGTH = 10
"""Longest token beside a node, in characters; the whole text is on hover."""

ROW = 26
"""Pixels from one hypothesis of a step to the next."""

_SYMBOLS: dict[Status, str] = {"kept": "circle", "finished": "star", "pruned": "x-thin", "cut": "square"}


def beam_tree(
    tree: BeamTree, label: Callable[[int], str], selected: int | None = None, *, dark: bool = False
) -> go.Figure:
    """The whole tree: x is the step, branches do not cross, and each node is named by its token.

    `label` gives the text of a token id. The line of `selected` (the answer of the search, if None) is drawn bold.
    The points of each trace that is named after a status carry `customdata`, the node's id, for clicks.

    Raises:
        InputError: the tree has no node `selected`.
    """
    chosen = tree.best.id if selected is None else selected
    if not 0 <= chosen < len(tree.nodes):
        raise InputError("node_not_in_tree", selected=chosen, last=len(tree.nodes) - 1)
    colours, rows = theme(dark), layout(tree)
    line = {0, *(node.id for node in tree.lineage(chosen))}
    grown = [node for node in tree.nodes if node.parent is not None]
    figure = ink(go.Figure(layout=_layout(tree, rows, chosen, dark)), colours)
    figure.add_trace(_edges(tree, rows, (node for node in grown if node.status == "pruned"), colours.hatch, 1.0))
    figure.add_trace(_edges(tree, rows, (node for node in grown if node.status != "pruned"), colours.faint, 1.5))
    figure.add_trace(_edges(tree, rows, (node for node in grown if node.id in line), colours.second, 4.0))
    for status in _SYMBOLS:
        nodes = [node for node in tree.nodes if node.status == status]
        if nodes:
            figure.add_trace(_nodes(tree, rows, nodes, label, line, colours))
    return figure


def status_text(status: Status) -> str:
    """What became of a hypothesis, in words."""
    return words(f"figure_beam_{status}")


def layout(tree: BeamTree) -> list[int]:
    """The row of each node, 0 on top: no two nodes of a step share one, and no branches cross.

    The answer's line runs straight along row 0. Below it, each step lists children in the order of their parents,
    and siblings by rank.
    """
    line = {0, *(node.id for node in tree.lineage(tree.best.id))}
    rows = [0] * len(tree.nodes)
    for nodes in _steps(tree):
        nodes.sort(key=lambda node: (rows[_parent(node)], node.id not in line, node.rank))
        first = 0 if nodes[0].id in line else 1
        for row, node in enumerate(nodes, first):
            rows[node.id] = row
    return rows


def _steps(tree: BeamTree) -> list[list[Node]]:
    """The nodes of each step after the root."""
    steps: dict[int, list[Node]] = {}
    for node in tree.nodes[1:]:
        steps.setdefault(node.step, []).append(node)
    return [steps[step] for step in sorted(steps)]


def _parent(node: Node) -> int:
    return 0 if node.parent is None else node.parent


def _edges(tree: BeamTree, rows: Sequence[int], nodes: Iterable[Node], colour: str, width: float) -> go.Scatter:
    x: list[float | None] = []
    y: list[float | None] = []
    for node in nodes:
        parent = tree.nodes[_parent(node)]
        x += [parent.step, node.step, None]
        y += [rows[parent.id], rows[node.id], None]
    return go.Scatter(x=x, y=y, mode="lines", line=dict(color=colour, width=width), hoverinfo="skip", showlegend=False)


def _nodes(
    tree: BeamTree,
    rows: Sequence[int],
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
    texts = [labels.short(label(node.token), TOKEN_LENGTH) for node in nodes]
    text_colour = colours.faint if faded else colours.ink
    stays = dict(marker=dict(opacity=1), textfont=dict(color=text_colour))
    return go.Scatter(
        x=[node.step for node in nodes],
        y=[rows[node.id] for node in nodes],
        customdata=[node.id for node in nodes],
        text=[f"<b>{text}</b>" if node.id in line else text for node, text in zip(nodes, texts, strict=True)],
        hovertext=[_hover(tree, node, label) for node in nodes],
        hovertemplate="%{hovertext}<extra></extra>",
        mode="markers+text",
        name=status_text(status),
        textposition="top center",
        textfont=dict(size=11, color=text_colour),
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


def _layout(tree: BeamTree, rows: Sequence[int], chosen: int, dark: bool) -> dict[str, Any]:
    last = max(node.step for node in tree.nodes)
    wished = 0 if chosen == tree.best.id else tree.nodes[chosen].step - STEPS_IN_VIEW // 2
    start = max(0, min(wished, last - STEPS_IN_VIEW))
    end = min(last, start + STEPS_IN_VIEW)
    return dict(
        template=template(dark),
        height=130 + ROW * (max(rows) + 1),
        margin=dict(l=12, r=12, t=40, b=48),
        hovermode="closest",
        dragmode="pan",
        legend=legend(y=1, yref="container", yanchor="top"),
        xaxis=dict(
            title=words("figure_beam_steps_more" if last > STEPS_IN_VIEW else "figure_beam_steps"),
            range=[start - 0.6, end + 0.6],
            showgrid=False,
            dtick=1,
        ),
        yaxis=dict(range=[max(rows) + 0.7, -1], visible=False, fixedrange=True),
    )
