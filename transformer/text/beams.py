"""Beam search for one sentence, and its whole tree: every hypothesis that was considered, and what became of it.

The search, exactly:

- A hypothesis' total is the sum of its tokens' log-probabilities; its score is total / length ** length_penalty,
  where length counts its tokens with the end token (`length_penalty` 0 ranks by probability, 1 by probability per
  token). Wu et al. 2016, section 7, use a smoothed form of the same length normalisation.
- A step extends every active hypothesis by every token and considers the 2 x beam extensions with the highest totals.
  An end token among the first `beam` of them finishes a hypothesis; the first `beam` others stay active; the rest is
  pruned. Ties go to the extension of the better hypothesis, then to the lower token id.
- The search is done when `beam` hypotheses are finished, or at `max_length` tokens: what is active then is cut.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from transformer.errors import InputError

MAX_BEAM = 16
"""Widest beam: translations stop improving far below, and a wider tree cannot be read."""

MAX_LENGTH_PENALTY = 4.0
"""Highest exponent of the length: past it the longest hypothesis wins, whatever it says."""

MAX_LENGTH = 1_000
"""Most tokens that one target may be allowed."""

Status = Literal["kept", "finished", "pruned", "cut"]
"""What became of a hypothesis: `kept` in the beam for the next step (where the extensions of others may have crowded
out all of its own); `finished` by the end token; `pruned` because others were better, or because enough others were
finished; `cut` where the maximum length was reached."""


@dataclass(frozen=True)
class DecodingOptions:
    """How wide to search (1 is greedy), how to weigh length, and where to stop (tokens, the end token counted).

    Raises:
        InputError: a number is out of range.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_length: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= MAX_BEAM:
            raise InputError("beam_out_of_range", beam=self.beam, most=MAX_BEAM)
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise InputError("penalty_out_of_range", penalty=self.length_penalty, most=MAX_LENGTH_PENALTY)
        if not 1 <= self.max_length <= MAX_LENGTH:
            raise InputError("length_out_of_range", length=self.max_length, most=MAX_LENGTH)

    def score(self, total: float, length: int) -> float:
        """What hypotheses of different lengths are compared by."""
        return total / length**self.length_penalty


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


class Search:
    """The search for one sentence: its tree so far, and the active hypotheses (best first)."""

    def __init__(self, options: DecodingOptions, bos_id: int, eos_id: int) -> None:
        self.options = options
        self.eos_id = eos_id
        self.nodes = [Node(0, None, bos_id, 0, 0.0, 0.0, 0.0, 0, "kept")]
        self.active = self.nodes[:]
        self.finished = 0

    def advance(self, values: list[list[float]], tokens: list[list[int]]) -> list[int]:
        """Take one step, given the log-probabilities and ids of the likeliest next tokens of each active hypothesis.

        Returns, for each hypothesis that is active now, the index of its parent among those that were.
        """
        beam = self.options.beam
        extensions = sorted(
            (-(self.active[parent].total + value), parent, token, value)
            for parent, row in enumerate(zip(values, tokens, strict=True))
            for value, token in zip(*row, strict=True)
            if value > -math.inf
        )[: 2 * beam]
        step = self.active[0].step + 1
        ended = [token == self.eos_id for _, _, token, _ in extensions]
        self.finished += sum(ended[:beam])
        statuses = self._statuses(ended, step)
        active, parents = [], []
        for rank, ((loss, parent, token, value), status) in enumerate(zip(extensions, statuses, strict=True)):
            node = Node(
                id=len(self.nodes),
                parent=self.active[parent].id,
                token=token,
                step=step,
                log_prob=value,
                total=-loss,
                score=self.options.score(-loss, step),
                rank=rank,
                status=status,
            )
            self.nodes.append(node)
            if status == "kept":
                active.append(node)
                parents.append(parent)
        self.active = active
        return parents

    def _statuses(self, ended: list[bool], step: int) -> list[Status]:
        """What becomes of the extensions of a step, best first, given which of them end with the end token."""
        beam = self.options.beam
        if self.finished >= beam:  # nothing goes on, and nothing is cut: enough others are complete
            unfinished: Status = "pruned"
        else:
            unfinished = "cut" if step == self.options.max_length else "kept"
        statuses: list[Status] = []
        room = beam
        for rank, end in enumerate(ended):
            if end:
                statuses.append("finished" if rank < beam else "pruned")
            else:
                statuses.append(unfinished if room else "pruned")
                room = max(0, room - 1)
        return statuses

    def tree(self) -> BeamTree:
        """All hypotheses, once none is active."""
        return BeamTree(tuple(self.nodes))
