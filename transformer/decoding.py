"""Decoding: from a source to the likeliest target that a beam search finds. Greedy decoding is a beam of 1.

Any model that offers `Decodable` can be decoded. Sentences go through the model together; those that are finished
leave the batch. The search, exactly:

- A hypothesis' total is the sum of its tokens' log-probabilities; its score is total / length ** length_penalty,
  where length counts its tokens with the end mark (`length_penalty` 0 ranks by probability, 1 by probability per
  token). Wu et al. 2016, section 7, use a smoothed form of the same length normalisation.
- A step extends every live hypothesis of a sentence by every token and considers the 2 x beam extensions with the
  highest totals. An end mark among the first `beam` of them finishes a hypothesis; the first `beam` others live on;
  the rest is pruned. Ties go to the extension of the better hypothesis, then to the lower token id.
- A sentence is done when `beam` hypotheses are finished, or at `max_length` tokens: what lives then is cut.
- Padding and the start mark are never written.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer.beams import BeamTree, Fate, Node
from transformer.errors import CheckpointError, InputError

__all__ = [
    "BeamTree",
    "Decodable",
    "Decoded",
    "DecodingOptions",
    "Fate",
    "Node",
    "decode",
    "likeliest",
    "teacher_forced",
]

MAX_BEAM = 16
"""Widest beam: translations stop improving far below, and a wider tree cannot be read."""

MAX_LENGTH_PENALTY = 4.0
"""Highest exponent of the length: past it the longest hypothesis wins, whatever it says."""

MAX_LENGTH = 1_000
"""Most tokens that one target may be allowed."""


@runtime_checkable
class Cache(Protocol):
    """What a model remembers of the rows that it decodes."""

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order; a row may be kept more than once."""


@runtime_checkable
class Marks(Protocol):
    """The token ids that mean no word."""

    @property
    def pad_id(self) -> int:
        """Fills up short rows."""

    @property
    def bos_id(self) -> int:
        """Starts every target."""

    @property
    def eos_id(self) -> int:
        """Ends every target."""


C = TypeVar("C", bound=Cache)


@runtime_checkable
class Stepwise(Protocol[C]):
    """What can be read token by token."""

    def start(self, source: Int[Tensor, "batch source"]) -> C:
        """Read the sources and stand before the first target token."""

    def step(self, new: Int[Tensor, "batch new"], cache: C) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them."""


@runtime_checkable
class Decodable(Stepwise[C], Protocol[C]):
    """What decoding needs of a model (in evaluation mode)."""

    @property
    def config(self) -> Marks:
        """Where the marks are found."""

    def __call__(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position (teacher forcing)."""


@dataclass(frozen=True)
class DecodingOptions:
    """How wide to search (1 is greedy), how to weigh length, and where to stop (tokens, the end mark counted)."""

    beam: int = 5
    length_penalty: float = 1.0
    max_length: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= MAX_BEAM:
            raise InputError(f"beam={self.beam} is out of range: choose 1 (greedy) to {MAX_BEAM}")
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise InputError(
                f"length_penalty={self.length_penalty} is out of range: choose 0 (none) to {MAX_LENGTH_PENALTY}"
            )
        if not 1 <= self.max_length <= MAX_LENGTH:
            raise InputError(f"max_length={self.max_length} is out of range: choose 1 to {MAX_LENGTH} tokens")

    def score(self, total: float, length: int) -> float:
        """What hypotheses of different lengths are compared by."""
        return total / length**self.length_penalty


