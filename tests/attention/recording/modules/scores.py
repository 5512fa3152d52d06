"""Decoders whose scores are more than scaled dot products: positions, caps, windows, sinks, mixed heads."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Sizes, case, causal, dots, joined, softmax, split
from tests.attention.recording.modules.decoders import Projections, decoder, parts


class Rotary(Projections):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        angles = torch.outer(torch.arange(x.shape[1]), 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        q, k = (t * cos + torch.cat((-t[..., self.size // 2 :], t[..., : self.size // 2]), -1) * sin for t in (q, k))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


@case
def rotary(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        half = a.size // 2
        turned = []
        for t in (q, k):  # each pair as a complex number that turns by position times frequency
            pair = torch.complex(t[..., :half], t[..., half:])
            angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(half) / half)
            pair = pair * torch.polar(torch.ones_like(angles), angles)
            turned.append(torch.cat([pair.real, pair.imag], -1))
        return a.o_proj(joined(brute.mix(site, dots(turned[0], turned[1]) + causal(x.shape[1]), v)))

    return decoder(s, lambda: Rotary(s.d, s.heads), reference, fused=True)


class Linear(Projections):
    """ALiBi as in BLOOM: baddbmm over batch times heads."""

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = (t.reshape(b * self.heads, n, self.size) for t in self.qkv(x))
        slopes = 2.0 ** -torch.arange(1, self.heads + 1)
        alibi = (slopes[:, None, None] * torch.arange(n)).expand(self.heads, 1, n).repeat(b, 1, 1)
        scores = alibi.baddbmm(q, k.transpose(1, 2), beta=1.0, alpha=self.size**-0.5).view(b, self.heads, n, n)
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), torch.finfo(scores.dtype).min)
        probs = F.softmax(scores, dim=-1).view(b * self.heads, n, n)
        return self.out(torch.bmm(probs, v).view(b, self.heads, n, self.size))


@case
def linear_biases(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        slopes = torch.tensor([2.0 ** -(h + 1) for h in range(a.heads)])[:, None, None]
        scores = dots(q, k) + slopes * torch.arange(x.shape[1]) + causal(x.shape[1])
        return a.o_proj(joined(brute.mix(site, scores, v)))

    return decoder(s, lambda: Linear(s.d, s.heads), reference)


class Relative(Projections):
    """Shaw et al. 2018: vectors for distances beside keys and beside values, so weights are used twice."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__(d, heads)
        self.near, self.rel_k, self.rel_v = 3, nn.Embedding(7, self.size), nn.Embedding(7, self.size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        places = torch.arange(x.shape[1])
        far = (places[None] - places[:, None]).clamp(-self.near, self.near) + self.near
        scores = (q @ k.transpose(-2, -1) + torch.einsum("bhqd,qkd->bhqk", q, self.rel_k(far))) / math.sqrt(self.size)
        weights = torch.softmax(scores, dim=-1)
        moved = torch.matmul(weights.permute(2, 0, 1, 3).flatten(1, 2), self.rel_v(far))
        b, h, n, _ = q.shape
        return self.out(torch.matmul(weights, v) + moved.view(n, b, h, -1).permute(1, 2, 0, 3))


@case
def relative_keys_and_values(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        n = x.shape[1]
        index = torch.tensor([[max(-3, min(3, j - i)) + 3 for j in range(n)] for i in range(n)])
        scores = (dots(q, k, 1.0) + (q[:, :, :, None] * a.rel_k.weight[index]).sum(-1)) * a.size**-0.5
        mixed = brute.mix(site, scores, v)
        return a.o_proj(joined(mixed + (softmax(scores)[..., None] * a.rel_v.weight[index]).sum(-2)))

    return decoder(s, lambda: Relative(s.d, s.heads), reference, changeable=False)


class Buckets(Projections):
    """T5: no scale, a learned bias of distance by head."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__(d, heads, bias=False)
        self.relative_attention_bias = nn.Embedding(16, heads)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        places = torch.arange(x.shape[1])
        bias = self.relative_attention_bias((places[:, None] - places).abs()).permute(2, 0, 1).unsqueeze(0)
        weights = nn.functional.softmax((torch.matmul(q, k.transpose(3, 2)) + bias).float().double(), dim=-1)
        return self.out(torch.matmul(nn.functional.dropout(weights, 0.1, training=self.training), v))


@case
def bias_of_distance_without_a_scale(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        n = x.shape[1]
        index = torch.tensor([[abs(i - j) for j in range(n)] for i in range(n)])
        scores = dots(q, k, 1.0) + a.relative_attention_bias.weight[index].permute(2, 0, 1)
        return a.o_proj(joined(brute.mix(site, scores.float().double(), v)))

    return decoder(s, lambda: Buckets(s.d, s.heads), reference, tolerance=1e-5)


class Talking(Projections):
    """Shazeer et al. 2020: Linears over heads before and after the softmax."""

    def __init__(self, d: int, heads: int, form: str) -> None:
        super().__init__(d, heads)
        self.before, self.after, self.form = nn.Linear(heads, heads, False), nn.Linear(heads, heads, False), form

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        logits = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.size**-0.5
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        if self.form == "linear":
            logits = self.before(logits.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).masked_fill(hidden, -torch.inf)
            weights = self.after(logits.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        else:
            logits = torch.einsum("bhqk,gh->bgqk", logits, self.before.weight).masked_fill(hidden, -torch.inf)
            weights = torch.einsum("bhqk,gh->bgqk", logits.softmax(-1), self.after.weight)
        return self.out(weights @ v)


def talking(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
    q, k, v = parts(a, x)

    def over(t: Tensor, table: Tensor) -> Tensor:
        return torch.stack([sum(t[:, h] * row[h] for h in range(len(row))) for row in table], 1)  # type: ignore[misc]

    scores = over(dots(q, k), a.before.weight) + causal(x.shape[1])
    return a.o_proj(joined(brute.mix(site, scores, v, lambda weights: over(weights, a.after.weight))))


@case
def talking_heads_by_linear(s: Sizes) -> Case:
    return decoder(s, lambda: Talking(s.d, s.heads, "linear"), talking, changeable=False)


@case
def talking_heads_by_einsum(s: Sizes) -> Case:
    return decoder(s, lambda: Talking(s.d, s.heads, "einsum"), talking, changeable=False)


class Sinks(Projections):
    """gpt-oss: one learned score a head, which takes weight and is then left out."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__(d, heads)
        self.sinks = nn.Parameter(torch.zeros(heads))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        b, _, n, _ = q.shape
        scores = (q @ k.transpose(2, 3)) * self.size**-0.5 + torch.full((n, n), -torch.inf).triu(1)
        combined = torch.cat([scores, self.sinks.reshape(1, -1, 1, 1).expand(b, -1, n, -1)], dim=-1)
        combined = combined - combined.max(dim=-1, keepdim=True).values
        probs = F.softmax(combined, dim=-1, dtype=combined.dtype)
        return self.out(F.dropout(probs[..., :-1], 0.1, self.training) @ v)


@case
def a_score_that_is_no_key(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        b, h, n, _ = q.shape
        sinks = a.sinks[None, :, None, None].repeat(b, 1, n, 1)
        values = torch.cat([v, torch.zeros(b, h, 1, a.size)], 2)
        return a.o_proj(joined(brute.mix(site, torch.cat([dots(q, k) + causal(n), sinks], -1), values)))

    return decoder(s, lambda: Sinks(s.d, s.heads), reference, changeable=False)


class NullKey(Projections):
    """A learned key and value before all others (lucidrains): rows sum to 1 over one key more than positions."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__(d, heads)
        self.null = nn.Parameter(torch.randn(2, heads, 1, self.size))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        k, v = (torch.cat([null.expand(len(x), -1, -1, -1), t], -2) for null, t in zip(self.null, (k, v), strict=True))
        past = torch.ones(x.shape[1], x.shape[1] + 1, dtype=torch.bool).tril(1)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=past))


@case
def a_learned_key(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        k, v = (torch.cat([a.null[i][None].repeat(len(x), 1, 1, 1), t], 2) for i, t in enumerate((k, v)))
        hidden = torch.cat([torch.zeros(x.shape[1], 1), causal(x.shape[1])], 1)
        return a.o_proj(joined(brute.mix(site, dots(q, k) + hidden, v)))

    return decoder(s, lambda: NullKey(s.d, s.heads), reference, fused=True)


class Normed(Projections):
    """QK norm with a learned scale, a soft cap, a sliding window: one score after the other."""

    def __init__(self, d: int, heads: int, *, norm: bool = False, cap: float = 0.0, window: int = 0) -> None:
        super().__init__(d, heads)
        self.norm, self.cap, self.window = norm, cap, window
        self.q_norm, self.k_norm = nn.RMSNorm(self.size), nn.LayerNorm(self.size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        if self.norm:
            q, k = self.q_norm(q), self.k_norm(k)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if self.window:
            mask = mask.triu(1 - self.window)
        if not self.cap:
            return self.out(F.scaled_dot_product_attention(q, k, v, mask, scale=0.7))
        scores = torch.tanh(q @ k.transpose(-1, -2) * 0.7 / self.cap) * self.cap
        return self.out(nn.Softmax(dim=-1)(scores.where(mask, -torch.inf)).matmul(v))


def normed(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
    q, k, v = parts(a, x)
    if a.norm:
        q = q / (q.square().mean(-1, keepdim=True) + torch.finfo(q.dtype).eps).sqrt() * a.q_norm.weight
        k = (k - k.mean(-1, keepdim=True)) / (k.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
        k = k * a.k_norm.weight + a.k_norm.bias
    scores = dots(q, k, 0.7)
    if a.cap:
        scores = a.cap * torch.tanh(scores / a.cap)
    n = x.shape[1]
    for i in range(n):
        for j in range(n):
            if j > i or (a.window and j <= i - a.window):
                scores[..., i, j] = -torch.inf
    return a.o_proj(joined(brute.mix(site, scores, v)))


@case
def normed_queries_and_keys(s: Sizes) -> Case:
    return decoder(s, lambda: Normed(s.d, s.heads, norm=True), normed, fused=True)


@case
def capped_scores(s: Sizes) -> Case:
    return decoder(s, lambda: Normed(s.d, s.heads, cap=1.5), normed)


@case
def sliding_window(s: Sizes) -> Case:
    return decoder(s, lambda: Normed(s.d, s.heads, window=3), normed, fused=True)


class Disentangled(Projections):
    """DeBERTa: content to content, content to position and position to content, gathered."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__(d, heads)
        self.rel = nn.Embedding(32, d)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        n = x.shape[1]
        rel_k = self.k_proj(self.rel.weight[: 2 * n]).view(2 * n, self.heads, -1).transpose(0, 1)
        rel_q = self.q_proj(self.rel.weight[: 2 * n]).view(2 * n, self.heads, -1).transpose(0, 1)
        index = (torch.arange(n)[:, None] - torch.arange(n) + n).expand(len(x), self.heads, n, n)
        scores = q @ k.transpose(-1, -2) + torch.gather(q @ rel_k.transpose(-1, -2), -1, index)
        scores = scores + torch.gather(k @ rel_q.transpose(-1, -2), -1, index).transpose(-1, -2)
        return self.out(torch.softmax(scores / math.sqrt(3 * self.size), -1) @ v)


@case
def content_and_position_gathered(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        n, scores = x.shape[1], dots(q, k, 1.0)
        rel_q, rel_k = (split(f(a.rel.weight)[None], a.heads)[0] for f in (a.q_proj, a.k_proj))
        scores = torch.stack(
            [
                torch.stack(
                    [
                        scores[:, :, i, j]
                        + (q[:, :, i] * rel_k[:, i - j + n]).sum(-1)
                        + (k[:, :, j] * rel_q[:, j - i + n]).sum(-1)
                        for j in range(n)
                    ],
                    -1,
                )
                for i in range(n)
            ],
            -2,
        )
        return a.o_proj(joined(brute.mix(site, scores / (3 * a.size) ** 0.5, v)))

    return decoder(s, lambda: Disentangled(s.d, s.heads), reference)


class Exponentials(Projections):
    """Logarithms first, as losses are written; then weights, made to sum to 1 once more."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        logs = F.log_softmax(q @ k.mT * self.size**-0.5 + causal(x.shape[1]), dim=-1)
        return self.out(F.normalize(logs.exp(), p=1, dim=-1) @ v)


@case
def logarithms_first(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        return a.o_proj(joined(brute.mix(site, dots(q, k) + causal(x.shape[1]), v)))

    return decoder(s, lambda: Exponentials(s.d, s.heads), reference)
