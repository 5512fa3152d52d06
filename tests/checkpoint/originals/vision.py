"""The Vision Transformer of the paper, as timm and torchvision name its parts; attention by hand.

Source: Dosovitskiy et al. 2021, equations 1 to 4; `pixels` are (batch, channel, row, column).
"""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original, attend, split


@dataclass(frozen=True)
class Sizes:
    """What a file does not show all of. `placed` are the tokens before the patches that get a position."""

    channels: int = 3
    patch: tuple[int, int] = (3, 5)
    grid: tuple[int, int] = (4, 4)
    d: int = 30
    heads: int = 5
    d_ff: int = 37
    layers: int = 3
    classes: int = 11
    leading: tuple[str, ...] = ("cls_token",)
    registers: int = 0
    placed: int = 1
    gains: tuple[str, str] = ("", "")
    qkv_bias: bool = True
    norm_pre: bool = False
    pools: bool = False
    distilled: bool = False
    representation: int = 0
    eps: float = 1e-6


def patches(pixels: Tensor, patch: tuple[int, int]) -> Tensor:
    """(batch, patch, channel * row * column), cut out one by one."""
    corners = itertools.product(range(0, pixels.shape[2], patch[0]), range(0, pixels.shape[3], patch[1]))
    found = [pixels[:, :, top : top + patch[0], left : left + patch[1]].flatten(1) for top, left in corners]
    return torch.stack(found, dim=1)


class TimmBlock(Original):
    def __init__(self, s: Sizes):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(s.d, eps=s.eps), nn.LayerNorm(s.d, eps=s.eps)
        self.attn, self.mlp = Original(), Original()
        self.attn.qkv, self.attn.proj = nn.Linear(s.d, 3 * s.d, bias=s.qkv_bias), nn.Linear(s.d, s.d)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(s.d, s.d_ff), nn.Linear(s.d_ff, s.d)
        for name in filter(None, s.gains):
            holder, _, last = name.rpartition(".")
            if holder:
                self.add_module(holder, Original())
            (getattr(self, holder) if holder else self).register_parameter(last, nn.Parameter(torch.ones(s.d)))


class TimmVision(Original):
    """As timm, DeiT and DINOv2 save it."""

    def __init__(self, s: Sizes):
        super().__init__()
        self.s = s
        self.patch_embed = Original()
        self.patch_embed.proj = nn.Conv2d(s.channels, s.d, s.patch, stride=s.patch)
        for name in s.leading:
            self.register_parameter(name, nn.Parameter(torch.zeros(1, 1, s.d)))
        if s.registers:
            self.reg_token = nn.Parameter(torch.zeros(1, s.registers, s.d))
        self.pos_embed = nn.Parameter(torch.zeros(1, s.placed + s.grid[0] * s.grid[1], s.d))
        if s.norm_pre:
            self.norm_pre = nn.LayerNorm(s.d, eps=s.eps)
        self.blocks = nn.ModuleList(TimmBlock(s) for _ in range(s.layers))
        self.add_module("fc_norm" if s.pools else "norm", nn.LayerNorm(s.d, eps=s.eps))
        self.head = nn.Linear(s.d, s.classes)
        if s.distilled:
            self.head_dist = nn.Linear(s.d, s.classes)

    def forward(self, pixels: Tensor) -> Maps:
        s, maps = self.s, Maps()
        x = patches(pixels, s.patch) @ self.patch_embed.proj.weight.flatten(1).T + self.patch_embed.proj.bias
        leading = [getattr(self, name) for name in s.leading] + ([self.reg_token] if s.registers else [])
        n_leading = sum(one.shape[1] for one in leading)
        before = torch.cat([one.expand(len(x), -1, -1) for one in leading], 1) if leading else x[:, :0]
        before[:, : s.placed] += self.pos_embed[:, : s.placed]
        x = torch.cat([before, x + self.pos_embed[:, s.placed :]], 1)
        x = self.norm_pre(x) if s.norm_pre else x
        for i, block in enumerate(self.blocks):
            q, k, v = (split(part, s.heads) for part in block.attn.qkv(block.norm1(x)).chunk(3, -1))
            mixed, maps[f"encoder.{i}.self"] = attend(q, k, v, None)
            gains = [block.get_parameter(name) if name else 1 for name in s.gains]
            x = x + gains[0] * block.attn.proj(mixed)
            x = x + gains[1] * block.mlp.fc2(F.gelu(block.mlp.fc1(block.norm2(x))))
        if s.pools:
            return maps | {"hidden": x, "logits": self.head(self.fc_norm(x[:, n_leading:].mean(1)))}
        x = self.norm(x)
        logits = self.head(x[:, 0])
        return maps | {"hidden": x, "logits": (logits + self.head_dist(x[:, 1])) / 2 if s.distilled else logits}


class TorchvisionVision(Original):
    """As torchvision saves it."""

    def __init__(self, s: Sizes):
        super().__init__()
        self.s = s
        self.class_token = nn.Parameter(torch.zeros(1, 1, s.d))
        self.conv_proj = nn.Conv2d(s.channels, s.d, s.patch, stride=s.patch)
        self.encoder = Original()
        self.encoder.pos_embedding = nn.Parameter(torch.zeros(1, 1 + s.grid[0] * s.grid[1], s.d))
        self.encoder.layers = Original()
        for i in range(s.layers):
            layer = Original()
            layer.ln_1, layer.ln_2 = nn.LayerNorm(s.d, eps=s.eps), nn.LayerNorm(s.d, eps=s.eps)
            layer.self_attention = nn.MultiheadAttention(s.d, s.heads, batch_first=True)
            steps = [nn.Linear(s.d, s.d_ff), nn.GELU(), nn.Dropout(0.1), nn.Linear(s.d_ff, s.d)]
            layer.mlp = nn.Sequential(*steps)
            self.encoder.layers.add_module(f"encoder_layer_{i}", layer)
        self.encoder.ln = nn.LayerNorm(s.d, eps=s.eps)
        self.heads = Original()
        if s.representation:
            self.heads.pre_logits = nn.Linear(s.d, s.representation)
        self.heads.head = nn.Linear(s.representation or s.d, s.classes)

    def forward(self, pixels: Tensor) -> Maps:
        s, maps = self.s, Maps()
        x = patches(pixels, s.patch) @ self.conv_proj.weight.flatten(1).T + self.conv_proj.bias
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.encoder.pos_embedding
        for i, layer in enumerate(self.encoder.layers.children()):
            h, own = layer.ln_1(x), layer.self_attention
            q, k, v = (split(part, s.heads) for part in F.linear(h, own.in_proj_weight, own.in_proj_bias).chunk(3, -1))
            mixed, maps[f"encoder.{i}.self"] = attend(q, k, v, None)
            x = x + own.out_proj(mixed)
            x = x + layer.mlp[3](F.gelu(layer.mlp[0](layer.ln_2(x))))
        x = self.encoder.ln(x)
        first = torch.tanh(self.heads.pre_logits(x[:, 0])) if s.representation else x[:, 0]
        return maps | {"hidden": x, "logits": self.heads.head(first)}
