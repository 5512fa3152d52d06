"""One attention of queries, keys and values in many forms of words, and attention that pools."""

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
    causal,
    dots,
    joined,
    linears,
    ready,
    softmax,
    split,
)

Forward = Callable[[Any, Tensor, Tensor, Tensor], Tensor]
Changed = Callable[[Any, Tensor], Tensor]


def same(_: Any, table: Tensor) -> Tensor:
    return table


def projected(forward: Forward) -> Callable[[Any, Tensor, Tensor], Tensor]:
    return lambda m, x, y: m.out(forward(m, m.query(x), m.key(y), m.value(y)))


def attention(
    forward: Forward,
    *,
    many: bool = False,
    kv_heads: Callable[[int], int] = lambda heads: heads,
    scored: Changed = same,
    used: Changed = same,
    besides: Changed | None = None,
    parts: Callable[[Sizes], dict[str, Any]] = lambda _: {},
    flat: str = "",
) -> Callable[[Sizes], Case]:
    """`forward` mixes what a module projects (batch, position, features), by one head or by many.

    The others are of the reference: what becomes of the scores and of the weights, and what else is made of these.
    """

    def build(s: Sizes) -> Case:
        heads = s.heads if many else 1
        n, x, y = kv_heads(heads), s.x, s.y
        ends = linears(s.d, "query out") | linears(s.d, "key value", s.d // heads * n)
        model: Any = ready(Lambda(projected(forward), count=heads, **ends, **parts(s)))

        def reference(brute: Brute) -> Tensor:
            owners = torch.arange(heads) // (heads // n)
            q, k, v = (
                split(model.query(x), heads),
                split(model.key(y), n)[:, owners],
                split(model.value(y), n)[:, owners],
            )
            scores = scored(model, dots(q, k))
            mixed = joined(brute.mix("Lambda", scores, v, lambda weights: used(model, weights)))
            return model.out(mixed if besides is None else mixed + besides(model, softmax(scores)))

        return Case(model, (x, y), reference, flat=flat, changeable=used is same and besides is None)

    return build


def by_head(m: Any, *several: Tensor) -> list[Tensor]:
    size = several[0].shape[-1] // m.count
    return [t.view(*t.shape[:2], -1, size).transpose(1, 2) for t in several]


def together(mixed: Tensor) -> Tensor:
    return mixed.transpose(1, 2).contiguous().flatten(2)


def time_first(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """fairseq: positions first, (batch * heads, query, key), softmax in float and back."""
    n_batch, n_queries, d = q.shape
    q, k, v = (
        t.transpose(0, 1).contiguous().view(-1, n_batch * m.num_heads, d // m.num_heads).transpose(0, 1)
        for t in (q * (d // m.num_heads) ** -0.5, k, v)
    )
    scores = torch.bmm(q, k.transpose(1, 2)).view(n_batch, m.num_heads, n_queries, -1)
    weights = F.softmax(scores.view(n_batch * m.num_heads, n_queries, -1), dim=-1).type_as(scores)
    mixed = torch.bmm(F.dropout(weights, p=0.1, training=m.training), v)
    return mixed.transpose(0, 1).contiguous().view(n_queries, n_batch, d).transpose(0, 1)


def heads_first(m: Any, *several: Tensor) -> Tensor:
    """Set Transformer: heads lie one after the other along the batch."""
    q, k, v = (torch.cat(t.split(t.shape[2] // m.count, 2), 0) for t in several)
    weights = torch.softmax(q.bmm(k.transpose(1, 2)) / q.shape[2] ** 0.5, 2)
    return torch.cat(weights.bmm(v).split(len(several[0]), 0), 2)


def later(_: Any, scores: Tensor) -> Tensor:
    return scores + causal(*scores.shape[2:])


def einsums(scores: str, dim: int, mixed: str) -> Forward:
    """A softmax along axis `dim`; one head of keys and values stands without an axis for it."""

    def attend(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (t if t.shape[2] < q.shape[2] else t.unflatten(2, (m.count, -1)) for t in (q, k, v))
        energy = torch.einsum(scores, q, k) / q.shape[-1] ** 0.5
        ones = torch.ones(energy.shape[2:], dtype=torch.bool)
        energy.masked_fill_(ones.triu(1) if dim == 3 else ones.tril(-1), -torch.inf)
        return torch.einsum(mixed, v, torch.softmax(energy, dim=dim)).flatten(2)

    return attend


def fused(m: Any, *several: Tensor) -> Tensor:
    return together(F.scaled_dot_product_attention(*by_head(m, *several)))


def grouped(m: Any, *several: Tensor) -> Tensor:
    """Heads that share keys and values."""
    q, k, v = by_head(m, *several)
    return together(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


def apart(n_queries: int, n_keys: int) -> Tensor:
    """The number of a vector for each distance, up to three to each side."""
    return torch.tensor([[max(-3, min(3, j - i)) + 3 for j in range(n_keys)] for i in range(n_queries)])


def relative(m: Any, *several: Tensor) -> Tensor:
    """Shaw et al. 2018: vectors for distances beside the values, so weights are used twice."""
    q, k, v = by_head(m, *several)
    weights = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1)
    moved = torch.matmul(weights.permute(2, 0, 1, 3).flatten(1, 2), m.far(apart(*weights.shape[2:])))
    return together(torch.matmul(weights, v) + moved.unflatten(1, q.shape[:2]).permute(1, 2, 0, 3))


def talking(m: Any, *several: Tensor) -> Tensor:
    """Shazeer et al. 2020: Linears over heads before and after the softmax."""
    q, k, v = by_head(m, *several)
    logits = m.before((q @ k.mT * q.shape[-1] ** -0.5).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return together(m.after(logits.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v)


def convolved(m: Any, *several: Tensor) -> Tensor:
    """The same by convolutions of 1 x 1, as x-transformers does."""
    q, k, v = by_head(m, *several)
    return together(m.after(m.before(q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)) @ v)


def twice(make: Callable[[int], nn.Module]) -> Callable[[Sizes], dict[str, Any]]:
    return lambda s: {name: make(s.heads) for name in ("before", "after")}


def over(t: Tensor, table: Tensor) -> Tensor:
    """Sums of heads, by a table of their shares."""
    return torch.stack([sum(t[:, h] * row[h] for h in range(len(row))) for row in table], 1)  # type: ignore[misc]


CASES |= {
    "time_first_heads_in_the_batch": attention(
        time_first, many=True, parts=lambda s: {"num_heads": s.heads}, flat="batch"
    ),
    "heads_before_the_batch": attention(heads_first, many=True, flat="heads"),
    "counted_heads_before_the_batch": attention(heads_first, many=True, parts=lambda s: {"num_heads": s.heads}),
    "einsum_softmax_over_a_middle_axis": attention(
        einsums("bqhd,bkhd->bhkq", 2, "bkhd,bhkq->bqhd"), many=True, scored=later
    ),
    "multi_query_einsum": attention(
        einsums("bqhd,bkd->bhqk", 3, "bkd,bhqk->bqhd"), many=True, kv_heads=lambda _: 1, scored=later
    ),
    "fused": attention(fused, many=True),
    "grouped_queries_fused": attention(grouped, many=True, kv_heads=lambda heads: heads // 2, scored=later),
    **{
        f"talking_heads_by_{forward.__name__}": attention(
            forward,
            many=True,
            scored=lambda m, scores: over(scores, m.before.weight.flatten(1)),
            used=lambda m, weights: over(weights, m.after.weight.flatten(1)),
            parts=twice(make),
        )
        for forward, make in (
            (talking, lambda n: nn.Linear(n, n, bias=False)),
            (convolved, lambda n: nn.Conv2d(n, n, 1, bias=False)),
        )
    },
    "relative_values": attention(
        relative,
        many=True,
        besides=lambda m, w: joined((w[..., None] * m.far.weight[apart(*w.shape[2:])]).sum(-2)),
        parts=lambda s: {"far": nn.Embedding(7, s.d_head)},
    ),
}


def some(weights: Tensor) -> Tensor:
    """A mask for after the softmax: every third cell is 0."""
    cells = torch.arange(weights.shape[-2] * weights.shape[-1]).view(weights.shape[-2:])
    return (cells % 3 != 1).to(weights.dtype)


def renormed(weights: Tensor) -> Tensor:
    left = weights * some(weights)
    return left / left.sum(-1, keepdim=True)


def masked(_: Any, weights: Tensor) -> Tensor:
    return weights * some(weights)


def entropy(weights: Tensor) -> Tensor:
    return (weights * weights.log()).sum(-1, keepdim=True)


FORMS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], dict[str, Any]]] = {
    "baddbmm": (lambda a, v: torch.baddbmm(torch.zeros(1), a, v, beta=0), {}),
    "einsum_of_lists": (lambda a, v: torch.einsum(a, [0, 1, 2], v, [0, 2, 3], [0, 1, 3]), {}),
    "einsum_with_an_ellipsis": (lambda a, v: torch.einsum("...qk,...kd->...qd", a, v), {}),
    "expanded": (lambda a, v: (v[:, None] * a[..., None].expand(*a.shape, v.shape[2])).sum(2), {}),
    "values_on_the_left_transposed": (lambda a, v: (v.mT @ a.mT).mT, {}),
    "values_left_of_the_product": (lambda a, v: torch.sum(v.unsqueeze(1) * a.unsqueeze(-1), dim=-2), {}),
    "a_head_axis_put_in_and_out": (lambda a, v: (a[:, None] @ v[:, None]).squeeze(1), {}),
    "copied": (lambda a, v: torch.matmul(a.clone().contiguous().to(v.dtype), v), {}),
    "weights_filled": (lambda a, v: a.masked_fill(some(a) == 0, 0.0) @ v, {"used": masked}),
    "weights_chosen": (lambda a, v: torch.where(some(a) > 0, a, 0.0) @ v, {"used": masked}),
    "weights_renormalised": (lambda a, v: renormed(a) @ v, {"used": lambda _, a: renormed(a)}),
    "weights_used_by_two": (lambda a, v: a @ v + entropy(a), {"besides": lambda _, a: joined(entropy(a))}),
}
"""What mixes values by the weights of one head, and how a reference differs."""


def mixed_by(mix: Callable[[Tensor, Tensor], Tensor]) -> Forward:
    return lambda _, q, k, v: mix(F.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1), v)


CASES |= {f"form_{name}": attention(mixed_by(mix), **differs) for name, (mix, differs) in FORMS.items()}


def pooling(mix: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Sizes], Case]:
    """The weights of a learned query pool a sequence, of which some positions are padding."""

    def pool(m: Any, x: Tensor, real: Tensor) -> Tensor:
        scores = torch.matmul(x, m.query.w) / x.shape[-1] ** 0.5
        return mix(torch.softmax(scores.masked_fill(~real, -torch.inf), dim=1), x)

    def build(s: Sizes) -> Case:
        model, x, real = ready(Lambda(pool, query=Table(s.d))), s.y, ~s.padding(s.keys)

        def reference(brute: Brute) -> Tensor:
            scores = (x * model.query.w).sum(-1) / s.d**0.5 + torch.where(real, 0.0, -torch.inf)
            return brute.mix("Lambda", scores[:, None, None], x[:, None])[:, 0, 0]

        return Case(model, (x, real), reference)

    return build


CASES |= {
    "pooled_by_product_and_sum": pooling(lambda w, x: (w.unsqueeze(-1) * x).sum(1)),
    "pooled_with_values_on_the_left": pooling(lambda w, x: (x.transpose(1, 2) @ w.unsqueeze(2)).squeeze(2)),
}


def both(m: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Decomposable attention (Parikh et al. 2016): one table of scores, a softmax along each side.

    The first is of a module that gives weights, by which its caller mixes.
    """
    e = torch.matmul(m.f(a), m.f(b).transpose(1, 2))
    return torch.matmul(m.weigh(e), b), torch.matmul(F.softmax(e, dim=1).transpose(1, 2), a)


@case
def both_ways(s: Sizes) -> Case:
    weigh = Lambda(lambda _, scores: F.softmax(scores, dim=2))
    model, x, y = ready(Lambda(both, f=nn.Linear(s.d, s.d), weigh=weigh)), s.x * 0.3, s.y * 0.3

    def reference(brute: Brute) -> tuple[Tensor, Tensor]:
        e = dots(model.f(x)[:, None], model.f(y)[:, None], 1.0)
        first = brute.mix("Lambda#1", e, y[:, None])[:, 0]
        return first, brute.mix("Lambda#2", e.transpose(2, 3), x[:, None])[:, 0]

    return Case(model, (x, y), reference)


@case
def heads_of_a_list_whose_inputs_others_make(s: Sizes) -> Case:
    """Linformer: `query.3` makes the queries of `heads.3`."""
    makers = {
        name: nn.ModuleList(nn.Linear(s.d, s.d_head) for _ in range(s.heads)) for name in ("query", "key", "value")
    }
    heads = nn.ModuleList(Lambda(lambda _, q, k, v: (q @ k.mT).softmax(-1) @ v) for _ in range(s.heads))

    def made(m: Any, x: Tensor) -> list[list[Tensor]]:
        return [[one(x) for one in getattr(m, name)] for name in makers]

    def attend(m: Any, x: Tensor) -> Tensor:
        return torch.cat([head(*each) for head, *each in zip(m.heads, *made(m, x), strict=True)], -1)

    model, x = ready(Lambda(attend, heads=heads, **makers)), s.x

    def reference(brute: Brute) -> Tensor:
        q, k, v = (torch.stack(each, 1) for each in made(model, x))
        return joined(brute.mix("heads", dots(q, k, 1.0), v))

    return Case(model, (x,), reference)


def windows(m: Any, x: Tensor) -> list[Tensor]:
    """Queries, keys, values (batch, head, window, position, d_head) by windows of 3, after keys of the one before."""
    q, k, v = (t.unflatten(2, (-1, 3)) for t in by_head(m, *m.qkv(x).chunk(3, -1)))
    before = (F.pad(t, (0, 0, 0, 0, 1, 0), value=-1.0)[:, :, :-1] for t in (k, v))
    return [q, *(torch.cat([old, new], 3) for old, new in zip(before, (k, v), strict=True))]


def local(m: Any, x: Tensor) -> Tensor:
    q, k, v = (torch.cat([t.flatten(0, 1)], 0) for t in windows(m, x))  # what einops.pack does
    mixed = torch.einsum("bwij,bwjd->bwid", torch.softmax(torch.einsum("bwid,bwjd->bwij", q, k), -1), v)
    return together(mixed.unflatten(0, (len(x), m.count)).flatten(2, 3))


@case
def heads_and_windows_in_a_cat_of_one_tensor(s: Sizes) -> Case:
    model, x = ready(Lambda(local, qkv=nn.Linear(s.d, 3 * s.d), count=s.heads)), torch.randn(s.batch, 3 * s.keys, s.d)

    def reference(brute: Brute) -> Tensor:
        q, k, v = (t.transpose(1, 2).flatten(0, 1) for t in windows(model, x))
        return joined(brute.mix("Lambda", dots(q, k, 1.0), v)).view(x.shape)

    return Case(model, (x,), reference)


COPIES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "expand": lambda t, b: t[None].expand(b, -1, -1),
    "einops": lambda t, b: torch.broadcast_to(t.unsqueeze(0), (b, *t.shape)).contiguous(),
    "repeat": lambda t, b: t.repeat(b, 1, 1),
    "stack": lambda t, b: torch.stack([t] * b),
}


def by_axis(m: Any, *several: Tensor) -> Tensor:
    q, k, v = by_head(m, *several)
    return together((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)


def in_the_batch(m: Any, *several: Tensor) -> Tensor:
    """Heads beside one another, after the batch."""
    q, k, v = (t.flatten(0, 1) for t in by_head(m, *several))
    return together(((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).unflatten(0, (-1, m.count)))


def resampler(copies: Callable[[Tensor, int], Tensor], forward: Forward) -> Callable[[Sizes], Case]:
    """Latents that look at one another, then at what is read, then at one another: Q-Former, Perceiver."""

    def read(m: Any, x: Tensor, look: Callable[..., Tensor] = lambda one, *given: one(*given)) -> Tensor:
        t = m.norm(copies(m.latents.w, len(x)))
        for one in (m.alone, m.cross, m.after):
            t = t + look(one, t, x if one is m.cross else t)
        return t

    def build(s: Sizes) -> Case:
        heads, d = s.heads - 1, (s.heads - 1) * s.d_head  # one at times, as of the batch
        model: Any = Lambda(read, latents=Table(s.queries, d), norm=nn.LayerNorm(d))
        for site in ("alone", "cross", "after"):
            parts = linears(d, "query key value out")
            setattr(model, site, Lambda(projected(forward), count=heads, name=site, **parts))
        x = torch.randn(s.batch - 1, s.keys, d)

        def reference(brute: Brute) -> Tensor:
            def look(one: Any, x: Tensor, y: Tensor) -> Tensor:
                q, k, v = (split(t, heads) for t in (one.query(x), one.key(y), one.value(y)))
                return one.out(joined(brute.mix(one.name, dots(q, k), v)))

            return read(model, x, look)

        return Case(ready(model), (x,), reference)

    return build


CASES |= {
    f"learned_queries_{copies}_{forward.__name__}": resampler(make, forward)
    for copies, make in COPIES.items()
    for forward in (by_axis, in_the_batch, heads_first, fused)
}
