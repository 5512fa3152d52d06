"""A module, what it is called with, and a calculation of its own of what it attends to and gives on; how it is run.

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

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedmap import Intervention, intervening, recording
from tests.attention.interventions.by_hand import output_by_hand, row_by_hand

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
    `changeable`: weights of its softmax are what is mixed, so interventions have one meaning. `padded`: True
    at output rows of padding, which have no meaning.
    """

    module: nn.Module
    inputs: tuple[Any, ...]
    reference: Callable[[Brute], Any]
    flat: str = ""
    changeable: bool = True
    tolerance: float = 1e-12
    padded: Tensor | None = None


class Lambda(nn.Module):
    """Parts by name, and a forward over them."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.does = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.does(self, *inputs)


def linears(d: int, names: str, to: int = 0, bias: bool = True) -> dict[str, nn.Module]:
    """A Linear for each of the names, which are divided by spaces."""
    return {name: nn.Linear(d, to or d, bias=bias) for name in names.split()}


class Table(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(shape))


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

    def padding(self, n: int) -> Tensor:
        """True at the padded end of each of a batch of so many positions, of which at least three are real."""
        return torch.arange(n)[None] >= torch.randint(3, n + 1, (self.batch, 1))

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


MODES = {"gradients": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


def run(case: Case, module: nn.Module | None = None) -> list[Tensor]:
    """What the module gives on, as a list of tensors; random numbers are the same each time."""
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        warnings.filterwarnings("ignore", "Support for mismatched")
        return tensors((case.module if module is None else module)(*case.inputs))


def by_brute_force(case: Case, edit: Edit | None = None) -> tuple[list[Tensor], Brute]:
    """What the reference gives on, and what it mixed."""
    brute = Brute(edit)
    torch.manual_seed(1)
    with torch.no_grad():
        return tensors(case.reference(brute)), brute


def tensors(output: Any) -> list[Tensor]:
    """The tensors of an output, one after the other."""
    parts = output if isinstance(output, tuple | list) else (output,)
    return [part.detach() for part in parts if part is not None]


def assert_close(case: Case, found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Equal but for rounding and for rows of padding."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        real: Any = ... if case.padded is None else ~case.padded
        assert one.shape == other.shape
        if one.numel():
            assert float((one[real] - other[real]).abs().max()) <= tolerance


def has_fast_path(case: Case) -> bool:
    """Whether PyTorch may run its fused layers here, which hide everything: outputs are then equal but for rounding."""
    slopes = torch.is_grad_enabled() and any(one.requires_grad for one in case.module.parameters())
    theirs = nn.MultiheadAttention | nn.TransformerEncoderLayer
    return not case.module.training and not slopes and any(isinstance(one, theirs) for one in case.module.modules())


def recorded(seen: Any, site: str, count: int) -> np.ndarray:
    """The weights of all batch elements (batch, head, query, key)."""
    return np.stack([seen.map(site, batch=i).all_weights() for i in range(count)])


def assert_recorded(case: Case, seen: Any, brute: Brute) -> None:
    """Every site, in order, with every weight."""
    assert tuple(seen.sites) == tuple(brute.weights)
    for site, expected in brute.weights.items():
        weights = expected
        if case.flat and len(seen.map(site).all_weights()) == 1:  # heads are batch elements
            many = expected.transpose(0, 1) if case.flat == "heads" else expected
            weights = many.reshape(-1, 1, *many.shape[2:])
        assert_seen(seen, site, weights, case.tolerance)


def hooks_left(module: nn.Module) -> list[str]:
    """Names of submodules that have a hook."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [name for name, one in module.named_modules() if any(getattr(one, kind) for kind in kinds)]


@contextmanager
def nothing_left(module: nn.Module) -> Iterator[None]:
    """Functions, hooks, attributes and modes are afterwards what they were before."""
    parts = tuple(module.named_modules())

    def state() -> tuple[Any, ...]:
        functions = (F.softmax, torch.softmax, Tensor.softmax, F.scaled_dot_product_attention, torch.bmm, torch.matmul)
        fields = {name: [key for key in one.__dict__ if key[0] == "_" or key == "forward"] for name, one in parts}
        fast = torch.backends.mha.get_fastpath_enabled()
        return functions, fields, fast, torch._C._len_torch_function_stack(), module.training

    before = state()
    try:
        yield
    finally:
        assert hooks_left(module) == []
        assert state() == before


def changed_by(*interventions: Intervention) -> Edit:
    """What interventions make of one attention, cell by cell, from their definitions."""

    def edit(site: str, scores: Tensor, weights: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        here = [one for one in interventions if one.site == site]
        if not here:
            return weights, weights @ values
        weights = torch.empty_like(weights)
        mixed = values.new_empty(*weights.shape[:3], values.shape[-1])
        for b, h, t in np.ndindex(*scores.shape[:3]):
            sees = (scores[b, h, t] > -torch.inf).tolist()
            weights[b, h, t] = torch.tensor(row_by_hand(scores[b, h, t].tolist(), sees, first + t, h, b, here))
            mixed[b, h, t] = output_by_hand(weights[b, h, t] @ values[b, h], first + t, h, b, here)
        return weights, mixed

    return edit


def changed_run(case: Case, *changes: Intervention, edit: Edit | None = None) -> tuple[list[Tensor], Brute]:
    """A run that is changed, and seen, as brute force changes it; what that gives on, and what it mixed."""
    expected, brute = by_brute_force(case, edit or changed_by(*changes))
    with torch.no_grad(), nothing_left(case.module), recording(case.module) as seen, intervening(changes):
        output = run(case)[:1]  # weights that a module gives away besides are its own affair
    assert_close(case, output, expected[:1], 1e-11)
    assert_recorded(case, seen, brute)
    assert all(seen.map(one.site).interventions == changes for one in changes)
    return expected, brute


def watched(module: nn.Module, *inputs: Any, **more: Any) -> tuple[Any, Tensor]:
    """What was seen of a run that kept its bits and left nothing behind, and what it gave."""
    torch.manual_seed(1)
    plain = module(*inputs, **more)
    torch.manual_seed(1)
    with nothing_left(module), recording(module) as seen:
        output = module(*inputs, **more)
    assert torch.equal(plain, output)
    return seen, output.detach()


def assert_seen(seen: Any, site: str, weights: Tensor, tolerance: float = 1e-12) -> None:
    found = recorded(seen, site, seen.source(site).n_sentences)
    assert found.shape == tuple(weights.shape), site
    assert abs(found - weights.detach().numpy()).max() <= tolerance, site
