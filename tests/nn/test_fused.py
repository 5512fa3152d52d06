"""What a long run leaves of its rows: their log-sum-exps, at no cost and without another bit in the output."""

import pytest
import torch

from transformer.attention.capture import recording
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.nn import fused
from transformer.nn.attention import DotProductAttention
from transformer.nn.masks import Mask
from transformer.nn.run_context import changed_context

BATCH, HEADS, QUERIES, KEYS, D_K = 2, 3, 1031, 1039, 11


def inputs(dtype: torch.dtype, n_queries: int = QUERIES, n_keys: int = KEYS) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(7)
    q = torch.randn(BATCH, n_queries, HEADS, D_K, dtype=dtype).transpose(1, 2) * 3  # as layers make them: a view
    k, v = (torch.randn(BATCH, n_keys, HEADS, D_K, dtype=dtype).transpose(1, 2) for _ in range(2))
    return q, k, v


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_the_sums_are_those_of_the_rows_and_the_output_is_the_same_bits(dtype: torch.dtype, causal: bool) -> None:
    q, k, v = inputs(dtype, KEYS if causal else QUERIES)
    core = DotProductAttention(D_K).eval()
    with torch.inference_mode():
        plain = core(q, k, v, Mask(causal=causal))
        assert fused.row_sums() is None
        with changed_context(row_sums=[]):
            noted = core(q, k, v, Mask(causal=causal))
            sums = fused.row_sums()
            assert fused.row_sums() is None
    assert torch.equal(plain, noted)
    assert sums is not None
    scores = q.double() @ k.double().transpose(-1, -2) / D_K**0.5
    if causal:
        scores = scores.masked_fill(torch.ones(KEYS, KEYS).triu(1).bool(), -torch.inf)
    bound = 1e-5 if dtype is torch.float32 else 1e-12
    assert (sums - scores.exp().sum(-1).log()).abs().max() < bound


def test_a_first_look_at_a_part_of_a_recorded_row_computes_that_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = inputs(torch.float64)
    with torch.inference_mode(), changed_context(row_sums=[]):
        DotProductAttention(D_K).eval()(q, k, v, Mask())
        kept = AttentionInputs(q, k, Mask(), D_K**-0.5, known=fused.row_sums())
    monkeypatch.setattr(AttentionInputs, "_whole_rows", lambda *_: pytest.fail("whole rows were computed"))
    part = kept.weights(1, 2, slice(17, 40), slice(501, 530))
    expected = torch.softmax(q[1, 2, 17:40] @ k[1, 2].T / D_K**0.5, -1)[:, 501:530]
    assert (part - expected).abs().max() < 1e-12


@pytest.mark.parametrize("causal", [False, True])
def test_an_overview_of_a_recorded_run_is_the_maxima_of_its_blocks(causal: bool) -> None:
    q, k, v = inputs(torch.float64, KEYS)
    with torch.inference_mode(), changed_context(row_sums=[]):
        DotProductAttention(D_K).eval()(q, k, v, Mask(causal=causal))
        kept = AttentionInputs(q, k, Mask(causal=causal), D_K**-0.5, known=fused.row_sums())
    scores = q[1, 2] @ k[1, 2].T / D_K**0.5
    weights = torch.softmax(scores.masked_fill(torch.ones(KEYS, KEYS).triu(1).bool() & causal, -torch.inf), -1)
    for n_keys, width in ((KEYS, 37), (1001, 1), (1001, 100)):
        found = kept.block_maxima(1, 2, slice(401, 457), slice(0, n_keys), width)
        expected = [weights[401:457, at : min(at + width, n_keys)].amax(-1) for at in range(0, n_keys, width)]
        assert (found - torch.stack(expected, -1)).abs().max() < 1e-12


