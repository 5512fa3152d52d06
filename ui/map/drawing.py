"""The map of one run: its towers as the component draws them, from the diagram and from what flowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from transformer.attention.record import AttentionMap
from transformer.explain.diagrams.diagram import Diagram, Node
from transformer.plots.axes import WORD_START
from ui.components.map import component as drawn
from ui.map.descriptions import axis_lengths, described, tower_title, where
from ui.map.rows import Row, Tower, towers
from ui.map.runs import MOST_DECIDED, Shown
from ui.texts import language, plain

CODES = 60_000
"""Cells of all thumbnails together, at most: a byte each."""

LARGEST_SIDE = 40
"""Cells along a thumbnail's side, at most."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """What the component draws; by a part's name, `numbers` is its place in `parts`, `wheres` says where it stands."""

    towers: tuple[drawn.Tower, ...]
    parts: tuple[drawn.Part, ...]
    numbers: Mapping[str, int]
    wheres: Mapping[str, str]
    steps: drawn.Steps
    can_fold: bool

    @property
    def legend(self) -> str:
        """How to read what is drawn here."""
        rows = [row for tower in self.towers for row in tower.rows]
        crosses = any(row.heads is not None and row.crosses for row in rows)
        shown = {
            "stream": any(tower.found for tower in self.towers),
            "heads": any(row.heads is not None for row in rows),
            "lights": crosses,
            "decided": any(self.steps.decided),
            "undecided": crosses and not self.steps.decided,
            "bars": any(row.strengths is not None for row in rows),
            "chain": any(row.chain for row in rows),
        }
        return " ".join(plain(f"map.legend_{name}", most=MOST_DECIDED) for name, is_drawn in shown.items() if is_drawn)

    def is_last(self, part: str) -> bool:
        """Whether a part stands in the last tower."""
        return self.numbers[part] >= self.towers[-1].reads

    def source_at(self, step: int) -> int:
        """The source word that a step looks at most: by the surest heads of all cross-attentions; -1 for none."""
        crossing = [row.heads.sure for row in self.towers[-1].rows if row.heads is not None and row.crosses]
        lights = np.zeros(len(self.towers[0].words))
        for sure in crossing:
            if 0 <= step < len(sure):
                lights[int(sure[step, 1])] += sure[step, 2]
        return int(lights.argmax()) if lights.any() else drawn.ALL


def drawing(shown: Shown, whole: bool, opened: str) -> Drawing:
    """The map of a run; `whole` draws every layer whole, and the layer of the part `opened` always is.

    A step changes nothing of it, so it is made once.
    """
    layer = next((node.block for node in shown.flow.diagram.nodes if node.name == opened), "")
    asked = (whole, layer, language())
    if asked not in shown.drawings:
        shown.drawings[asked] = _drawing(shown, whole, opened)
    found: Drawing = shown.drawings[asked]
    return found


def _drawing(shown: Shown, whole: bool, opened: str) -> Drawing:
    diagram = shown.flow.diagram
    found = towers(diagram, whole, opened)
    nodes = [node for tower in found for node in (tower.read, *(one for row in tower.rows for one in row.nodes))]
    lengths = axis_lengths(shown)
    parts = tuple(described(node, diagram, lengths) for node in nodes)
    numbers = {node.name: number for number, node in enumerate(nodes)}
    side = _side(found, shown)
    last = len(found) - 1
    return Drawing(
        tuple(_tower(tower, shown, numbers, side, number, last) for number, tower in enumerate(found)),
        parts,
        numbers,
        {node.name: where(node, diagram) for node in nodes},
        _steps(shown),
        any(tower.folded for tower in (found if not whole else towers(diagram))),
    )


def _steps(shown: Shown) -> drawn.Steps:
    written = shown.translation is not None
    if shown.said is not None and shown.said.numbers:
        title = plain("map.ends_with_numbers")
    elif not shown.next:
        title = plain("map.ends_with_states")
    elif shown.classes:
        title = plain("map.classes")
    else:
        title = plain("map.word_here" if shown.said is not None and shown.said.fills else "map.next_word")
    rows = [[(readable(one.text), one.probability) for one in row[:TOP]] for row in shown.next]
    return drawn.Steps(*_words(shown.steps), rows, title, written, shown.decided)


def readable(piece: str) -> str:
    """A piece without the mark of a word's start; a lone mark stays, since there is nothing else to see."""
    return piece.replace(WORD_START, "") or piece


