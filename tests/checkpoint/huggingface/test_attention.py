"""What the watched attention keeps is what its softmax was given."""

import pytest
import torch
from torch import nn

from transformer.attention.capture import recording
from transformer.attention.softmax_inputs import QueriesKeys
from transformer.checkpoint.huggingface.attention import NAME, SITE
from transformer.checkpoint.huggingface.library import library
from transformer.layers import log_sums

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


@pytest.mark.parametrize("hides", ["a window", "padding", "the future"])
def test_row_sums_of_a_long_run_are_noted_a_few_rows_at_a_time(hides: str) -> None:
    """More keys than a run notes sums from, in rows that are no multiple of those that are masked at one time."""
    torch.manual_seed(6)
    n, module = log_sums.FROM + 57, nn.Module()
    setattr(module, SITE, "decoder.0.self")
    query, key, value = (torch.randn(1, heads, n, WIDTH) for heads in (4, 2, 2))
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    if hides == "a window":
        seen = seen.triu(-30)
    if hides == "padding":
        seen = (torch.arange(n) < n - 71).expand(n, n)
    attend = library().AttentionInterface()[NAME]
    module.num_key_value_groups = 2  # type: ignore[assignment]
    mask = None if hides == "the future" else seen[None, None].clone()
    with torch.inference_mode():
        plain, _ = attend(module, query, key, value, mask, is_causal=mask is None)
        with recording() as watched:
            again, _ = attend(module, query, key, value, mask, is_causal=mask is None)
    assert torch.equal(plain, again)
    kept = watched.source("decoder.0.self")
    assert isinstance(kept, QueriesKeys)
    assert kept.known is not None
    assert kept.mask.n_bytes <= n
    scores = (query.double() @ key.double().repeat_interleave(2, dim=1).transpose(-1, -2)) / WIDTH**0.5
    expected = scores.masked_fill(~seen, -torch.inf).logsumexp(-1)
    assert float((kept.known - expected).abs().max()) < 1e-5
