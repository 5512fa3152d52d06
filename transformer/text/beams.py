"""What was written: step by step, and in the tree of a beam search."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..errors import InputError


@dataclass(frozen=True)
class Candidate:
    """A token that could be written next, and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Step:
    """One written token: its probability, its rank among all tokens (0 is the likeliest), and the likeliest ones."""

    text: str
    probability: float
    rank: int
    likeliest: tuple[Candidate, ...]


Status = Literal["kept", "finished", "pruned", "cut"]
"""What became of a hypothesis: `kept` in the beam for the next step (where the extensions of others may have crowded
out all of its own); `finished` by the end token; `pruned` because others were better, or because enough others were
finished; `cut` where the maximum length was reached."""


@dataclass(frozen=True, slots=True)
class Node:
    """One hypothesis: its parent and one more token.

    `step` counts the tokens written so far (the root, with the start token, is step 0). `log_prob` is the token's own,
    `total` the hypothesis' (nats), `score` the total under the length penalty. `rank` is its rank among the
    extensions of the same step, 0 the best. The root is its own best and has parent None.
    """

    id: int
    parent: int | None
    token: int
    step: int
    log_prob: float
    total: float
    score: float
    rank: int
    status: Status


@dataclass(frozen=True)
class BeamTree:
    """All hypotheses of one sentence; `nodes[i].id == i`, and parents come before their children."""

    nodes: tuple[Node, ...]

    @cached_property
    def best(self) -> Node:
        """The hypothesis that decoding answers with: the first of `hypotheses()`."""
        return self.hypotheses()[0]

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the best hypothesis, with the end token if it was written."""
        return tuple(self.path(self.best.id))

    @cached_property
    def log_probs(self) -> tuple[float, ...]:
        """Natural logarithm of the probability of each of these tokens."""
        return tuple(step.log_prob for step in self.lineage(self.best.id))

    @property
    def finished(self) -> bool:
        """Whether the end token was written; otherwise the maximum length cut the hypothesis."""
        return self.best.status == "finished"

    def hypotheses(self) -> list[Node]:
        """Complete hypotheses by falling score; the cut ones follow the finished ones, since they lack an end."""
        complete = [node for node in self.nodes if node.status in ("finished", "cut")]
        return sorted(complete, key=lambda node: (node.status == "cut", -node.score, node.id))

    def left_behind(self) -> list[Node]:
        """Hypotheses that the search dropped: neither complete nor the beginning of another one, in the order made."""
        continued, complete = {node.parent for node in self.nodes}, {node.id for node in self.hypotheses()}
        return [node for node in self.nodes[1:] if node.id not in continued | complete]

    def lineage(self, node: int) -> list[Node]:
        """The hypotheses from the first token to `node`, each the parent of the next; empty for the root.

        Raises:
            InputError: the tree has no such node.
        """
        if not 0 <= node < len(self.nodes):
            raise InputError("not_in_the_tree", node=node, last=len(self.nodes) - 1)
        line = []
        at = self.nodes[node]
        while at.parent is not None:
            line.append(at)
            at = self.nodes[at.parent]
        return line[::-1]

    def path(self, node: int) -> list[int]:
        """The tokens of a hypothesis, without the start token.

        Raises:
            InputError: the tree has no such node.
        """
        return [step.token for step in self.lineage(node)]
