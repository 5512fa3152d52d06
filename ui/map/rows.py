"""Where the parts of a diagram stand in a tower: rows from the bottom up, in the order in which they run.

A sub-layer takes a row with its norm and its residual sum; what stands around the layers shares rows. Of many layers
some are slim: one row each, which shows only how much each of their sub-layers adds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transformer.explain.diagrams.diagram import Diagram, Node

MOST_ROWS = 12
"""Rows of sub-layers in a tower up to which every layer is drawn whole."""

ABREAST = 3
"""Boxes of parts around the layers that share a row."""

ALONE = frozenset(("attention", "feed_forward", "recurrence", "other"))
"""Kinds that take a row for themselves."""


@dataclass
class Row:
    """Parts side by side: `boxes` work on the stream; `before` and `after` are norms around them, `total` is the sum.

    `layer` is the name of the layer, empty around the layers. A slim row stands for a whole layer: all its parts are in
    `boxes`, all its sums in `sums`.
    """

    layer: str = ""
    boxes: list[Node] = field(default_factory=list)
    before: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    sums: list[Node] = field(default_factory=list)
    slim: bool = False

    @property
    def nodes(self) -> list[Node]:
        """Every part of the row, in the order they run."""
        return [*self.boxes] if self.slim else [*self.before, *self.boxes, *self.sums, *self.after]


@dataclass(frozen=True)
class Tower:
    """A stack: the input that stands below it, its rows, and how many layers it has."""

    name: str
    read: Node
    rows: tuple[Row, ...]
    n_layers: int

    @property
    def folded(self) -> bool:
        """Whether some of its layers are slim."""
        return any(row.slim for row in self.rows)


def towers(diagram: Diagram, whole: bool = False, opened: str = "") -> tuple[Tower, ...]:
    """The stacks of a diagram from left to right.

    `whole` draws every layer whole, however many there are; the layer that holds the part `opened` always is.
    """
    stacks = [block.name for block in diagram.blocks if not block.within]
    return tuple(_tower(diagram, stack, whole, opened) for stack in stacks)


def _tower(diagram: Diagram, stack: str, whole: bool, opened: str) -> Tower:
    layers = [block.name for block in diagram.layers(stack)]
    nodes = list(diagram.inside(stack))
    read = next(node for node in nodes if node.kind == "input")
    rows = list(_rows([node for node in nodes if node is not read], set(layers)))
    if not whole and sum(row.layer != "" for row in rows) > MOST_ROWS:
        kept = {layers[0], layers[-1], *(node.block for node in nodes if node.name == opened)}
        rows = list(_folded(rows, kept))
    return Tower(stack, read, tuple(rows), len(layers))


def _rows(nodes: Sequence[Node], layers: set[str]) -> Iterator[Row]:
    """Rows of the parts of one stack; each part stands in exactly one."""
    row = Row()
    for node in nodes:
        layer = node.block if node.block in layers else ""
        if row.nodes and not _joins(row, node, layer):
            yield _whole(row)
            row = Row()
        row.layer = layer
        if not layer and node.kind == "norm":
            row.boxes.append(node)
        elif node.kind == "norm":
            (row.after if row.boxes else row.before).append(node)
        elif node.kind == "sum":
            row.sums.append(node)
        else:
            row.boxes.append(node)
    if row.nodes:
        yield _whole(row)


def _whole(row: Row) -> Row:
    """The row; norms that stand before nothing, where their order is not known, are its boxes."""
    return row if row.boxes else Row(row.layer, row.before, sums=row.sums, after=row.after)


def _joins(row: Row, node: Node, layer: str) -> bool:
    """Whether a part stands in the same row as those before it."""
    if layer != row.layer:
        return False
    if not layer:
        kinds = {one.kind for one in row.boxes}
        same = not (ALONE & {*kinds, node.kind}) and ("convolution" in kinds) == (node.kind == "convolution")
        return same and len(row.boxes) < ABREAST
    if node.kind == "sum":
        return True
    if node.kind == "norm":  # after the sum, or the first of a sub-layer that follows
        return not row.boxes or (bool(row.sums) and not row.before)
    return not row.boxes


def _folded(rows: Sequence[Row], kept: set[str]) -> Iterator[Row]:
    """The same rows with one slim row for each layer that is not kept."""
    slim = Row()
    for row in rows:
        if slim.boxes and slim.layer != row.layer:
            yield slim
            slim = Row()
        if not row.layer or row.layer in kept:
            yield row
            continue
        slim = Row(row.layer, [*slim.boxes, *row.nodes], sums=[*slim.sums, *row.sums], slim=True)
    if slim.boxes:
        yield slim
