"""The published k-mer classifier."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original


class Layer(Original):
    def __init__(self, d_model: int, heads: int, d_ff: int):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = nn.MultiheadAttention(d_model, heads, batch_first=True)
        self.ff = Original()
        self.ff.linear_1, self.ff.linear_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)


class KmerEncoder(Original):
    """As published: the classifier's hidden layer is eight times as wide as there are classes."""

    def __init__(self, vocab: int, classes: int, n: int, d_model: int, heads: int, d_ff: int, kmers: tuple[int, ...]):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.pe = Original()
        rows = [
            [
                (math.sin if j % 2 == 0 else math.cos)(p / 10_000 ** (2 * j / d_model))
                for j in range(d_model)
            ]
            for p in range(60)
        ]  # fmt: skip
        self.pe.register_buffer("pe", torch.tensor(rows)[None])
        self.kmer_aggregation = Original()
        self.kmer_aggregation.convs = nn.ModuleList(nn.Conv1d(d_model, d_model, k) for k in kmers)
        self.kmer_aggregation.norm = nn.LayerNorm(d_model)
        self.layers = nn.ModuleList(Layer(d_model, heads, d_ff) for _ in range(n))
        self.norm = nn.LayerNorm(d_model)
        self.decoder = Original()
        self.decoder.linear_1, self.decoder.classifier = (
            nn.Linear(d_model, 8 * classes),
            nn.Linear(8 * classes, classes),
        )

    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        x = self.embed(ids) * math.sqrt(self.embed.embedding_dim) + self.pe.pe[:, : ids.shape[1]]
        windows = torch.cat([conv(x.transpose(1, 2)) for conv in self.kmer_aggregation.convs], dim=2)
        x = self.kmer_aggregation.norm(windows.transpose(1, 2))
        layer: Any
        for i, layer in enumerate(self.layers):
            found, maps[f"encoder.{i}.self"] = layer.attn(x, x, x, average_attn_weights=False)
            x = layer.norm_1(x + found)
            x = layer.norm_2(x + layer.ff.linear_2(F.relu(layer.ff.linear_1(x))))
        pooled = self.norm(x).mean(1)
        return maps | {"logits": self.decoder.classifier(F.relu(self.decoder.linear_1(pooled)))}
