"""The Annotated Transformer's names."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original, attend, past, real, split, table


class Norm(Original):
    def __init__(self, features: int):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2


class Attention(Original):
    def __init__(self, d_model: int, h: int):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, memory: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (split(f(x), self.h) for f, x in zip(self.linears, (query, memory, memory), strict=False))
        mixed, weights = attend(q, k, v, visible)
        return self.linears[3](mixed), weights


class Sublayer(Original):
    def __init__(self, size: int):
        super().__init__()
        self.norm = Norm(size)


class FeedForward(Original):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)


class Layer(Original):
    def __init__(self, d_model: int, h: int, d_ff: int, decodes: bool):
        super().__init__()
        self.self_attn = Attention(d_model, h)
        if decodes:
            self.src_attn = Attention(d_model, h)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.sublayer: Any = nn.ModuleList(Sublayer(d_model) for _ in range(3 if decodes else 2))

    def forward(self, x: Tensor, visible: Tensor, maps: Maps, name: str, memory=None, source_visible=None) -> Tensor:
        normed = self.sublayer[0].norm(x)
        found, maps[f"{name}.self"] = self.self_attn(normed, normed, visible)
        x = x + found
        if memory is not None:
            found, maps[f"{name}.cross"] = self.src_attn(self.sublayer[1].norm(x), memory, source_visible)
            x = x + found
        return x + self.feed_forward.w_2(F.relu(self.feed_forward.w_1(self.sublayer[-1].norm(x))))


class Stack(Original):
    def __init__(self, n: int, d_model: int, h: int, d_ff: int, decodes: bool):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d_model, h, d_ff, decodes) for _ in range(n))
        self.norm = Norm(d_model)


class Embeddings(Original):
    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.lut(x) * math.sqrt(self.lut.embedding_dim)


class Positions(Original):
    def __init__(self, d_model: int, max_len: int):
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model)[None].float())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.shape[1]]


class Generator(Original):
    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)


class EncoderDecoder(Original):
    def __init__(self, source: int, target: int, n: int, d_model: int, h: int, d_ff: int, max_len: int = 40):
        super().__init__()
        self.encoder = Stack(n, d_model, h, d_ff, decodes=False)
        self.decoder = Stack(n, d_model, h, d_ff, decodes=True)
        self.src_embed = nn.Sequential(Embeddings(d_model, source), Positions(d_model, max_len))
        self.tgt_embed = nn.Sequential(Embeddings(d_model, target), Positions(d_model, max_len))
        self.generator = Generator(d_model, target)

    def forward(self, source: Tensor, target: Tensor) -> Maps:
        maps: Maps = {}
        x = self.src_embed(source)
        for i, layer in enumerate(self.encoder.layers):
            x = layer(x, real(source), maps, f"encoder.{i}")
        memory, x = self.encoder.norm(x), self.tgt_embed(target)
        for i, layer in enumerate(self.decoder.layers):
            x = layer(x, past(target), maps, f"decoder.{i}", memory, real(source))
        return maps | {"log_probs": self.generator.proj(self.decoder.norm(x)).log_softmax(-1)}
