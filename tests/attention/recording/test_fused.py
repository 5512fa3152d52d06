"""What is kept of fused attention is what its softmax was given: masks, biases, row sums of long runs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer import recording
from transformer.attention.masks_and_biases import RelativeBias
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.nn import fused

HEADS, QUERIES, KEYS, WIDTH = 2, 3, 5, 4


class Attends(nn.Module):
    """Fused attention alone."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, **options)


@pytest.mark.parametrize("kind", ["bias alone", "mask alone", "both", "neither"])
def test_a_bias_counts_beside_a_mask_that_is_added(kind: str) -> None:
    torch.manual_seed(5)
    query, key, value = (torch.randn(1, HEADS, n, WIDTH) for n in (QUERIES, KEYS, KEYS))
    added = torch.zeros(1, HEADS, QUERIES, KEYS)
    if kind in {"bias alone", "both"}:
        added = added + torch.randn(1, HEADS, QUERIES, KEYS)
    if kind in {"mask alone", "both"}:
        added[..., -1] = torch.finfo(torch.float32).min
    module = Attends()
    with torch.inference_mode(), recording(module) as seen:
        module(query, key, value, attn_mask=None if kind == "neither" else added, scale=0.3)
    expected = (0.3 * query @ key.transpose(-2, -1) + added).softmax(-1)[0]
    torch.testing.assert_close(torch.from_numpy(seen["Attends"].all_weights()), expected, atol=1e-6, rtol=1e-5)
    assert seen["Attends"].mask()[:, -1].any() == (kind in {"bias alone", "neither"})


@pytest.mark.parametrize("causal", [False, True])
def test_a_relative_bias_is_kept_by_its_diagonals_under_a_mask(causal: bool) -> None:
    """Of two sentences, the second padded at its end: cells that are hidden say nothing of the bias."""
    torch.manual_seed(7)
    n = 11
    query, key, value = (torch.randn(2, HEADS, n, WIDTH) for _ in range(3))
    apart = torch.arange(n)[:, None] - torch.arange(n) + n - 1
    bias = torch.randn(HEADS, 2 * n - 1)[:, apart]
    visible = torch.ones(2, 1, n, n, dtype=torch.bool)
    visible[1, ..., 8:] = False
    visible = visible.tril() if causal else visible
    table = torch.where(visible, bias, torch.finfo(torch.float32).min)
    module = Attends()
    with torch.inference_mode(), recording(module) as seen:
        module(query, key, value, attn_mask=table)
    kept = seen.source("Attends")
    assert isinstance(kept, AttentionInputs)
    assert isinstance(kept.bias, RelativeBias)
    expected = (query @ key.transpose(-2, -1) / WIDTH**0.5 + table).softmax(-1)
    for batch in range(2):
        found = torch.from_numpy(seen.map("Attends", batch=batch).all_weights())
        torch.testing.assert_close(found, expected[batch], atol=1e-6, rtol=1e-5)


@pytest.mark.kernels
@pytest.mark.parametrize("hides", ["a window", "padding", "the future"])
def test_row_sums_of_a_long_run_are_noted(hides: str) -> None:
    """More keys than a run notes sums from: the same bits on every kernel, since the same operation runs."""
    torch.manual_seed(6)
    n, module = fused.FROM + 57, Attends()
    query, key, value = (torch.randn(1, heads, n, WIDTH) for heads in (4, 2, 2))
    visible = torch.ones(n, n, dtype=torch.bool).tril()
    if hides == "a window":
        visible = visible.triu(-30)
    if hides == "padding":
        visible = (torch.arange(n) < n - 71).expand(n, n)
    options: dict[str, Any] = (
        {"is_causal": True} if hides == "the future" else {"attn_mask": visible[None, None].clone()}
    )
    with torch.inference_mode():
        plain = module(query, key, value, enable_gqa=True, **options)
        with recording(module) as seen:
            again = module(query, key, value, enable_gqa=True, **options)
    assert torch.equal(plain, again)
    kept = seen.source("Attends")
    assert isinstance(kept, AttentionInputs)
    assert kept.known is not None
    assert kept.mask.n_bytes <= n
    scores = (query.double() @ key.double().repeat_interleave(2, dim=1).transpose(-1, -2)) / WIDTH**0.5
    expected = scores.masked_fill(~visible, -torch.inf).logsumexp(-1)
    assert float((kept.known - expected).abs().max()) < 1e-5
