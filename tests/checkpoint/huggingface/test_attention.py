"""What the watched attention keeps is what its softmax was given."""

import pytest
import torch
from torch import nn

from transformer.attention.capture import recording
from transformer.checkpoint.huggingface.attention import NAME, SITE
from transformer.checkpoint.huggingface.library import library

HEADS, QUERIES, KEYS, WIDTH = 2, 3, 5, 4


@pytest.mark.parametrize("kind", ["bias alone", "mask alone", "both", "neither"])
def test_a_relative_bias_counts_beside_a_mask_that_is_added(kind: str) -> None:
    torch.manual_seed(5)
    module = nn.Module()
    setattr(module, SITE, "encoder.0.self")
    module.is_causal = False  # type: ignore[assignment]
    query, key, value = (torch.randn(1, HEADS, n, WIDTH) for n in (QUERIES, KEYS, KEYS))
    bias = torch.randn(1, HEADS, QUERIES, KEYS) if kind in {"bias alone", "both"} else None
    added = None
    if kind in {"mask alone", "both"}:
        added = torch.randn(1, 1, QUERIES, KEYS)
        added[..., -1] = torch.finfo(torch.float32).min
    attend = library().AttentionInterface()[NAME]
    with torch.inference_mode(), recording() as seen:
        attend(module, query, key, value, added, position_bias=bias, scaling=0.3, is_causal=False)
    scores = 0.3 * query @ key.transpose(-2, -1)
    scores = scores + sum(table for table in (bias, added) if table is not None)
    kept = seen.source(seen.sites[0])
    for head in range(HEADS):
        found = kept.weights(0, head, slice(0, QUERIES), slice(0, KEYS))
        torch.testing.assert_close(found, scores.softmax(-1)[0, head], atol=1e-6, rtol=1e-5)
