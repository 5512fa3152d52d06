"""What builds a diagram part by part, and sees to it that every parameter of the model has exactly one place."""

from collections.abc import Sequence

from torch import nn

from transformer.explain.diagrams.diagram import Block, BlockKind, Edge, EdgeKind, Node, NodeKind, Shape
from transformer.sites import Site


class Sketch:
    """The parts of one model that have been drawn so far."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.blocks: list[Block] = []
        self._owned: set[str] = set()

    def block(self, name: str, kind: BlockKind, within: str = "") -> str:
        """A frame, by its name."""
        self.blocks.append(Block(name, kind, within))
        return name

    def part(
        self,
        name: str,
        kind: NodeKind,
        block: str,
        reads: Shape,
        gives: Shape,
        holds: Sequence[nn.Module | nn.Parameter] = (),
        after: str | Sequence[str] = (),
        site: Site | None = None,
        form: str = "",
        sizes: Sequence[tuple[str, int]] = (),
    ) -> str:
        """A node that works on what the nodes `after` give; `holds` are its modules or parameters. Returns its name."""
        found: dict[str, int] = {}
        for held in holds:
            for parameter in held.parameters() if isinstance(held, nn.Module) else (held,):
                found[self.names[id(parameter)]] = parameter.numel()
        owns = tuple(key for key in found if key not in self._owned)
        self._owned.update(owns)
        self.nodes.append(
            Node(
                name=name,
                kind=kind,
                block=block,
                reads=reads,
                gives=gives,
                parameters=sum(found[key] for key in owns),
                owns=owns,
                shares=tuple(key for key in found if key not in owns),
                site=site,
                form=form,
                sizes=tuple(sizes),
            )
        )
        for start in (after,) if isinstance(after, str) else after:
            self.join(start, name)
        return name

    def join(self, start: str, end: str, kind: EdgeKind = "data") -> None:
        """An edge between two nodes."""
        self.edges.append(Edge(start, end, kind))

    @property
    def left(self) -> tuple[str, ...]:
        """Parameters of the model that no node owns yet."""
        return tuple(name for name in self.names.values() if name not in self._owned)
