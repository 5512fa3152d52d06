"""Decoding: from a source to the likeliest target that a beam search finds. Greedy decoding is a beam of 1.

Any model that offers `Decodable` can be decoded. Sentences go through the model together; those that are finished
leave the batch. Padding and the start token are never written.

The search, exactly:

- A hypothesis' total is the sum of its tokens' log-probabilities; its score is total / length ** length_penalty,
  where length counts its tokens with the end token (`length_penalty` 0 ranks by probability, 1 by probability per
  token). Wu et al. 2016, section 7, use a smoothed form of the same length normalisation.
- A step extends every active hypothesis by every token and considers the 2 x beam extensions with the highest totals.
  An end token among the first `beam` of them finishes a hypothesis; the first `beam` others stay active; the rest is
  pruned. Ties go to the extension of the better hypothesis, then to the lower token id.
- The search is done when `beam` hypotheses are finished, or at `max_length` tokens: what is active then is cut.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from ..errors import CheckpointError, InputError
from ..text.beams import BeamTree, Node, Status
from .common import changed_context, in_single
from .protocols import Decodable, written_length, written_pad

__all__ = ["BeamTree", "Decodable", "DecodingOptions", "decode", "likeliest", "teacher_forced"]

MAX_BEAM = 16
"""Widest beam: translations stop improving far below, and a wider tree cannot be read."""

MAX_LENGTH_PENALTY = 4.0
"""Highest exponent of the length: past it the longest hypothesis wins, whatever it says."""

MAX_LENGTH = 1_000
"""Most tokens that one target may be allowed."""


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
            if value > -inf
        )[: 2 * beam]
        step = self.active[0].step + 1
        ended = [token == self.eos_id for _, _, token, _ in extensions]
        self.finished += sum(ended[:beam])
        if self.finished >= beam:  # nothing goes on, and nothing is cut: enough others are complete
            unfinished: Status = "pruned"
        else:
            unfinished = "cut" if step == self.options.max_length else "kept"
        active, parents, room = [], [], beam
        for rank, ((loss, parent, token, value), end) in enumerate(zip(extensions, ended, strict=True)):
            status: Status = "pruned"
            if end and rank < beam:
                status = "finished"
            elif not end and room:
                status, room = unfinished, room - 1
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


def decode(
    model: Decodable,
    source: Int[Tensor, "batch source"],
    options: DecodingOptions | None = None,
    cached: bool = True,
    between: Callable[[], None] | None = None,
) -> list[BeamTree]:
    """The tree of the search for each source row; its best hypothesis is the target.

    A target never gets longer than the model has positions for, whatever `options` allow; what is unfinished there is
    cut.

    `cached=False` reads every prefix anew at each step: slow, and the reference for the cached way. `between` is called
    between two steps.

    Raises:
        CheckpointError: the model's output is not a distribution (NaN, or nothing that could be written).
    """
    options = options or DecodingOptions()
    options = replace(options, max_length=min(options.max_length, written_length(model.config)))
    if not len(source):
        return []
    config = model.config
    unwritten = [token for token in {written_pad(config), config.bos_id} - {config.eos_id} if token >= 0]
    never = torch.tensor(unwritten, dtype=torch.long, device=source.device)
    searches = [Search(options, config.bos_id, config.eos_id) for _ in range(len(source))]
    unfinished = searches
    with torch.inference_mode():
        cache: Any = model.start(source) if cached else _Uncached(model, source)
        step = model.step if cached else cache.step
        while unfinished:
            new = torch.tensor([[node.token] for search in unfinished for node in search.active], device=source.device)
            log_probs = F.log_softmax(in_single(step(new, cache)), dim=-1)
            found, tokens = likeliest(log_probs.index_fill_(1, never, -torch.inf), 2 * options.beam)
            values = found.tolist()
            if not all(isfinite(row[0]) for row in values):
                raise CheckpointError("nothing_to_write")
            rows, chosen = list[int](), tokens.tolist()  # what each active hypothesis continues
            start = 0
            for search in unfinished:
                here = slice(start, start + len(search.active))
                rows += [start + parent for parent in search.advance(values[here], chosen[here])]
                start = here.stop
            unfinished = [search for search in unfinished if search.active]
            if unfinished and between is not None:
                between()
            if unfinished and rows != list(range(len(new))):
                cache.reorder(torch.tensor(rows, device=source.device))
    return [BeamTree(tuple(search.nodes)) for search in searches]


def likeliest(log_probs: Float[Tensor, "row vocab"], k: int) -> tuple[Float[Tensor, "row k"], Int[Tensor, "row k"]]:
    """The `k` highest values of each row and where they stand (all, if there are fewer); of equals the lower ids."""
    k = min(k, log_probs.shape[-1])
    values, ids = log_probs.topk(min(k + 1, log_probs.shape[-1]), dim=-1)  # one more, which may equal the last
    tied = (values[:, 1:] == values[:, :-1]).any(-1)
    values, ids = values[:, :k], ids[:, :k]
    if bool(tied.any()):  # topk takes equals in any order; a stable sort takes the first one first
        ordered = log_probs[tied].sort(dim=-1, descending=True, stable=True)
        values[tied], ids[tied] = ordered.values[:, :k], ordered.indices[:, :k]
    return values, ids


def teacher_forced(
    model: Decodable, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch written"]:
    """Log-probability (nats) of each token of given targets after the start token; 0 at padding.

    `target` rows begin with the start token and, like a translation, usually finish with the end token.
    """
    log_probs = F.log_softmax(model(source, target[:, :-1]), dim=-1)
    written = target[:, 1:]
    chosen = log_probs.gather(-1, written[..., None])[..., 0]
    return chosen.masked_fill(written == written_pad(model.config), 0.0)


class _Uncached:
    """A model that caches nothing, and all that it read and wrote: each step passes everything through it."""

    def __init__(self, model: Decodable, source: Tensor) -> None:
        self.model, self.source, self.written = model, source, source.new_empty(len(source), 0)

    def reorder(self, rows: Tensor) -> None:
        self.source, self.written = self.source[rows], self.written[rows]

    def step(self, new: Tensor, _: "_Uncached") -> Tensor:
        self.written = torch.cat([self.written, new], dim=1)
        with changed_context(position_offset=0):  # all rows that there are so far; more follow
            return self.model(self.source, self.written)[:, -1]
