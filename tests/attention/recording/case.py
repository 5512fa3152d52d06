"""A module, what it is called with, and a calculation of its own of what it attends to and gives on.

A reference is written from the paper with exponentials and sums, in float64. Every attention in it goes through
`Brute.mix`, which keeps the weights by site and lets a test change them, so one reference serves records and
interventions. That the reference is right is itself tested: what it gives on is what the module gives on.
"""

import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)

Edit = Callable[[str, Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""Site, scores, weights, values and the first row's number to the weights and the head outputs of a changed run."""


@dataclass
class Brute:
    """Attention by brute force; what was mixed is kept by site, steps one below the other."""

    edit: Edit | None = None
    kept: dict[str, list[Tensor]] = field(default_factory=dict)
    scores: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)

    def mix(self, site: str, scores: Tensor, values: Tensor, after: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Mix values (batch, head, key, d) by the softmax of scores (batch, head, query, key); -inf is hidden."""
        weights = softmax(scores)
        if after is not None:
            weights = after(weights)
        mixed = weights[..., : values.shape[2]] @ values  # a column more is a sink's
        if self.edit is not None:
            first = sum(rows.shape[2] for rows in self.kept.get(site, []))
            weights, mixed = self.edit(site, scores, weights, values, first)
        self.kept.setdefault(site, []).append(weights)
        self.scores[site], self.values[site] = scores, values
        return mixed

    @property
    def weights(self) -> dict[str, Tensor]:
        """All that was mixed, by site; a step that saw fewer keys than the last one gave the others nothing."""
        found = {}
        for site, steps in self.kept.items():
            widest = max(step.shape[3] for step in steps)
            found[site] = torch.cat([nn.functional.pad(s, (0, widest - s.shape[3])) for s in steps], dim=2)
        return found


@dataclass(frozen=True)
class Case:
    """A module with inputs and its reference: what the module gives on, with all attention through the `Brute`.

    `flat`: the module itself puts batch and heads into one axis, the one that is named first; a record may do so, too.
    `changeable`: weights of its softmax are what is mixed, so interventions have one meaning. `fused`: no table of
    weights is ever made, nor kept. `padded`: True at output rows of padding, which have no meaning.
    """

    module: nn.Module
    inputs: tuple[Any, ...]
    reference: Callable[[Brute], Any]
    flat: str = ""
    changeable: bool = True
    tolerance: float = 1e-12
    fused: bool = False
    padded: Tensor | None = None


class Sizes:
    """Sizes that are all different, drawn at random; `d` is heads times `d_head`, which is even."""

    def __init__(self, seed: int) -> None:
        drawn = random.Random(seed)
        self.batch, self.heads = drawn.sample((2, 3, 4), 2)
        self.queries, self.keys = drawn.sample((5, 7, 9, 11, 13), 2)
        self.d_head = drawn.choice([size for size in (6, 8, 10) if size not in {self.batch, self.heads}])
        self.d = self.heads * self.d_head
        self.vocab = drawn.choice((17, 19, 23))

    @property
    def x(self) -> Tensor:
        """Input vectors for the queries."""
        return torch.randn(self.batch, self.queries, self.d)

    @property
    def y(self) -> Tensor:
        """Input vectors for the keys of another sequence."""
        return torch.randn(self.batch, self.keys, self.d)

    @property
    def ids(self) -> Tensor:
        """Token ids of the queries."""
        return torch.randint(self.vocab, (self.batch, self.queries))

    @property
    def other_ids(self) -> Tensor:
        """Token ids of the keys."""
        return torch.randint(self.vocab, (self.batch, self.keys))


CASES: dict[str, Callable[[Sizes], Case]] = {}


def case(build: Callable[[Sizes], Case]) -> Callable[[Sizes], Case]:
    """Enter a case under its function's name."""
    assert build.__name__ not in CASES
    CASES[build.__name__] = build
    return build


def built(name: str, seed: int = 0) -> Case:
    """A case in float64, with sizes and weights of its own; its module evaluates unless the case says otherwise."""
    number = zlib.crc32(name.encode()) + seed
    torch.manual_seed(number)
    with doubles(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        return CASES[name](Sizes(number))


@contextmanager
def doubles() -> Iterator[None]:
    """Float64 by default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def ready(module: M) -> M:
    """The module with every parameter away from its beginning (biases of 0, scales of 1), in eval mode."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return module.eval()


def softmax(scores: Tensor) -> Tensor:
    """Exponentials over their sum, along the last axis."""
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def split(x: Tensor, heads: int) -> Tensor:
    """(batch, position, d) to (batch, head, position, d / heads)."""
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def joined(x: Tensor) -> Tensor:
    """(batch, head, position, d_head) to (batch, position, d)."""
    return torch.cat(x.unbind(1), dim=-1)


def causal(n_queries: int, n_keys: int | None = None) -> Tensor:
    """Scores to add: -inf above the diagonal."""
    rows, columns = torch.arange(n_queries)[:, None], torch.arange(n_keys or n_queries)[None]
    return torch.where(columns > rows, -torch.inf, 0.0).double()


def dots(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """Scaled dot products (batch, head, query, key)."""
    return torch.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)


def multi_head(brute: Brute, site: str, m: nn.MultiheadAttention, q: Tensor, k: Tensor, added: Any = 0.0) -> Tensor:
    """`nn.MultiheadAttention` from its parameters, batch first; `added` goes onto the scores."""
    heads, d = m.num_heads, m.embed_dim
    weight, bias = m.in_proj_weight, m.in_proj_bias
    parts = [
        split(x @ weight[i * d : (i + 1) * d].T + bias[i * d : (i + 1) * d], heads) for i, x in enumerate((q, k, k))
    ]
    return m.out_proj(joined(brute.mix(site, dots(parts[0], parts[1]) + added, parts[2])))
