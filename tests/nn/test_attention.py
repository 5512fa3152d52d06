"""Attention: masks and tables of positions against their definitions; what a fused run leaves of its rows."""

import pytest
import torch

from heedmap.attention.capture import recording
from heedmap.attention.softmax_inputs import AttentionInputs
from heedmap.nn import fused, masks
from heedmap.nn.attention import DotProductAttention
from heedmap.nn.common import changed_context
from heedmap.nn.masks import Mask
from heedmap.nn.positions import PositionConfig, Positions

IDS = torch.tensor([[5, 6, 7, 0, 0], [5, 6, 7, 8, 9]])
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("mask", "queries", "visible"),
    [
        (masks.padding(IDS[1:], pad_id=0), 3, None),  # no padding costs no mask
        (masks.padding(IDS, pad_id=0), 3, ["11100", "11111"]),  # for every query
        (masks.causal(IDS, pad_id=0), 5, ["10000 11000 11100 11100 11100", "10000 11000 11100 11110 11111"]),
        (Mask(causal=True), 2, ["11110 11111"]),  # fewer queries than keys are the last ones
    ],
)
def test_a_mask_hides_padding_and_the_future(mask: Mask, queries: int, visible: list[str] | None) -> None:
    dense = mask.dense(queries, 5, CPU)
    tables = None if dense is None else dense.int().squeeze(1).tolist()
    assert (tables and [" ".join("".join(map(str, row)) for row in table) for table in tables]) == visible


def test_fused_causal_equals_dense_causal() -> None:
    q, k, v = torch.randn(3, 2, 3, 5, 7, dtype=torch.float64).unbind(0)
    core = DotProductAttention(d_k=7).eval()
    fused = core(q, k, v, Mask(causal=True))
    dense = core(q, k, v, Mask(keys=torch.ones(2, 5, dtype=torch.bool), causal=True))
    torch.testing.assert_close(fused, dense, rtol=0, atol=1e-14)


def test_a_query_that_sees_nothing_returns_zeros() -> None:
    q, k, v = torch.randn(3, 1, 2, 3, 5, dtype=torch.float64).unbind(0)
    output = DotProductAttention(d_k=5).eval()(q, k, v, Mask(keys=torch.zeros(1, 3, dtype=torch.bool)))
    assert torch.equal(output, torch.zeros_like(output))


def test_start_continues_where_an_earlier_call_ended() -> None:
    x = torch.zeros(1, 5, 6, dtype=torch.float64)
    for kind, ready in (("sinusoidal", 2), ("learned", 5)):
        positions = Positions(PositionConfig(kind=kind), 6, ready).double()
        whole = positions(x)
        assert torch.equal(positions(x[:, 3:], start=3), whole[:, 3:])


def test_a_stored_table_is_not_trained_and_a_learned_one_is() -> None:
    tables = [Positions(PositionConfig(kind=kind, max_length=3), 4).table for kind in ("learned", "stored")]
    assert [table.requires_grad for table in tables] == [True, False]


BATCH, HEADS, QUERIES, KEYS, D_K = 2, 3, 1031, 1039, 11


def inputs(dtype: torch.dtype, n_queries: int = QUERIES, n_keys: int = KEYS) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(7)
    q = torch.randn(BATCH, n_queries, HEADS, D_K, dtype=dtype).transpose(1, 2) * 3  # as layers make them: a view
    k, v = (torch.randn(BATCH, n_keys, HEADS, D_K, dtype=dtype).transpose(1, 2) for _ in range(2))
    return q, k, v


def scores_of(q: torch.Tensor, k: torch.Tensor, hidden: torch.Tensor | bool = False) -> torch.Tensor:
    """By the definition, in double precision."""
    scores = q.double() @ k.double().mT / D_K**0.5
    return scores.masked_fill(torch.as_tensor(hidden), -torch.inf)


def future(n: int) -> torch.Tensor:
    """What a causal row does not see."""
    return torch.ones(n, n).triu(1).bool()


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
    scores = scores_of(q, k, causal and future(KEYS))
    bound = 1e-5 if dtype is torch.float32 else 1e-12
    assert (sums - scores.exp().sum(-1).log()).abs().max() < bound


def test_a_first_look_at_a_part_of_a_recorded_row_computes_that_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = inputs(torch.float64)
    with torch.inference_mode(), changed_context(row_sums=[]):
        DotProductAttention(D_K).eval()(q, k, v, Mask())
        kept = AttentionInputs(q, k, Mask(), D_K**-0.5, known=fused.row_sums())
    monkeypatch.setattr(AttentionInputs, "_whole_rows", lambda *_: pytest.fail("whole rows were computed"))
    part = kept.weights(1, 2, slice(17, 40), slice(501, 530))
    expected = scores_of(q[1, 2, 17:40], k[1, 2]).softmax(-1)[:, 501:530]
    assert (part - expected).abs().max() < 1e-12


@pytest.mark.parametrize("causal", [False, True])
def test_an_overview_of_a_recorded_run_is_the_maxima_of_its_blocks(causal: bool) -> None:
    q, k, v = inputs(torch.float64, KEYS)
    with torch.inference_mode(), changed_context(row_sums=[]):
        DotProductAttention(D_K).eval()(q, k, v, Mask(causal=causal))
        kept = AttentionInputs(q, k, Mask(causal=causal), D_K**-0.5, known=fused.row_sums())
    weights = scores_of(q[1, 2], k[1, 2], causal and future(KEYS)).softmax(-1)
    for n_keys, width in ((KEYS, 37), (1001, 1), (1001, 100)):
        found = kept.block_maxima(1, 2, slice(401, 457), slice(0, n_keys), width)
        expected = [weights[401:457, at : min(at + width, n_keys)].amax(-1) for at in range(0, n_keys, width)]
        assert (found - torch.stack(expected, -1)).abs().max() < 1e-12


def test_what_is_short_masked_trained_or_of_other_values_runs_as_ever() -> None:
    core = DotProductAttention(D_K)
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
    hidden = ~real[:, None, None]
    expected = scores_of(q, k, hidden | future(13) if causal else hidden).softmax(-1)
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
