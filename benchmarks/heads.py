"""The attention that is drawn in both tools: 12 layers of 12 heads over 128 tokens, from random queries and keys."""

import torch

from transformer.attention.record import AttentionMap
from transformer.attention.softmax_inputs import QueriesKeys
from transformer.layers.masks import Mask
from transformer.pictures.axes import Axis
from transformer.sites import Site

N_LAYERS, N_HEADS, N_TOKENS, D_HEAD = 12, 12, 128, 64
TOKENS = [f"token{i}" for i in range(N_TOKENS)]


def attention_of_heads(n_tokens: int = N_TOKENS) -> list[AttentionMap]:
    """One map a layer; the same numbers every time."""
    generator = torch.Generator().manual_seed(0)
    axis = Axis.of_tokens("position", TOKENS[:n_tokens])
    shape = (2, 1, N_HEADS, n_tokens, D_HEAD)
    layers = [2 * torch.randn(shape, generator=generator) for _ in range(N_LAYERS)]
    return [
        AttentionMap(Site.of("encoder", i, "self"), axis, axis, QueriesKeys(q, k, Mask(), D_HEAD**-0.5))
        for i, (q, k) in enumerate(layers)
    ]
