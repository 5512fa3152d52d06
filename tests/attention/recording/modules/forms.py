"""One attention in many forms of words: how its weights are changed after the softmax, and by what values are mixed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import CASES, Brute, Case, Sizes, dots, ready, softmax

Mix = Callable[[Tensor, Tensor], Tensor]


class Form(nn.Module):
    def __init__(self, d: int, mix: Mix) -> None:
        super().__init__()
        self.query, self.value, self.mix = nn.Linear(d, d), nn.Linear(d, d), mix

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.mix(F.softmax(self.query(x) @ y.transpose(-2, -1) / x.shape[-1] ** 0.5, dim=-1), self.value(y))


def some(weights: Tensor) -> Tensor:
    """A mask for after the softmax: every third cell is 0."""
    cells = torch.arange(weights.shape[-2] * weights.shape[-1]).view(weights.shape[-2:])
    return (cells % 3 != 1).to(weights.dtype)


def renormed(weights: Tensor) -> Tensor:
    left = weights * some(weights)
    return left / left.sum(-1, keepdim=True)


def same(weights: Tensor) -> Tensor:
    return weights


FORMS: dict[str, tuple[Mix, Callable[[Tensor], Tensor]]] = {
    "bmm": (torch.bmm, same),
    "baddbmm": (lambda a, v: torch.baddbmm(torch.zeros(1), a, v, beta=0), same),
    "einsum_of_lists": (lambda a, v: torch.einsum(a, [0, 1, 2], v, [0, 2, 3], [0, 1, 3]), same),
    "einsum_with_an_ellipsis": (lambda a, v: torch.einsum("...qk,...kd->...qd", a, v), same),
    "product_and_sum": (lambda a, v: (a[..., None] * v[:, None]).sum(2), same),
    "values_on_the_left_transposed": (lambda a, v: (v.mT @ a.mT).mT, same),
    "values_left_of_the_product": (lambda a, v: torch.sum(v.unsqueeze(1) * a.unsqueeze(-1), dim=-2), same),
    "a_head_axis_put_in_and_out": (lambda a, v: (a[:, None] @ v[:, None]).squeeze(1), same),
    "copied": (lambda a, v: torch.matmul(a.clone().contiguous().to(v.dtype), v), same),
    "weights_filled": (lambda a, v: a.masked_fill(some(a) == 0, 0.0) @ v, lambda a: a * some(a)),
    "weights_multiplied": (lambda a, v: (a * some(a)) @ v, lambda a: a * some(a)),
    "weights_chosen": (lambda a, v: torch.where(some(a) > 0, a, 0.0) @ v, lambda a: a * some(a)),
    "weights_renormalised": (lambda a, v: renormed(a) @ v, renormed),
    "weights_used_by_two": (lambda a, v: a @ v + 0.5 * (a * a.log()).sum(-1, keepdim=True), same),
}


def form(name: str) -> Callable[[Sizes], Case]:
    mix, used = FORMS[name]

    def build(s: Sizes) -> Case:
        model, x, y = ready(Form(s.d, mix)), s.x, s.y

        def reference(brute: Brute) -> Tensor:
            q, v = (t @ part.weight.T + part.bias for t, part in ((x, model.query), (y, model.value)))
            mixed = brute.mix("Form", dots(q[:, None], y[:, None]), v[:, None], used)[:, 0]
            if name != "weights_used_by_two":
                return mixed
            weights = softmax(dots(q[:, None], y[:, None]))[:, 0]
            return mixed + 0.5 * (weights * weights.log()).sum(-1, keepdim=True)

        return Case(model, (x, y), reference, changeable=used is same and name != "weights_used_by_two")

    return build


CASES |= {f"form_{name}": form(name) for name in FORMS}


class Differential(nn.Module):
    """Ye et al. 2024: the difference of two softmaxes is what mixes."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.qkv, self.share = nn.Linear(d, 5 * d), nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        q1, q2, k1, k2, v = self.qkv(x).chunk(5, -1)
        first, second = (torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) for q, k in ((q1, k1), (q2, k2)))
        return (first - self.share * second) @ v


def differential(s: Sizes) -> Case:
    model, x = ready(Differential(s.d)), s.x

    def reference(brute: Brute) -> Any:
        q1, q2, k1, k2, v = (t[:, None] for t in model.qkv(x).chunk(5, -1))
        return brute.mix("Differential", dots(q1, k1), v, lambda a: a - model.share * softmax(dots(q2, k2)))[:, 0]

    return Case(model, (x,), reference, changeable=False)


CASES["difference_of_two_softmaxes"] = differential
