"""The wrapper of x-transformers around an encoder or a decoder, with the names of its files; attention by hand."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original, attend, split


@dataclass(frozen=True)
class Options:
    """What the library calls so; `old` is how early versions name and scale."""

    heads: int = 3
    d_head: int = 5
    d: int = 14
    layers: int = 2
    causal: bool = False
    pre_norm: bool = True
    tied: bool = False
    places: bool = True
    post_emb_norm: bool = False
    offset: bool = True
    old: bool = False
    rms: bool = False
    gated: bool = False
    silu: bool = False
    rotary: int = 0
    halves: bool = False
    turns_values: bool = False


class Gain(Original):
    """A norm without a shift, whose gain may lie around 0."""

    def __init__(self, d: int, offset: bool, old: bool):
        super().__init__()
        self.offset = float(offset)
        if old:
            self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        else:
            self.gamma = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        normed = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return normed * self.weight + self.bias if hasattr(self, "weight") else normed * (self.gamma + self.offset)


class RmsGain(Original):
    """x / |x| times the root of its length, times a gain that may lie around 0."""

    def __init__(self, d: int, offset: bool):
        super().__init__()
        self.g, self.offset = nn.Parameter(torch.ones(d)), float(offset)

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * (self.g + self.offset)


class Gated(Original):
    """One map makes hidden units and, below them, their gates."""

    def __init__(self, d: int, d_ff: int, act: Any):
        super().__init__()
        self.proj, self.act = nn.Linear(d, 2 * d_ff), act

    def forward(self, x: Tensor) -> Tensor:
        units, gate = self.proj(x).chunk(2, dim=-1)
        return units * self.act(gate)


def turn(x: Tensor, rates: Tensor, halves: bool) -> Tensor:
    """Complex numbers turned by position times rate; what is not turned stays."""
    size = 2 * len(rates)
    part = x[..., :size]
    first, second = (part[..., : size // 2], part[..., size // 2 :]) if halves else (part[..., 0::2], part[..., 1::2])
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * rates
    found = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    pair = found.real, found.imag
    turned = torch.cat(pair, -1) if halves else torch.stack(pair, -1).reshape(part.shape)
    return torch.cat([turned, x[..., size:]], -1)


def table(rows: int, d: int, old: bool) -> nn.Module:
    held = nn.Embedding(rows, d)
    return nn.ModuleDict({"emb": held}) if not old else held


class XTransformers(Original):
    def __init__(self, vocab: int, rows: int, d_ff: int, o: Options):
        super().__init__()
        self.o, inner = o, o.heads * o.d_head
        self.token_emb = table(vocab, o.d, o.old)
        if o.places:
            self.pos_emb = table(rows, o.d, False)
        if o.post_emb_norm:
            self.post_emb_norm = Gain(o.d, False, o.old)
        self.attn_layers = Original()
        if o.rotary:
            self.attn_layers.rotary_pos_emb = Original()
            rates = 1 / 10_000 ** (torch.arange(o.rotary) / o.rotary)
            self.attn_layers.rotary_pos_emb.register_buffer("inv_freq", rates)
        entries = []
        for _ in range(o.layers):
            attention = Original()
            for name in ("to_q", "to_k", "to_v"):
                attention.add_module(name, nn.Linear(o.d, inner, bias=False))
            attention.to_out = nn.Linear(inner, o.d, bias=o.old)
            act = nn.SiLU() if o.silu else nn.GELU()
            wide = Gated(o.d, d_ff, act) if o.gated else nn.Sequential(nn.Linear(o.d, d_ff), act)
            net, steps = Original(), [wide, nn.Dropout(0), nn.Linear(d_ff, o.d)]
            net.add_module("net" if o.old else "ff", nn.Sequential(*steps))
            for block in (attention, net):
                norm = RmsGain(o.d, o.offset) if o.rms else Gain(o.d, o.offset, o.old)
                norms = nn.ModuleList([norm if o.pre_norm else nn.Identity(), nn.Identity()])
                if not o.pre_norm:
                    norms.append(norm)
                entries.append(nn.ModuleList([norms, block]))
        self.attn_layers.layers = nn.ModuleList(entries)
        if o.pre_norm:
            last = RmsGain(o.d, o.offset) if o.rms and not o.old else Gain(o.d, o.offset, o.old)
            (self if o.old else self.attn_layers).add_module("norm" if o.old else "final_norm", last)
        if not o.tied:
            self.to_logits = nn.Linear(o.d, vocab, bias=o.old)

    def forward(self, ids: Tensor) -> Maps:
        o, maps, n = self.o, Maps(), ids.shape[1]
        words = self.token_emb.weight if o.old else self.token_emb["emb"].weight
        x = words[ids]
        if o.places:
            x = x + self.pos_emb["emb"].weight[:n] * (1 if o.old else o.d**-0.5)
        x = self.post_emb_norm(x) if o.post_emb_norm else x
        past = torch.ones(n, n, dtype=torch.bool).tril() if o.causal else None
        for i, (norms, block) in enumerate(self.attn_layers.layers):
            h = norms[0](x)
            if i % 2 == 0:
                q, k, v = (split(block.get_submodule(f"to_{part}")(h), o.heads) for part in "qkv")
                if o.rotary:
                    rates = self.attn_layers.rotary_pos_emb.inv_freq
                    q, k = turn(q, rates, o.halves), turn(k, rates, o.halves)
                    v = turn(v, rates, o.halves) if o.turns_values else v
                mixed, maps[f"encoder.{i // 2}.self"] = attend(q, k, v, past)
                x = x + block.to_out(mixed)
            else:
                first, _, last = block.net if o.old else block.ff
                x = x + last(first(h))
            x = x if o.pre_norm else norms[2](x)
        if o.pre_norm:
            x = self.norm(x) if o.old else self.attn_layers.final_norm(x)
        scores = x @ words.T * (o.d**-0.5 if not o.old else 1) if o.tied else self.to_logits(x)
        return maps | {"hidden": x, "logits": scores}
