"""Attention that pools, and one attention in many forms of words."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import (
    CASES,
    Brute,
    Case,
    Lambda,
    Sizes,
    Table,
    case,
    dots,
    joined,
    ready,
    softmax,
    split,
)

Mix = Callable[[Tensor, Tensor], Tensor]

POOLED: dict[str, Mix] = {
    "by_product_and_sum": lambda w, x: (w.unsqueeze(-1) * x).sum(1),
    "with_values_on_the_left": lambda w, x: (x.transpose(1, 2) @ w.unsqueeze(2)).squeeze(2),
}
"""How a learned query's weights pool a sequence, in two of the forms that people write."""


def pooling(mix: Mix) -> Callable[[Sizes], Case]:
    def pool(m: Any, x: Tensor, real: Tensor) -> Tensor:
        scores = torch.matmul(x, m.query.w) / x.shape[-1] ** 0.5
        return mix(torch.softmax(scores.masked_fill(~real, -torch.inf), dim=1), x)

    def build(s: Sizes) -> Case:
        model, x = ready(Lambda(pool, query=Table(s.d))), s.y
        real = torch.arange(s.keys)[None] < torch.randint(2, s.keys + 1, (s.batch, 1))

        def reference(brute: Brute) -> Tensor:
            scores = (x * model.query.w).sum(-1) / s.d**0.5 + torch.where(real, 0.0, -torch.inf)
            return brute.mix("Lambda", scores[:, None, None], x[:, None])[:, 0, 0]

        return Case(model, (x, real), reference)

    return build


CASES |= {f"pooled_{name}": pooling(mix) for name, mix in POOLED.items()}


def instances(m: Any, bag: Tensor) -> Tensor:
    """Ilse et al. 2018: a bag of instances without a batch axis, gated scores, `mm`."""
    h = bag.squeeze(0)
    a = m.w(torch.tanh(m.V(h)) * torch.sigmoid(m.U(h)))
    return torch.mm(F.softmax(torch.transpose(a, 1, 0), dim=1), h)


@case
def a_bag_of_instances(s: Sizes) -> Case:
    parts = {"V": nn.Linear(s.d, 2 * s.d), "U": nn.Linear(s.d, 2 * s.d), "w": nn.Linear(2 * s.d, 3)}
    model, bag = ready(Lambda(instances, **parts)), torch.randn(1, s.keys, s.d)

    def reference(brute: Brute) -> Tensor:
        scores = torch.stack([model.w(model.V(h).tanh() * model.U(h).sigmoid()) for h in bag[0]], -1)
        return brute.mix("Lambda", scores[None, None], bag[:, None])[0, 0]

    return Case(model, (bag,), reference)


@case
def heads_before_the_batch(s: Sizes) -> Case:
    """Set Transformer: heads lie one after the other along the batch."""

    def own_set(m: Any, q: Tensor, k: Tensor) -> Tensor:
        many = (f(t).split(s.d_head, 2) for f, t in ((m.fc_q, q), (m.fc_k, k), (m.fc_v, k)))
        many_q, many_k, many_v = (torch.cat(t, 0) for t in many)
        a = torch.softmax(many_q.bmm(many_k.transpose(1, 2)) / s.d**0.5, 2)
        return torch.cat((many_q + a.bmm(many_v)).split(q.size(0), 0), 2)

    parts = {name: nn.Linear(s.d, s.d) for name in ("fc_q", "fc_k", "fc_v")}
    model, x, y = ready(Lambda(own_set, **parts)), s.x, s.y

    def reference(brute: Brute) -> Tensor:
        q, k, v = (split(f(t), s.heads) for f, t in ((model.fc_q, x), (model.fc_k, y), (model.fc_v, y)))
        return joined(q + brute.mix("Lambda", dots(q, k, s.d**-0.5), v))

    return Case(model, (x, y), reference, flat="heads")


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
    "expanded": (lambda a, v: (v[:, None] * a[..., None].expand(*a.shape, v.shape[2])).sum(2), same),
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

    def attend(m: Any, x: Tensor, y: Tensor) -> Tensor:
        return mix(F.softmax(m.query(x) @ y.transpose(-2, -1) / x.shape[-1] ** 0.5, dim=-1), m.value(y))

    def build(s: Sizes) -> Case:
        model, x, y = ready(Lambda(attend, query=nn.Linear(s.d, s.d), value=nn.Linear(s.d, s.d))), s.x, s.y

        def reference(brute: Brute) -> Tensor:
            q, v = (t @ part.weight.T + part.bias for t, part in ((x, model.query), (y, model.value)))
            mixed = brute.mix("Lambda", dots(q[:, None], y[:, None]), v[:, None], used)[:, 0]
            if name != "weights_used_by_two":
                return mixed
            weights = softmax(dots(q[:, None], y[:, None]))[:, 0]
            return mixed + 0.5 * (weights * weights.log()).sum(-1, keepdim=True)

        return Case(model, (x, y), reference, changeable=used is same and name != "weights_used_by_two")

    return build


CASES |= {f"form_{name}": form(name) for name in FORMS}