@dataclass(frozen=True)
class Decoded:
    """The best hypothesis of one sentence: its tokens (the end mark too, if it was written), and the tree it won in."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    tree: BeamTree

    @property
    def log_prob(self) -> float:
        """Natural logarithm of the probability of all tokens."""
        return self.tree.best.total

    @property
    def score(self) -> float:
        """The log-probability under the length penalty."""
        return self.tree.best.score

    @property
    def finished(self) -> bool:
        """Whether the end mark was written; otherwise the maximum length cut the hypothesis."""
        return self.tree.best.fate == "finished"


def decode(
    model: Decodable[Any],
    source: Int[Tensor, "batch source"],
    options: DecodingOptions | None = None,
    cached: bool = True,
) -> list[Decoded]:
    """The best target of each source row, with the tree of its search.

    `cached=False` reads every prefix anew at each step: slow, and the reference for the cached way.

    Raises:
        CheckpointError: the model's output is not a distribution (NaN, or nothing that could be written).
    """
    options = options or DecodingOptions()
    if not len(source):
        return []
    marks = model.config
    never = sorted({marks.pad_id, marks.bos_id} - {marks.eos_id})
    reader: Stepwise[Any] = model if cached else _Uncached(model)
    searches = [_Search(options, marks) for _ in range(len(source))]
    active = searches
    with torch.inference_mode():
        cache = reader.start(source)
        while active:
            new = torch.tensor([[node.token] for search in active for node in search.alive], device=source.device)
            log_probs = F.log_softmax(reader.step(new, cache), dim=-1)
            log_probs[:, never] = -torch.inf
            values, tokens = likeliest(log_probs, 2 * options.beam)
            if not bool(values[:, 0].isfinite().all()):
                raise CheckpointError(
                    "the model predicts NaN, or nothing that could be written: its weights are damaged, load them anew"
                )
            rows = _advance(active, values.tolist(), tokens.tolist())
            active = [search for search in active if search.alive]
            if active and rows != list(range(len(new))):
                cache.reorder(torch.tensor(rows, device=source.device))
    return [search.decoded() for search in searches]


def likeliest(log_probs: Float[Tensor, "row vocab"], k: int) -> tuple[Float[Tensor, "row k"], Int[Tensor, "row k"]]:
    """The `k` highest values of each row and where they stand (all, if there are fewer); of equals the lower ids."""
    k = min(k, log_probs.shape[-1])
    values, ids = log_probs.topk(k, dim=-1)
    tied = ((log_probs >= values[:, -1:]).sum(-1) > k) | (values[:, 1:] == values[:, :-1]).any(-1)
    if bool(tied.any()):  # topk takes equals in any order; a stable sort takes the first one first
        ordered = log_probs[tied].sort(dim=-1, descending=True, stable=True)
        values[tied], ids[tied] = ordered.values[:, :k], ordered.indices[:, :k]
    return values, ids


def teacher_forced(
    model: Decodable[Any], source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch written"]:
    """Log-probability (nats) of each token of given targets after the start mark; 0 at padding.

    `target` rows begin with the start mark and, like a translation, usually finish with the end mark.
    """
    log_probs = F.log_softmax(model(source, target[:, :-1]), dim=-1)
    written = target[:, 1:]
    chosen = log_probs.gather(-1, written[..., None])[..., 0]
    return chosen.masked_fill(written == model.config.pad_id, 0.0)


class _Search:
    """The search for one sentence: its tree so far, and the hypotheses that live."""

    def __init__(self, options: DecodingOptions, marks: Marks) -> None:
        self.options = options
        self.eos_id = marks.eos_id
        self.nodes = [Node(0, None, marks.bos_id, 0, 0.0, 0.0, 0.0, 0, "kept")]
        self.alive = self.nodes[:]
        self.finished = 0

    def advance(self, values: list[list[float]], tokens: list[list[int]]) -> list[int]:
        """Take one step, given the likeliest next tokens of each live hypothesis.

        Returns the old place of each survivor's parent among the live ones.
        """
        beam = self.options.beam
        extensions = sorted(
            (-(self.alive[place].total + value), place, token, value)
            for place, row in enumerate(zip(values, tokens, strict=True))
            for value, token in zip(*row, strict=True)
            if value > -torch.inf
        )[: 2 * beam]
        step = self.alive[0].step + 1
        ended = [token == self.eos_id for _, _, token, _ in extensions]
        self.finished += sum(ended[:beam])
        living: Fate = "cut" if step == self.options.max_length else "kept"
        if self.finished >= beam:
            living = "pruned"
        survivors: list[Node] = []
        parents: list[int] = []
        room = beam
        for rank, ((loss, place, token, value), end) in enumerate(zip(extensions, ended, strict=True)):
            fate: Fate = "pruned"
            if end and rank < beam:
                fate = "finished"
            elif not end and room:
                fate, room = living, room - 1
            node = Node(
                id=len(self.nodes),
                parent=self.alive[place].id,
                token=token,
                step=step,
                log_prob=value,
                total=-loss,
                score=self.options.score(-loss, step),
                rank=rank,
                fate=fate,
            )
            self.nodes.append(node)
            if fate == "kept":
                survivors.append(node)
                parents.append(place)
        self.alive = survivors
        return parents

    def decoded(self) -> Decoded:
        """The answer, once nothing lives."""
        tree = BeamTree(tuple(self.nodes))
        line = tree.lineage(tree.best.id)
        return Decoded(tuple(node.token for node in line), tuple(node.log_prob for node in line), tree)


def _advance(active: list[_Search], values: list[list[float]], tokens: list[list[int]]) -> list[int]:
    """One step of every search; returns the batch row that each live hypothesis continues."""
    rows: list[int] = []
    start = 0
    for search in active:
        stop = start + len(search.alive)
        rows += [start + place for place in search.advance(values[start:stop], tokens[start:stop])]
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
    """A model that remembers nothing: each step passes the source and the whole prefix through it."""

    def __init__(self, model: Decodable[Any]) -> None:
        self.model = model

    def start(self, source: Tensor) -> _Prefix:
        return _Prefix(source, source.new_empty(len(source), 0))

    def step(self, new: Tensor, prefix: _Prefix) -> Tensor:
        prefix.written = torch.cat([prefix.written, new], dim=1)
        return self.model(prefix.source, prefix.written)[:, -1]
