"""What a recording keeps and shows: the inputs of a fused softmax (masks, biases, row sums), and labels of its axes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedmap import Axis, Intervention, Record, RecordError, intervening, recording
from heedmap.attention.softmax_inputs import AttentionInputs
from heedmap.attention.tables import RelativeBias
from heedmap.nn import fused
from tests.attention.recording.case import assert_seen, softmax, watched

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
        seen, _ = watched(module, query, key, value, enable_gqa=True, **options)
    kept = seen.source("Attends")
    assert isinstance(kept, AttentionInputs)
    assert kept.known is not None
    assert kept.mask.n_bytes <= n
    scores = (query.double() @ key.double().repeat_interleave(2, dim=1).transpose(-1, -2)) / WIDTH**0.5
    expected = scores.masked_fill(~visible, -torch.inf).logsumexp(-1)
    assert float((kept.known - expected).abs().max()) < 1e-5


@pytest.mark.usefixtures("in_doubles")
@pytest.mark.parametrize(("of_queries", "of_keys"), [(1, 3), (3, 1), (2, 2), (0, 3), (3, 0)])
@pytest.mark.parametrize("heads", ["each", "shared keys", "shared queries", "none"])
def test_fused_queries_and_keys_of_one_sentence_serve_all(of_queries: int, of_keys: int, heads: str) -> None:
    def sized(batch: int, shared: bool, n: int) -> Tensor:
        """Without a batch axis where there is none."""
        return torch.randn(*(batch,) * bool(batch), *(() if heads == "none" else (1 if shared else 5,)), n, 4)

    q = sized(of_queries, heads == "shared queries", 7)
    k, v = (sized(of_keys, heads == "shared keys", 11) for _ in range(2))
    seen, output = watched(Attends(), q, k, v)
    weights = softmax(torch.einsum("...qd,...kd->...qk", q, k) / 2)
    assert_seen(seen, "Attends", weights[:, None] if heads == "none" else weights)
    if heads != "none":
        with recording(seen.module), intervening(Intervention("Attends", "uniform", heads=3)):
            changed = seen.module(q, k, v)
        output[:, 3] = v[..., 0 if heads == "shared keys" else 3, :, :].mean(-2, keepdim=True)
        assert float((changed - output).abs().max()) < 1e-12


@pytest.mark.usefixtures("in_doubles")
@pytest.mark.parametrize("kind", ["bool", "-inf", "lowest"])
@pytest.mark.parametrize("hides", ["a head", "a row of a head", "a window by head", "a sentence of a head"])
@pytest.mark.parametrize("n", [7, 1031])
def test_what_is_hidden_from_one_head_alone_is_masked_in_it(kind: str, hides: str, n: int) -> None:
    """The truth is fused attention itself, given the identity for values."""
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, n, 4), torch.randn(2, 3, n, 4)
    sees = torch.ones(2, 3, 5, n, dtype=torch.bool)
    if hides == "a window by head":
        sees[:, 1] = sees[:, 1].tril()
        sees[:, 2] = False
    else:
        sees[1 if "sentence" in hides else slice(None), 1, 2 if "row" in hides else slice(None)] = False
    low = torch.finfo(torch.float64).min if kind == "lowest" else -torch.inf
    mask = sees if kind == "bool" else torch.zeros(sees.shape).masked_fill(~sees, low)
    expected = F.scaled_dot_product_attention(q, k, torch.eye(n).expand(2, 3, n, n), attn_mask=mask)
    seen, _ = watched(Attends(), q, k, v, attn_mask=mask)
    for _ in range(2):  # the second look knows the rows' sums
        assert_seen(seen, "Attends", expected)
        part = seen.map("Attends", batch=1).tile(1, slice(1, 4), slice(2, 5))
        assert abs(part - expected[1, 1, 1:4, 2:5].numpy()).max() < 1e-12
    record = seen.record(batch=1)
    for head, picture in enumerate(record["Attends"].pictures()[:3]):
        assert (picture.visible == (expected[1, head] > 0).numpy()).all()
    assert kind == "lowest" or any("fewer keys" in note for note in record.notes)


ROWS, COLUMNS = 3, 4


class Captioner(nn.Module):
    """Patches behind two tokens attend to each other; a text attends to the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.MultiheadAttention(10, 2, batch_first=True)
        self.tell = nn.MultiheadAttention(10, 5, batch_first=True)

    def forward(self, picture: Tensor, text: Tensor) -> Tensor:
        seen = self.see(picture, picture, picture)[0]
        return self.tell(text, seen, seen)[0]


@pytest.fixture
def seen():
    module = Captioner().eval()
    with torch.no_grad(), recording(module) as found:
        module(torch.randn(1, 2 + ROWS * COLUMNS, 10), torch.randn(1, 5, 10))
    return found


def test_a_grid_is_that_of_axes_with_so_many_patches_and_a_few_tokens_before_them(seen, tmp_path) -> None:
    record = seen.record(grid=(ROWS, COLUMNS))
    for axis in (record["see"].queries, record["see"].keys, record["tell"].keys):
        assert axis.grid == (ROWS, COLUMNS)
        assert axis.texts[:7] == ("0", "1", "0,0", "0,1", "0,2", "0,3", "1,0")
        assert axis.texts[-1] == "2,3"
    assert record["tell"].queries.grid is None
    assert record["tell"].queries.texts == ("0", "1", "2", "3", "4")
    record.save(tmp_path / "run.heedmap")
    again = Record.open(tmp_path / "run.heedmap")
    assert again["see"].keys == record["see"].keys


def test_labels_that_were_given_keep_their_texts_beside_a_grid(seen) -> None:
    patches = ["[CLS]", "[D]", *(f"p{i}" for i in range(12))]
    record = seen.record(queries=["a", "cat", "on", "a", "mat"], keys=patches, grid=(ROWS, COLUMNS))
    assert record["see"].keys.texts[:3] == ("[CLS]", "[D]", "p0")
    assert record["see"].keys.grid == (ROWS, COLUMNS)
    assert record["tell"].queries.grid is None
    assert seen.record(keys={"see": patches}, grid=(ROWS, COLUMNS))["see"].keys.texts[0] == "[CLS]"


@pytest.mark.parametrize(
    ("grid", "said"), [((4, 4), "they have 5, 14 positions"), ((7, 3), "at most 8 tokens"), ((0, 4), "at least 1")]
)
def test_a_grid_that_is_nowhere_is_refused(seen, grid, said) -> None:
    with pytest.raises(RecordError, match=said):
        seen.record(grid=grid)


def test_an_axis_made_from_offsets_labels_queries_and_keys_of_its_length(seen) -> None:
    axis = Axis.of_offsets("caption", "a catnip.", [(0, 0), (0, 1), (2, 5), (5, 8), (8, 9)])
    record = seen.record(queries=axis)
    assert record["tell"].queries is axis
    assert axis.words == (0, 1, 2, 2, 3)
    assert record["see"].queries.texts[0] == "0"
