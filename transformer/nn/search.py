"""Decoding: from a source to the likeliest target that a beam search finds. Greedy decoding is a beam of 1.

Any model that offers `Decodable` can be decoded. Sentences go through the model together; those that are finished
leave the batch. `beams` says what is searched; padding and the start token are never written.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer.errors import CheckpointError
from transformer.nn.common import in_single
from transformer.nn.protocols import Decodable, Stepwise, written_length, written_pad
from transformer.nn.run_context import changed_context
from transformer.text.beams import BeamTree, DecodingOptions, Search

__all__ = ["BeamTree", "Decodable", "Decoded", "DecodingOptions", "decode", "likeliest", "teacher_forced"]


@dataclass(frozen=True)
class Decoded:
    """What was decoded for one sentence: the best hypothesis, and the tree that it won in."""

    tree: BeamTree

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the best hypothesis, with the end token if it was written."""
        return tuple(node.token for node in self.tree.lineage(self.tree.best.id))

    @property
    def log_probs(self) -> tuple[float, ...]:
        """Natural logarithm of the probability of each of these tokens."""
        return tuple(node.log_prob for node in self.tree.lineage(self.tree.best.id))

    @property
    def log_prob(self) -> float:
        """Natural logarithm of the probability of all of them."""
        return self.tree.best.total

    @property
    def score(self) -> float:
        """The log-probability under the length penalty."""
        return self.tree.best.score

    @property
    def finished(self) -> bool:
        """Whether the end token was written; otherwise the maximum length cut the hypothesis."""
        return self.tree.best.status == "finished"


def decode(
    model: Decodable[Any],
    source: Int[Tensor, "batch source"],
    options: DecodingOptions | None = None,
    cached: bool = True,
    between: Callable[[], None] | None = None,
) -> list[Decoded]:
    """The best target of each source row, with the tree of its search.

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
    stepwise: Stepwise[Any] = model if cached else _Uncached(model)
    searches = [Search(options, config.bos_id, config.eos_id) for _ in range(len(source))]
    unfinished = searches
    with torch.inference_mode():
        cache = stepwise.start(source)
        while unfinished:
            new = torch.tensor([[node.token] for search in unfinished for node in search.active], device=source.device)
            log_probs = F.log_softmax(in_single(stepwise.step(new, cache)), dim=-1)
            found, tokens = likeliest(log_probs.index_fill_(1, never, -torch.inf), 2 * options.beam)
            values = found.tolist()
            if not all(isfinite(row[0]) for row in values):
                raise CheckpointError("nothing_to_write")
            rows = _advance(unfinished, values, tokens.tolist())
            unfinished = [search for search in unfinished if search.active]
            if unfinished and between is not None:
                between()
            if unfinished and rows != list(range(len(new))):
                cache.reorder(torch.tensor(rows, device=source.device))
    return [Decoded(search.tree()) for search in searches]


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
    model: Decodable[Any], source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch written"]:
    """Log-probability (nats) of each token of given targets after the start token; 0 at padding.

    `target` rows begin with the start token and, like a translation, usually finish with the end token.
    """
    log_probs = F.log_softmax(model(source, target[:, :-1]), dim=-1)
    written = target[:, 1:]
    chosen = log_probs.gather(-1, written[..., None])[..., 0]
    return chosen.masked_fill(written == written_pad(model.config), 0.0)


def _advance(searches: list[Search], values: list[list[float]], tokens: list[list[int]]) -> list[int]:
    """One step of every search; returns the batch row that each active hypothesis continues."""
    rows: list[int] = []
    start = 0
    for search in searches:
        stop = start + len(search.active)
        rows += [start + parent for parent in search.advance(values[start:stop], tokens[start:stop])]
        start = stop
    return rows


@dataclass
class _Prefix:
    """The uncached way's memory: nothing but what was read and written."""

    source: Tensor
    written: Tensor

    def reorder(self, rows: Tensor) -> None:
        self.source, self.written = self.source[rows], self.written[rows]


class _Uncached:
    """A model that caches nothing: each step passes the source and the whole prefix through it."""

    def __init__(self, model: Decodable[Any]) -> None:
        self.model = model

    def start(self, source: Tensor) -> _Prefix:
        return _Prefix(source, source.new_empty(len(source), 0))

    def step(self, new: Tensor, prefix: _Prefix) -> Tensor:
        prefix.written = torch.cat([prefix.written, new], dim=1)
        with changed_context(position_offset=0):  # all rows that there are so far; more follow
            return self.model(prefix.source, prefix.written)[:, -1]