def _words(pieces: Sequence[str]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Pieces as they are written, and which stand without a space before them: where some piece starts a word."""
    spaced = any(piece.startswith(WORD_START) for piece in pieces)
    attached = [spaced and not piece.startswith((WORD_START, "<")) for piece in pieces]
    return tuple(map(readable, pieces)), tuple(attached)


TOP = 4
"""Outputs that stand above the last tower."""


def _side(stacks: tuple[Tower, ...], shown: Shown) -> int:
    """Cells along a thumbnail's side, so that all thumbnails together stay small."""
    rows = [row for tower in stacks for row in tower.rows if not row.slim]
    heads = sum(found.n_heads for row in rows if (found := _map(row, shown)) is not None)
    return max(4, min(LARGEST_SIDE, int((CODES / max(heads, 1)) ** 0.5)))


def _map(row: Row, shown: Shown) -> AttentionMap | None:
    """The attention of a row, if it ran."""
    return next((shown.record[node.site] for node in row.boxes if node.site and node.site in shown.record), None)


def _tower(tower: Tower, shown: Shown, numbers: Mapping[str, int], side: int, number: int, last: int) -> drawn.Tower:
    flow = shown.flow
    names = [node.name for row in tower.rows for node in row.nodes]
    shares = {name: flow.shares[name] for name in names if name in flow.shares}
    # Of another library's model whole layers are known: the share stands at the layer's last sum, or its last part.
    for row, after in zip(tower.rows, (*tower.rows[1:], Row()), strict=True):
        if row.layer in flow.shares and after.layer != row.layer:
            shares[(row.sums or row.boxes)[-1].name] = flow.shares[row.layer]
    words = shown.read if number == last and shown.read else shown.source
    return drawn.Tower(
        tower_title(tower),
        numbers[tower.read.name],
        *_words(words),
        [_row(row, tower, shown, numbers, side) for row in tower.rows],
        {numbers[name]: share.found for name, share in shares.items()},
        {numbers[name]: share.state for name, share in shares.items()},
        {numbers[name]: flow.scales[name] for name in names if name in flow.scales},
        stepped=number == last,
    )


def _row(row: Row, tower: Tower, shown: Shown, numbers: Mapping[str, int], side: int) -> drawn.Row:
    def of(nodes: list[Node]) -> list[int]:
        return [numbers[node.name] for node in nodes]

    layers = list(dict.fromkeys(one.layer for one in tower.rows if one.layer))
    flow, crosses = shown.flow, _crosses(row, shown.flow.diagram)
    place = layers.index(row.layer) if row.layer else -1
    if row.slim:
        return drawn.Row(place, of(row.boxes), sums=of(row.sums), slim=True, crosses=crosses)
    net = next((node.name for node in row.boxes if node.name in flow.activity), None)
    return drawn.Row(
        place,
        of(row.boxes),
        of(row.before),
        of(row.after),
        of(row.sums),
        crosses=crosses,
        feeds=_feeds(row, shown.flow.diagram),
        chain=_chain(row, shown),
        heads=_heads(_map(row, shown), side),
        active=None if net is None else flow.activity[net].active,
        strengths=None if net is None else flow.strengths[net],
    )


def _crosses(row: Row, diagram: Diagram) -> bool:
    """Whether a part of the row reads the tower before."""
    names = {node.name for node in row.boxes}
    return any(edge.kind == "cross" and edge.end in names for edge in diagram.edges)


def _feeds(row: Row, diagram: Diagram) -> bool:
    """Whether the next tower reads what a part of the row gives."""
    names = {node.name for node in row.boxes}
    return any(edge.kind == "cross" and edge.start in names for edge in diagram.edges)


def _chain(row: Row, shown: Shown) -> int:
    """Time steps of a recurrent net; 0 for all else."""
    net = next((node for node in row.boxes if node.kind == "recurrence"), None)
    if net is None:
        return 0
    return len(shown.read if net.gives[0] == "target" else shown.source)


def _heads(found: AttentionMap | None, side: int) -> drawn.Heads | None:
    if found is None:
        return None
    every = found.all_weights()
    small = max(found.shape) <= side
    heads = range(found.n_heads)
    weights = every if small else np.stack([found.overview(head, side) for head in heads])
    visible = found.mask() if small else found.overview_mask(side)
    return drawn.Heads(weights, visible, found.shape[0], drawn.sure_heads(every), _words(found.keys.texts)[0])
