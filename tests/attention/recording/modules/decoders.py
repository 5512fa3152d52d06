"""Decoder-only models: nanoGPT and its many forks, with attention and scores written in styles of their own."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import (
    Brute,
    Case,
    Lambda,
    Sizes,
    case,
    causal,
    dots,
    joined,
    linears,
    ready,
    softmax,
    split,
)


class Block(nn.Module):
    def __init__(self, d: int, attn: nn.Module) -> None:
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(d), nn.LayerNorm(d), attn
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d + 1), nn.GELU(), nn.Linear(2 * d + 1, d))

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(x, self.attn)

    def mixed(self, x: Tensor, attn: Callable[[Tensor], Tensor]) -> Tensor:
        x = x + attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Decoder(nn.Module):
    def __init__(self, vocab: int, d: int, attentions: list[nn.Module]) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.blocks = nn.ModuleList(Block(d, attn) for attn in attentions)
        self.ln_f, self.lm_head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


Reference = Callable[[Brute, str, Any, Tensor], Tensor]


def decoder(s: Sizes, make: Callable[[], nn.Module], reference: Reference, name: str = "attn", **options: Any) -> Case:
    """Two blocks around an attention; `reference` is that of the attention."""
    model = ready(Decoder(s.vocab, s.d, [make(), make()]))

    def whole(brute: Brute, ids: Tensor) -> Tensor:
        x = model.wte(ids) + model.wpe(torch.arange(ids.shape[1]))
        for i, block in enumerate(model.blocks):
            x = block.mixed(x, lambda h, i=i, block=block: reference(brute, f"blocks.{i}.{name}", block.attn, h))
        return model.lm_head(model.ln_f(x))

    ids = s.ids
    return Case(model, (ids,), lambda brute: whole(brute, ids), **options)


class Projections(nn.Module):
    """Four Linears and a number of heads, which most attentions begin with; `attend` is the forward pass."""

    def __init__(
        self, attend: Callable[[Any, Tensor], Tensor], s: Sizes, kv_heads: int = 0, bias: bool = True, **more: nn.Module
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size, self.attend = s.heads, kv_heads or s.heads, s.d_head, attend
        self.q_proj, self.o_proj = nn.Linear(s.d, s.d, bias=bias), nn.Linear(s.d, s.d, bias=bias)
        self.k_proj, self.v_proj = (nn.Linear(s.d, self.kv_heads * self.size, bias=bias) for _ in range(2))
        for name, module in more.items():
            setattr(self, name, module)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(self, x)

    def qkv(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.kv_heads, self.size).transpose(1, 2)
        return q, k, self.v_proj(x).view(b, n, self.kv_heads, self.size).transpose(1, 2)

    def out(self, mixed: Tensor) -> Tensor:
        b, _, n, _ = mixed.shape
        return self.o_proj(mixed.transpose(1, 2).contiguous().view(b, n, -1))


def parts(a: Projections, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values by head; where heads share keys, the keys are there several times."""
    q, k, v = split(a.q_proj(x), a.heads), split(a.k_proj(x), a.kv_heads), split(a.v_proj(x), a.kv_heads)
    owners = torch.arange(a.heads) // (a.heads // a.kv_heads)
    return q, k[:, owners], v[:, owners]


