"""The lecture's language model, head by head as it is written there."""

import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, Original


class Head(Original):
    def __init__(self, d: int, size: int, rows: int):
        super().__init__()
        for name in ("key", "query", "value"):
            setattr(self, name, nn.Linear(d, size, bias=False))
        self.register_buffer("tril", torch.tril(torch.ones(rows, rows)))

    def forward(self, x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        n = x.shape[1]
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * scale
        wei = wei.masked_fill(self.tril[:n, :n] == 0, float("-inf")).softmax(-1)
        return wei @ self.value(x), wei


class LectureGpt(Original):
    """`by` is the width whose root divides scores: a head's in the code, the model's in the lecture."""

    def __init__(self, vocab: int, rows: int, n: int, d: int, heads: int, by: str):
        super().__init__()
        self.scale = (d if by == "d_model" else d // heads) ** -0.5
        self.token_embedding_table, self.position_embedding_table = nn.Embedding(vocab, d), nn.Embedding(rows, d)
        self.blocks = nn.ModuleList()
        for _ in range(n):
            block = Original()
            block.sa, block.ffwd = Original(), Original()
            block.sa.heads = nn.ModuleList(Head(d, d // heads, rows) for _ in range(heads))
            block.sa.proj = nn.Linear(d, d)
            block.ffwd.net = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
            block.ln1, block.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.blocks.append(block)
        self.ln_f, self.lm_head = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        x = self.token_embedding_table(ids) + self.position_embedding_table.weight[: ids.shape[1]]
        for i, block in enumerate(self.blocks):
            found = [head(block.ln1(x), self.scale) for head in block.sa.heads]
            maps[f"decoder.{i}.self"] = torch.stack([weights for _, weights in found], 1)
            x = x + block.sa.proj(torch.cat([mixed for mixed, _ in found], -1))
            x = x + block.ffwd.net(block.ln2(x))
        return maps | {"log_probs": self.lm_head(self.ln_f(x)).log_softmax(-1)}