def test_what_is_short_masked_trained_or_of_other_values_runs_as_ever() -> None:
    core = DotProductAttention(D_K, dropout=0.5)
    q, k, v = inputs(torch.float32, 5, 7)
    hidden = Mask(keys=torch.arange(KEYS)[None] < 1000)
    long = inputs(torch.float32)
    wide = torch.cat([long[2], long[2]], dim=-1)
    with changed_context(row_sums=[]):
        with torch.inference_mode():
            core.eval()(q, k, v, Mask())
            core(*long, hidden)
            core(long[0], long[1], wide, Mask())
        assert fused.row_sums() is None
        core(*long, Mask())  # gradients are kept
        core.train()
        with torch.inference_mode():
            core(*long, Mask())
        assert fused.row_sums() is None


def test_only_who_records_is_noted() -> None:
    with torch.inference_mode():
        with recording():
            DotProductAttention(D_K).eval()(*inputs(torch.float32), Mask())
            assert fused.row_sums() is not None
        DotProductAttention(D_K).eval()(*inputs(torch.float32), Mask())
        assert fused.row_sums() is None


def test_attention_without_the_largest_score_of_each_row_is_exact_or_refused() -> None:
    q, k, v = (torch.randn(2, 3, 19, 5, generator=torch.Generator().manual_seed(i)) for i in range(3))
    found = fused.quick_attention(q, k, v, 0.4)
    assert found is not None
    fused_one = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.4)
    torch.testing.assert_close(found, fused_one, atol=2e-6, rtol=1e-5)
    for scale in (200.0, -200.0):  # each row has one key of which all others are far: no sum is held
        assert fused.quick_attention(q.abs(), k.abs(), v, scale) is None


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_table_that_is_wanted_is_the_softmax_and_mixes_the_values(causal: bool, padded: bool) -> None:
    q, k, v = inputs(torch.float32, 13, 13 if causal else 17)
    real = torch.ones(BATCH, k.shape[2], dtype=torch.bool)
    real[1, 11:] = not padded
    core = DotProductAttention(D_K).eval()
    with torch.inference_mode(), changed_context(weights=[]):
        mixed = core(q, k, v, Mask(real, causal))
        table = fused.whole_weights()
        assert fused.whole_weights() is None
    assert table is not None
    scores = q.double() @ k.double().mT / D_K**0.5
    hidden = ~real[:, None, None].expand(scores.shape)
    if causal:
        hidden = hidden | torch.ones(13, 13).triu(1).bool()
    expected = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    assert (table - expected).abs().max() < 1e-6
    assert (mixed - expected @ v.double()).abs().max() < 1e-5


@pytest.mark.parametrize("case", ["scores of hundreds", "a row that sees nothing", "a long text", "slopes", "doubles"])
def test_where_a_table_would_not_be_exact_or_small_the_same_bits_run_and_none_is_left(case: str) -> None:
    long = case == "a long text"
    q, k, v = inputs(torch.float64 if case == "doubles" else torch.float32, *((257, 263) if long else (13, 17)))
    q = q * 200 if case == "scores of hundreds" else q
    real = torch.ones(BATCH, k.shape[2], dtype=torch.bool)
    real[1] = case != "a row that sees nothing"
    core = DotProductAttention(D_K).eval()
    with torch.set_grad_enabled(case == "slopes"):
        plain = core(q, k, v, Mask(real))
        with changed_context(weights=[]):
            assert torch.equal(core(q, k, v, Mask(real)), plain)
            assert fused.whole_weights() is None


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_map_is_that_of_torch_and_equal_to_rounding_where_a_pass_may_be_quick(bias: bool) -> None:
    torch.manual_seed(11)
    ours, x = fused.Linear(13, 17, bias=bias), torch.randn(3, 19, 13)
    with torch.inference_mode():
        expected = torch.nn.functional.linear(x, ours.weight, ours.bias)
        assert torch.equal(ours(x), expected)
        assert torch.equal(ours.relu(x), expected.clamp(min=0))
        with changed_context(is_quick=True):
            torch.testing.assert_close(ours(x), expected, atol=2e-6, rtol=1e-5)
            torch.testing.assert_close(ours.relu(x), expected.clamp(min=0), atol=2e-6, rtol=1e-5)
            ours, x = ours.double(), x.double()
            assert torch.equal(ours(x), torch.nn.functional.linear(x, ours.weight, ours.bias))
