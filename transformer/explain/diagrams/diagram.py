"""The parts of a model and what flows between them, as plain values that any page can draw.

A diagram has one node for every part that computes something, nested in blocks (a stack, a layer), and edges in the
order in which a run takes them. Dropout is left out: it does nothing while a model is looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from transformer.sites import Site

NodeKind = Literal[
    "input", "embedding", "positions", "norm", "attention", "feed_forward", "sum", "convolution", "windows",
    "recurrence", "linear", "pooling", "output", "other",
]  # fmt: skip
"""What a node does. `input` stands for the ids that are read, `output` for the distribution or the states that come
out; `sum` is a residual connection; `recurrence` a recurrent net; `other` a part whose work its name alone tells."""

EdgeKind = Literal["data", "residual", "cross", "recurrence"]
"""How a value gets from one node to another: as what the node works on, past a sub-layer, from the encoder's end to a
decoder's attention, or from one step of a recurrent net to the next."""

BlockKind = Literal["encoder", "decoder", "layer", "ends"]
"""A stack, one layer of it, or what stands around the stacks."""

Norms = Literal["before", "after", "none"]
"""Where a layer's norms stand: before its sub-layers, after their sums; `none` where there is no layer norm."""

Shape = tuple[str | int, ...]
"""Axes of one sequence, without the batch: sizes where they are fixed, names (`source`, `target`, `letter`, `window`)
where they follow the input."""


@dataclass(frozen=True)
class Node:
    """One part of the model.

    `name` is the path of its module, or of the place where it stands if it has none; `owns` are the names of the
    model's parameters that belong to it, `parameters` the numbers in them. A parameter that two parts share belongs to
    the first; the other one names it in `shares`. `site` is the attention's name in records. `form` tells one part of
    a kind from another (`relu`, `sinusoidal`, `gru`), `sizes` are those that its shapes do not show (heads, d_ff).
    """

    name: str
    kind: NodeKind
    block: str
    reads: Shape
    gives: Shape
    parameters: int = 0
    owns: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    site: Site | None = None
    form: str = ""
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Edge:
    """What flows from one node to another; both by name."""

    start: str
    end: str
    kind: EdgeKind = "data"


@dataclass(frozen=True)
class Block:
    """A frame around nodes; `within` is the name of the frame around it, empty for the outermost."""

    name: str
    kind: BlockKind
    within: str = ""


@dataclass(frozen=True)
class Diagram:
    """The graph of a model: its parts in the order in which they run, and their connections.

    `norms` says where the layer norms stand in a layer: `before` its sub-layers or `after` their sums. `causal` says
    whether the future is hidden from the (decoder's) self-attention.
    """

    family: str
    kind: Literal["seq2seq", "encoder", "decoder", "recurrent", "classifier"]
    norms: Norms
    causal: bool
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    blocks: tuple[Block, ...] = field(default=())

    def __getitem__(self, name: str) -> Node:
        """The node of that name."""
        return next(node for node in self.nodes if node.name == name)

    @property
    def parameters(self) -> int:
        """Numbers in the whole model; those that parts share count once."""
        return sum(node.parameters for node in self.nodes)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every attention, in the order they run."""
        return tuple(node.site for node in self.nodes if node.site is not None)

    def inside(self, block: str) -> Iterator[Node]:
        """The nodes of a block and of the blocks in it, in the order they run."""
        frames = {block} | {found.name for found in self.blocks if found.within == block}
        return (node for node in self.nodes if node.block in frames)

    def layers(self, stack: str) -> tuple[Block, ...]:
        """The layers of a stack, from the first to run."""
        return tuple(block for block in self.blocks if block.within == stack)