def plain(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
    q, k, v = parts(a, x)
    return a.o_proj(joined(brute.mix(site, dots(q, k) + causal(x.shape[1]), v)))


def of_fused(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
    q, k, v = (split(part, a.n_head) for part in (x @ a.c_attn.weight.T + a.c_attn.bias).chunk(3, -1))
    return a.c_proj(joined(brute.mix(site, dots(q, k) + causal(x.shape[1]), v)))


class NanoGPT(nn.Module):
    def __init__(self, d: int, n_head: int, flash: bool, dropout: float = 0.1) -> None:
        super().__init__()
        self.c_attn, self.c_proj, self.n_head, self.flash = nn.Linear(d, 3 * d), nn.Linear(d, d), n_head, flash
        self.dropout, self.attn_dropout, self.n_embd = dropout, nn.Dropout(dropout), d
        self.register_buffer("bias", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        q = q.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        v = v.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        if self.flash:
            p = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=p, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


@case
def nanogpt_fused(s: Sizes) -> Case:
    return decoder(s, lambda: NanoGPT(s.d, s.heads, True), of_fused)


@case
def nanogpt_written_out(s: Sizes) -> Case:
    return decoder(s, lambda: NanoGPT(s.d, s.heads, False), of_fused)


def own_head(m: Any, x: Tensor) -> Tensor:
    t = x.shape[1]
    wei = m.query(x) @ m.key(x).transpose(-2, -1) * x.shape[-1] ** -0.5
    return m.dropout(F.softmax(wei.masked_fill(m.tril[:t, :t] == 0, float("-inf")), dim=-1)) @ m.value(x)


@case
def a_module_per_head(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = (torch.stack([x @ getattr(h, n).weight.T for h in a.heads], 1) for n in ("query", "key", "value"))
        return a.proj(joined(brute.mix(site, dots(q, k, x.shape[-1] ** -0.5) + causal(x.shape[1]), v)))

    def several() -> nn.Module:
        more = {"tril": torch.tril(torch.ones(64, 64)), "dropout": nn.Dropout(0.2)}
        every = (linears(s.d, "key query value", s.d_head, bias=False) for _ in range(s.heads))
        heads = nn.ModuleList([Lambda(own_head, **parts, **more) for parts in every])
        proj = nn.Linear(s.d, s.d)
        return Lambda(lambda m, x: m.proj(torch.cat([h(x) for h in m.heads], dim=-1)), heads=heads, proj=proj)

    return decoder(s, several, reference, name="attn.heads")


def key_first(a: Any, x: Tensor) -> Tensor:
    """The softmax runs along an axis in the middle, and the keys come before the queries."""
    b, n, d = x.shape
    q, k, v = (f(x).reshape(b, n, a.heads, a.size) for f in (a.q_proj, a.k_proj, a.v_proj))
    energy = torch.einsum("bqhd,bkhd->bhkq", q, k) / a.size**0.5
    hidden = torch.tril(torch.ones(n, n, dtype=torch.bool), diagonal=-1)
    attention = torch.softmax(energy.masked_fill(hidden, -torch.inf), dim=2)
    return a.o_proj(torch.einsum("bkhd,bhkq->bqhd", v, attention).reshape(b, n, d))


@case
def einsum_softmax_over_a_middle_axis(s: Sizes) -> Case:
    return decoder(s, lambda: Projections(key_first, s), plain)


def grouped(a: Any, x: Tensor) -> Tensor:
    """Heads that share keys and values."""
    q, k, v = a.qkv(x)
    return a.out(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


@case
def grouped_queries_fused(s: Sizes) -> Case:
    shared = s.heads // 2 if s.heads % 2 == 0 else 1
    return decoder(s, lambda: Projections(grouped, s, shared, bias=False), plain)


@case
def multi_query_einsum(s: Sizes) -> Case:
    """One head of keys and values for all heads, without an axis for it (Shazeer 2019)."""

    def attend(m: Any, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = m.to_q(x).view(b, n, s.heads, -1)
        k, v = m.to_kv(x).chunk(2, dim=-1)
        scores = torch.einsum("bqhd,bkd->bhqk", q, k).mul(q.shape[-1] ** -0.5)
        scores.masked_fill_(torch.ones(n, n).triu(1).bool(), -torch.inf)
        return m.o_proj(torch.einsum("bhqk,bkd->bqhd", scores.softmax(-1), v).flatten(2))

    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        k, v = (t[:, None].repeat(1, s.heads, 1, 1) for t in a.to_kv(x).chunk(2, -1))
        return a.o_proj(joined(brute.mix(site, dots(split(a.to_q(x), s.heads), k) + causal(x.shape[1]), v)))

    return decoder(
        s, lambda: Lambda(attend, **linears(s.d, "to_q o_proj"), **linears(s.d, "to_kv", 2 * s.d_head)), reference
    )


def relative(a: Any, x: Tensor) -> Tensor:
    """Shaw et al. 2018: vectors for distances beside keys and beside values, so weights are used twice."""
    q, k, v = a.qkv(x)
    places = torch.arange(x.shape[1])
    far = (places[None] - places[:, None]).clamp(-3, 3) + 3
    scores = (q @ k.transpose(-2, -1) + torch.einsum("bhqd,qkd->bhqk", q, a.rel_k(far))) / math.sqrt(a.size)
    weights = torch.softmax(scores, dim=-1)
    moved = torch.matmul(weights.permute(2, 0, 1, 3).flatten(1, 2), a.rel_v(far))
    b, h, n, _ = q.shape
    return a.out(torch.matmul(weights, v) + moved.view(n, b, h, -1).permute(1, 2, 0, 3))


@case
def relative_keys_and_values(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        n = x.shape[1]
        index = torch.tensor([[max(-3, min(3, j - i)) + 3 for j in range(n)] for i in range(n)])
        scores = (dots(q, k, 1.0) + (q[:, :, :, None] * a.rel_k.weight[index]).sum(-1)) * a.size**-0.5
        mixed = brute.mix(site, scores, v)
        return a.o_proj(joined(mixed + (softmax(scores)[..., None] * a.rel_v.weight[index]).sum(-2)))

    def attention() -> nn.Module:
        return Projections(relative, s, rel_k=nn.Embedding(7, s.d_head), rel_v=nn.Embedding(7, s.d_head))

    return decoder(s, attention, reference, changeable=False)


def talking(a: Any, x: Tensor) -> Tensor:
    """Shazeer et al. 2020: Linears over heads before and after the softmax."""
    q, k, v = a.qkv(x)
    logits = torch.einsum("bhqd,bhkd->bhqk", q, k) * a.size**-0.5
    hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    logits = a.before(logits.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).masked_fill(hidden, -torch.inf)
    return a.out(a.after(logits.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v)


@case
def talking_heads_by_linear(s: Sizes) -> Case:
    def over(t: Tensor, table: Tensor) -> Tensor:
        return torch.stack([sum(t[:, h] * row[h] for h in range(len(row))) for row in table], 1)  # type: ignore[misc]

    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = parts(a, x)
        scores = over(dots(q, k), a.before.weight) + causal(x.shape[1])
        return a.o_proj(joined(brute.mix(site, scores, v, lambda weights: over(weights, a.after.weight))))

    def attention() -> nn.Module:
        return Projections(talking, s, **linears(s.heads, "before after", bias=False))

    return decoder(s, attention, reference, changeable=False)
