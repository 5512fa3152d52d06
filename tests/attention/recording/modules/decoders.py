"""Decoder-only models: nanoGPT and its many forks, each with an attention written in a style of its own."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Sizes, case, causal, dots, joined, ready, split


class Block(nn.Module):
    """Norm before; `norms` decides between nanoGPT's, the original, the parallel and the sandwich form."""

    def __init__(self, d: int, attn: nn.Module, form: str = "pre") -> None:
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.form = nn.LayerNorm(d), nn.LayerNorm(d), attn, form
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d + 1), nn.GELU(), nn.Linear(2 * d + 1, d))

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(x, self.attn)

    def mixed(self, x: Tensor, attn: Callable[[Tensor], Tensor]) -> Tensor:
        if self.form == "post":
            x = self.ln_1(x + attn(x))
            return self.ln_2(x + self.mlp(x))
        if self.form == "parallel":
            h = self.ln_1(x)
            return x + attn(h) + self.mlp(h)
        if self.form == "sandwich":
            return x + self.ln_2(attn(self.ln_1(x)))
        x = x + attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Decoder(nn.Module):
    def __init__(self, vocab: int, d: int, attentions: list[nn.Module], form: str = "pre") -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.blocks = nn.ModuleList(Block(d, attn, form) for attn in attentions)
        self.ln_f, self.lm_head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


Reference = Callable[[Brute, str, Any, Tensor], Tensor]


def decoder(
    s: Sizes, make: Callable[[], nn.Module], reference: Reference, form: str = "pre", name: str = "attn", **options: Any
) -> Case:
    """Two blocks around an attention; `reference` is that of the attention."""
    model = ready(Decoder(s.vocab, s.d, [make(), make()], form))

    def whole(brute: Brute, ids: Tensor) -> Tensor:
        x = model.wte(ids) + model.wpe(torch.arange(ids.shape[1]))
        for i, block in enumerate(model.blocks):
            x = block.mixed(x, lambda h, i=i, block=block: reference(brute, f"blocks.{i}.{name}", block.attn, h))
        return model.lm_head(model.ln_f(x))

    ids = s.ids
    return Case(model, (ids,), lambda brute: whole(brute, ids), **options)


class Projections(nn.Module):
    """Four Linears and a number of heads, which most attentions begin with."""

    def __init__(self, d: int, heads: int, kv_heads: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads or heads, d // heads
        self.q_proj = nn.Linear(d, d, bias=bias)
        self.k_proj = nn.Linear(d, self.kv_heads * self.size, bias=bias)
        self.v_proj = nn.Linear(d, self.kv_heads * self.size, bias=bias)
        self.o_proj = nn.Linear(d, d, bias=bias)

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
    return decoder(s, lambda: NanoGPT(s.d, s.heads, True), of_fused, fused=True)


@case
def nanogpt_written_out(s: Sizes) -> Case:
    return decoder(s, lambda: NanoGPT(s.d, s.heads, False), of_fused)


class Head(nn.Module):
    def __init__(self, d: int, size: int) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(d, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(64, 64)))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        _, t, _ = x.shape
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * x.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:t, :t] == 0, float("-inf"))
        return self.dropout(F.softmax(wei, dim=-1)) @ self.value(x)


