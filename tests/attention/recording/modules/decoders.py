"""Decoder-only models: nanoGPT, and one whose heads are modules of a list."""

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
    case,
    causal,
    dots,
    joined,
    linears,
    ready,
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
            att = (q @ k.transpose(-2, -1)) * k.size(-1) ** -0.5
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


def nanogpt(flash: bool) -> Callable[[Sizes], Case]:
    return lambda s: decoder(s, lambda: NanoGPT(s.d, s.heads, flash), of_fused)


CASES |= {"nanogpt_fused": nanogpt(True), "nanogpt_written_out": nanogpt(False)}


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
