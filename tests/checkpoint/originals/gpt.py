"""nanoGPT's and minGPT's model, as their authors name the parts; attention by hand."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original, attend, split


class Block(Original):
    def __init__(self, d: int, bias: bool, rows: int, stored_mask: bool):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(d, bias=bias), nn.LayerNorm(d, bias=bias)
        self.attn, self.mlp = Original(), Original()
        self.attn.c_attn, self.attn.c_proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        if stored_mask:
            self.attn.register_buffer("bias", torch.tril(torch.ones(rows, rows))[None, None])
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)


class Gpt(Original):
    """`approximate` is how the activation is computed: nanoGPT's exactly (`none`), minGPT's by a tanh."""

    def __init__(self, vocab: int, rows: int, n: int, d: int, heads: int, bias: bool, mini: bool):
        super().__init__()
        self.heads, self.approximate = heads, "tanh" if mini else "none"
        self.transformer = Original()
        self.transformer.wte, self.transformer.wpe = nn.Embedding(vocab, d), nn.Embedding(rows, d)
        self.transformer.h = nn.ModuleList(Block(d, bias, rows, mini) for _ in range(n))
        self.transformer.ln_f = nn.LayerNorm(d, bias=bias)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        if not mini:
            self.lm_head.weight = self.transformer.wte.weight

    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        n = ids.shape[1]
        x = self.transformer.wte(ids) + self.transformer.wpe.weight[:n]
        for i, block in enumerate(self.transformer.h):
            q, k, v = (split(part, self.heads) for part in block.attn.c_attn(block.ln_1(x)).chunk(3, -1))
            mixed, maps[f"decoder.{i}.self"] = attend(q, k, v, torch.ones(n, n, dtype=torch.bool).tril())
            x = x + block.attn.c_proj(mixed)
            x = x + block.mlp.c_proj(F.gelu(block.mlp.c_fc(block.ln_2(x)), approximate=self.approximate))
        return maps | {"log_probs": self.lm_head(self.transformer.ln_f(x)).log_softmax(-1)}