class ManyHeads(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList([Head(d, d // heads) for _ in range(heads)])
        self.proj = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


@case
def a_module_per_head(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = (torch.stack([x @ getattr(h, n).weight.T for h in a.heads], 1) for n in ("query", "key", "value"))
        return a.proj(joined(brute.mix(site, dots(q, k, x.shape[-1] ** -0.5) + causal(x.shape[1]), v)))

    return decoder(s, lambda: ManyHeads(s.d, s.heads), reference, name="attn.heads")


class Einsum(Projections):
    orders = "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd"

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = (f(x).reshape(b, n, self.heads, self.size) for f in (self.q_proj, self.k_proj, self.v_proj))
        energy = torch.einsum(self.orders[0], q, k) / self.size**0.5
        later = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        attention = torch.softmax(energy.masked_fill(self.spread(later), -torch.inf), dim=self.axis)
        return self.o_proj(torch.einsum(self.orders[1], attention, v).reshape(b, n, d))

    axis = -1

    def spread(self, later: Tensor) -> Tensor:
        return later


class QueryFirst(Einsum):
    orders = "bqhd,bkhd->bqhk", "bqhk,bkhd->bqhd"

    def spread(self, later: Tensor) -> Tensor:
        return later[:, None]


class KeyFirst(Einsum):
    orders = "bqhd,bkhd->bhkq", "bkhd,bhkq->bqhd"
    axis = 2

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = (f(x).reshape(b, n, self.heads, self.size) for f in (self.q_proj, self.k_proj, self.v_proj))
        energy = torch.einsum(self.orders[0], q, k) / self.size**0.5
        hidden = torch.tril(torch.ones(n, n, dtype=torch.bool), diagonal=-1)
        attention = torch.softmax(energy.masked_fill(hidden, -torch.inf), dim=2)
        return self.o_proj(torch.einsum(self.orders[1], v, attention).reshape(b, n, d))


@case
def einsum_head_first(s: Sizes) -> Case:
    return decoder(s, lambda: Einsum(s.d, s.heads), plain)


@case
def einsum_query_first(s: Sizes) -> Case:
    return decoder(s, lambda: QueryFirst(s.d, s.heads), plain)


@case
def einsum_softmax_over_a_middle_axis(s: Sizes) -> Case:
    return decoder(s, lambda: KeyFirst(s.d, s.heads), plain)


class OwnTables(nn.Module):
    """Weights as tables [head, d, d_head], as in TransformerLens; the pattern goes through a hook point."""

    def __init__(self, d: int, heads: int, size: int) -> None:
        super().__init__()
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(heads, d, size) * d**-0.5) for _ in range(3))
        self.W_O, self.b_V = nn.Parameter(torch.randn(heads, size, d) * d**-0.5), nn.Parameter(torch.zeros(heads, size))
        self.hook_pattern, self.size = nn.Identity(), size

    def forward(self, x: Tensor) -> Tensor:
        q = torch.einsum("bpd,hde->bphe", x, self.W_Q)
        k = torch.einsum("bpd,hde->bphe", x, self.W_K)
        v = torch.einsum("bpd,hde->bphe", x, self.W_V) + self.b_V
        scores = torch.einsum("bqhe,bkhe->bhqk", q, k) / self.size**0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        pattern = self.hook_pattern(torch.where(hidden, -torch.inf, scores).softmax(-1))
        z = torch.einsum("bkhe,bhqk->bqhe", v, pattern)
        return torch.einsum("bqhe,hed->bqd", z, self.W_O)


@case
def tables_by_head(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        q, k, v = (torch.stack([x @ w for w in table], 1) for table in (a.W_Q, a.W_K, a.W_V))
        mixed = brute.mix(site, dots(q, k) + causal(x.shape[1]), v + a.b_V[None, :, None])
        return sum(mixed[:, h] @ a.W_O[h] for h in range(len(a.W_O)))  # type: ignore[return-value]

    return decoder(s, lambda: OwnTables(s.d, s.heads, s.d_head), reference)


class Permuted(nn.Module):
    """One projection, heads by permute and unbind, queries scaled beforehand (timm)."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj, self.n_head = nn.Linear(d, 3 * d), nn.Linear(d, d), heads

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.c_attn(x).reshape(b, n, 3, self.n_head, d // self.n_head).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * (d // self.n_head) ** -0.5) @ k.mT
        attn = attn + torch.full((n, n), -torch.inf).triu(1)
        attn = attn.softmax(dim=-1).type_as(v)
        return self.c_proj((attn @ v).transpose(1, 2).reshape(b, n, d))


@case
def fused_projection_permuted(s: Sizes) -> Case:
    return decoder(s, lambda: Permuted(s.d, s.heads), of_fused)


class Grouped(Projections):
    form = "enable"

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        shared = self.heads // self.kv_heads
        if self.form == "enable":
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))
        if self.form == "repeat":
            k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
        else:
            b, h, n, d = k.shape
            k, v = (t[:, :, None].expand(b, h, shared, n, d).reshape(b, h * shared, n, d) for t in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.size) + torch.full((x.shape[1],) * 2, -1e30).triu(
            1
        )
        return self.out(torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float64).to(q.dtype), v))


class Repeated(Grouped):
    form = "repeat"


class Expanded(Grouped):
    form = "expand"


def grouped(s: Sizes, kind: type[Grouped]) -> Case:
    return decoder(s, lambda: kind(s.d, s.heads, s.heads // 2 if s.heads % 2 == 0 else 1, bias=False), plain)


@case
def grouped_queries_fused(s: Sizes) -> Case:
    return grouped(s, Grouped)


@case
def grouped_queries_repeated(s: Sizes) -> Case:
    return grouped(s, Repeated)


@case
def grouped_queries_expanded(s: Sizes) -> Case:
    return grouped(s, Expanded)


class MultiQuery(nn.Module):
    """One head of keys and values for all heads, without an axis for it (Shazeer 2019)."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.to_q, self.to_kv = heads, nn.Linear(d, d), nn.Linear(d, 2 * d // heads)
        self.o_proj = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.heads, -1)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        scores = torch.einsum("bqhd,bkd->bhqk", q, k).mul(q.shape[-1] ** -0.5)
        scores.masked_fill_(torch.ones(n, n).triu(1).bool(), -torch.inf)
        return self.o_proj(torch.einsum("bhqk,bkd->bqhd", scores.softmax(-1), v).flatten(2))


@case
def multi_query_einsum(s: Sizes) -> Case:
    def reference(brute: Brute, site: str, a: Any, x: Tensor) -> Tensor:
        k, v = a.to_kv(x).chunk(2, -1)
        many = [t[:, None].repeat(1, a.heads, 1, 1) for t in (k, v)]
        mixed = brute.mix(site, dots(split(a.to_q(x), a.heads), many[0]) + causal(x.shape[1]), many[1])
        return a.o_proj(joined(mixed))

    return decoder(s, lambda: MultiQuery(s.d, s.heads), reference)


@case
def dropout_while_training_at_zero(s: Sizes) -> Case:
    found = decoder(s, lambda: NanoGPT(s.d, s.heads, False, dropout=0.0), of_fused)
    found.module.train()
    return found


@case
def post_norm_decoder(s: Sizes) -> Case:
    return decoder(s, lambda: NanoGPT(s.d, s.heads, True), of_fused, "post", fused=True)


@case
def parallel_block(s: Sizes) -> Case:
    return decoder(s, lambda: NanoGPT(s.d, s.heads, False), of_fused, "parallel")


@case
def sandwich_norm(s: Sizes) -> Case:
    return decoder(s, lambda: Einsum(s.d, s.heads), plain, "sandwich")
